"""The tools in a real sandbox, through the dispatcher as the loop calls them."""

from __future__ import annotations

import json

import pytest

from envelope.events import CallState
from sandbox.errors import SandboxLost
from workers.llm.base import ToolCall
from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS, parse_rules
from workers.tools.dispatch import run_calls
from workers.tools.registry import all_tools

pytestmark = pytest.mark.docker

TOOLS = all_tools()
OPEN = Guard(("*:*",), DEFAULTS)


def call(name: str, call_id: str = "c1", **arguments) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=json.dumps(arguments), input=arguments)


async def run(context, *calls: ToolCall, guard: Guard = OPEN, changes: list | None = None):
    return await run_calls(calls, TOOLS, context, guard, changes.append if changes is not None else lambda _: None)


async def one(context, name: str, **arguments):
    return (await run(context, call(name, **arguments)))[0]


async def put(context, path: str, content: bytes | str) -> None:
    await (await context.sandbox()).write(
        f"/workspace/{path}", content if isinstance(content, bytes) else content.encode()
    )


async def get(context, path: str) -> bytes:
    return await (await context.sandbox()).read(f"/workspace/{path}")


async def test_read_numbers_the_lines_and_says_where_to_go_on(context):
    await put(context, "a.txt", "".join(f"line {n}\n" for n in range(1, 2502)))

    first = (await one(context, "read", filePath="/workspace/a.txt")).content
    rest = (await one(context, "read", filePath="a.txt", offset=2001)).content
    two = (await one(context, "read", filePath="a.txt", offset=5, limit=2)).content

    assert "<path>/workspace/a.txt</path>" in first
    assert "\n1: line 1\n" in first and "2000: line 2000" in first and "2001: " not in first
    assert "(lines 1 to 2000 of 2501; go on with offset=2001)" in first
    assert "2501: line 2501" in rest and "(end of file, 2501 lines)" in rest
    assert "5: line 5\n6: line 6\n\n(lines 5 to 6 of 2501" in two


async def test_read_keeps_to_its_limits_of_bytes_and_of_a_line(context):
    await put(context, "wide.txt", "x" * 3000 + "\n" + "".join("y" * 1000 + "\n" for _ in range(100)))

    content = (await one(context, "read", filePath="wide.txt")).content

    assert "1: " + "x" * 2000 + "…" in content
    assert len(content.encode()) < 52_000
    assert "go on with offset=" in content


async def test_read_says_what_is_wrong_with_a_path(context):
    await put(context, "src/module.py", "x")
    await put(context, "image.png", b"\x89PNG")
    await put(context, "data", b"a\0b")
    calls = [
        call("read", filePath="src/modul.py"),
        call("read", filePath="image.png"),
        call("read", filePath="data"),
        call("read", filePath="src/module.py", offset=9),
    ]

    told = [result.content for result in await run(context, *calls)]

    assert "did you mean /workspace/src/module.py?" in told[0]
    assert "binary" in told[1] and "binary" in told[2]
    assert "past the end: the file has 1 lines" in told[3]


async def test_a_directory_is_listed_with_its_folders_marked(context):
    await put(context, "src/b.py", "x")
    await put(context, "a.txt", "x")

    assert (await one(context, "list")).content == "a.txt\nsrc/"
    assert "a.txt\nsrc/" in (await one(context, "read", filePath="/workspace")).content


async def test_glob_and_grep_find_files_and_lines(context):
    for name in ("src/a.py", "src/b.py", "src/c.txt"):
        await put(context, name, "first\nneedle here\n")

    globbed = await one(context, "glob", pattern="**/*.py")
    grepped = await one(context, "grep", pattern="need.e", include="*.py")
    nothing = await one(context, "grep", pattern="absent")
    broken = await one(context, "grep", pattern="(")

    assert sorted(globbed.content.split("\n")) == ["/workspace/src/a.py", "/workspace/src/b.py"]
    assert grepped.content.startswith("Found 2 matches")
    assert "/workspace/src/a.py:\n  Line 2: needle here" in grepped.content
    assert nothing.content == "No matches found."
    assert broken.is_error


async def test_grep_and_glob_stop_at_a_hundred_and_say_so(context):
    for n in range(101):
        await put(context, f"f{n}.txt", "needle\n")

    globbed = await one(context, "glob", pattern="*.txt")
    grepped = await one(context, "grep", pattern="needle")

    assert len(globbed.content.splitlines()) == 101 and "only the first 100" in globbed.content
    assert "Found 100 matches (there are more" in grepped.content
    assert "narrower" in globbed.content and "narrower" in grepped.content


async def test_an_edit_needs_a_read_and_one_of_what_is_there_now(context):
    await put(context, "a.py", "x = 1\n")

    unread = await one(context, "edit", filePath="a.py", oldString="x = 1", newString="x = 2")
    await one(context, "read", filePath="a.py")
    await put(context, "a.py", "x = 1\ny = 1\n")
    stale = await one(context, "edit", filePath="a.py", oldString="x = 1", newString="x = 2")
    await one(context, "read", filePath="a.py")
    edited = await one(context, "edit", filePath="a.py", oldString="x = 1", newString="x = 2")
    again = await one(context, "edit", filePath="a.py", oldString="x = 2", newString="x = 3")

    assert "was not read" in unread.content and "has changed since" in stale.content
    assert not edited.is_error and not again.is_error
    assert await get(context, "a.py") == b"x = 3\ny = 1\n"
    assert context.may_have_written


async def test_an_edit_creates_a_file_that_is_not_there(context):
    made = await one(context, "edit", filePath="new/a.py", oldString="", newString="x\n")
    missing = await one(context, "edit", filePath="absent.py", oldString="a", newString="b")

    assert (made.content, await get(context, "new/a.py")) == ("Created /workspace/new/a.py.", b"x\n")
    assert "does not exist" in missing.content


async def test_write_replaces_only_what_was_read_and_keeps_the_mark_of_bytes(context):
    await put(context, "a.txt", b"\xef\xbb\xbfold")

    blind = await one(context, "write", filePath="a.txt", content="new")
    await one(context, "read", filePath="a.txt")
    seen = await one(context, "write", filePath="a.txt", content="new")

    assert blind.is_error and not seen.is_error
    assert await get(context, "a.txt") == b"\xef\xbb\xbfnew"


async def test_a_file_that_is_no_text_is_not_edited(context):
    await put(context, "latin.txt", "caf\xe9\n".encode("latin-1"))
    await one(context, "read", filePath="latin.txt")

    assert "not UTF-8" in (await one(context, "edit", filePath="latin.txt", oldString="a", newString="b")).content


async def test_bash_tells_the_output_the_exit_code_and_the_time_out(context):
    good = await one(context, "bash", command="echo out; echo err >&2")
    silent = await one(context, "bash", command="true")
    bad = await one(context, "bash", command="echo no; exit 3", description="fails on purpose")
    slow = await one(context, "bash", command="echo begun; sleep 60", timeout=300)
    elsewhere = await one(context, "bash", command="pwd", workdir="/tmp")

    assert good.content.split() == ["out", "err"]
    assert silent.content == "(no output)"
    assert (bad.content, bad.is_error) == ("no\n(exit code 3)", False)
    assert bad.title == "fails on purpose"
    assert "begun" in slow.content and "longer than 300 ms" in slow.content
    assert elsewhere.content == "/tmp"


async def test_bash_keeps_the_end_of_long_output_and_the_rest_in_a_file(context):
    result = await one(context, "bash", command="seq 1 5000")

    assert result.content.endswith("\n4999\n5000")
    assert "\n3001\n" in result.content and "\n3000\n" not in result.content
    assert "/tmp/tool-output/c1.txt" in result.content
    assert "1: 1\n2: 2" in (await one(context, "read", filePath="/tmp/tool-output/c1.txt")).content


async def test_mistakes_of_the_model_are_told_to_it(context):
    not_json = ToolCall(id="c", name="read", arguments="{oops", input=None)
    results = await run(
        context,
        not_json,
        call("nothing"),
        call("read"),
        call("read", filePath=7),
        call("read", filePath="a", extra=1),
        call("READ", filePath="absent"),
    )

    assert all(result.is_error for result in results)
    words = [
        "not a JSON object",
        "there is no tool 'nothing'; there are: bash, ",
        "'filePath' is a required",
        "filePath: 7 is",
    ]
    for result, expected in zip(results, [*words, "'extra' was unexpected", "does not exist"], strict=True):
        assert expected in result.content


async def test_calls_run_together_and_answers_stand_in_their_order(context):
    first = call("bash", "1", command="while [ ! -e /tmp/go ]; do :; done; echo first")
    second = call("bash", "2", command="touch /tmp/go; echo second")

    results = await run(context, first, second, guard=Guard(("*:*",), parse_rules("allow")))

    assert [result.content for result in results] == ["first", "second"]


async def test_calls_that_touch_one_written_file_take_turns(context):
    await put(context, "a.py", "x = 1\n")

    results = await run(
        context,
        call("read", "1", filePath="a.py"),
        call("edit", "2", filePath="a.py", oldString="x = 1", newString="x = 2"),
        call("edit", "3", filePath="/workspace/a.py", oldString="x = 2", newString="x = 3"),
    )

    assert not any(result.is_error for result in results)
    assert await get(context, "a.py") == b"x = 3\n"


async def test_watchers_see_every_call_start_and_end(context):
    changes: list = []

    await run(context, call("bash", command="exit 1"), call("nothing", "c2"), changes=changes)

    first = [change for change in changes if change.call_id == "c1"]
    assert [change.state for change in first] == [CallState.RUNNING, CallState.COMPLETED]
    assert first[0].input == {"command": "exit 1"} and first[0].title == "exit 1"
    assert first[1].ended_at_ms >= first[1].started_at_ms > 0
    assert [change.state for change in changes if change.call_id == "c2"] == [CallState.ERROR]


async def test_a_lost_sandbox_ends_the_turn_and_all_its_calls(context):
    sandbox = await context.sandbox()
    await sandbox.close()

    with pytest.raises(SandboxLost):
        await run(context, call("bash", "1", command="true"), call("read", "2", filePath="a"))


async def test_a_long_argument_is_cut_in_the_event_and_whole_in_the_file(context):
    changes: list = []

    await run(context, call("write", filePath="big.txt", content="x" * 2_000_000), changes=changes)

    started = next(change for change in changes if change.state is CallState.RUNNING)
    assert len(started.model_dump_json()) < 10_000
    assert await get(context, "big.txt") == b"x" * 2_000_000
