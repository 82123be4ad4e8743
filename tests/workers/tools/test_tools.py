"""The tools in a real sandbox, through the dispatcher as the loop calls them."""

from __future__ import annotations

import asyncio
import itertools
import json
import re

import pytest

from envelope.events import CallState
from sandbox.base import Command, SandboxSpec
from sandbox.errors import SandboxLost
from workers.agents.registry import parse_agent
from workers.llm.base import ToolCall
from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS, parse_rules
from workers.tools.base import ToolResult
from workers.tools.dispatch import CANCELLED, CutOff, run_calls
from workers.tools.registry import all_tools, offered

pytestmark = pytest.mark.docker

TOOLS = all_tools()
OPEN = Guard(("*:*",), DEFAULTS)
FREE = Guard(("*:*",), parse_rules({"*": "allow"}))


def call(name: str, call_id: str = "c1", **arguments) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=json.dumps(arguments), input=arguments)


async def run(context, *calls: ToolCall, guard: Guard = OPEN, changes: list | None = None) -> list[ToolResult]:
    on_change = changes.append if changes is not None else lambda _: None
    results = await run_calls(calls, TOOLS, context, guard, on_change)
    return [result for result in results if isinstance(result, ToolResult)]


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


async def test_a_directory_is_read_in_parts(context):
    for name in ("a", "b", "c", "d"):
        await put(context, f"dir/{name}", "x")

    part = await one(context, "read", filePath="dir", offset=2, limit=2)
    rest = await one(context, "read", filePath="dir", offset=4)
    beyond = await one(context, "read", filePath="dir", offset=5)
    listed = await one(context, "list", path="dir")

    assert "<content>\nb\nc\n(entries 2 to 3, and there are more; `read` goes on with offset=4)" in part.content
    assert "<content>\nd\n</content>" in rest.content
    assert beyond.is_error and "past the end: the directory has 4 entries" in beyond.content
    assert listed.content == "a\nb\nc\nd"


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
    assert [one.metadata["exit_code"] for one in (good, bad)] == [0, 3]
    assert (good.metadata["timed_out"], slow.metadata["timed_out"]) == (False, True)


async def test_bash_keeps_the_end_of_long_output_and_the_rest_in_a_file(context):
    result = await one(context, "bash", command="seq 1 5000")

    assert result.content.endswith("\n4999\n5000")
    assert "\n3001\n" in result.content and "\n3000\n" not in result.content
    assert "/tmp/tool-output/c1.txt" in result.content
    assert "1: 1\n2: 2" in (await one(context, "read", filePath="/tmp/tool-output/c1.txt")).content


async def test_a_hook_sees_the_tool_that_runs_however_the_model_writes_its_name(context):
    class NoShell:
        async def before(self, call):
            return "no shell here" if call.name == "bash" else call

        async def after(self, call, result):
            return result

    context.hooks = NoShell()

    assert (await one(context, "BASH", command="echo it ran")).content == "no shell here"


MANY_FILES = "\n".join(["*** Begin Patch", *(f"*** Add File: f{n}\n+x" for n in range(1001)), "*** End Patch"])


async def test_mistakes_of_the_model_are_told_to_it(context):
    not_json = ToolCall(id="c", name="read", arguments="{oops", input=None)
    results = await run(
        context,
        not_json,
        call("nothing"),
        call("read"),
        call("read", filePath=7),
        call("read", filePath="a", extra=1),
        call("read", filePath="a/" * 4000),
        call("apply_patch", patchText=MANY_FILES),
        call("READ", filePath="absent"),
    )

    assert all(result.is_error for result in results)
    words = [
        "not a JSON object",
        "there is no tool 'nothing'; there are: apply_patch, bash, ",
        "'filePath' is a required",
        "filePath: 7 is",
    ]
    words += ["'extra' was unexpected", "names of 4096 characters", "at most 1000 files", "does not exist"]
    for result, expected in zip(results, words, strict=True):
        assert expected in result.content


async def test_calls_run_together_and_answers_stand_in_their_order(context):
    first = call("bash", "1", command="while [ ! -e /tmp/go ]; do :; done; echo first")
    second = call("bash", "2", command="touch /tmp/go; echo second")

    results = await run(context, first, second, guard=Guard(("*:*",), parse_rules("allow")))

    assert [result.content for result in results] == ["first", "second"]


async def test_calls_that_are_cut_off_keep_what_they_had_and_say_so(context):
    changes: list = []
    waits = asyncio.Event()

    def watch(change) -> None:
        changes.append(change)
        if change.call_id == "1" and change.ended_at_ms:
            waits.set()

    quick, slow = call("bash", "1", command="echo done"), call("bash", "2", command="sleep 600")
    guard = Guard(("*:*",), parse_rules("allow"))
    running = asyncio.create_task(run_calls([quick, slow], all_tools(), context, guard, watch))
    await waits.wait()

    running.cancel()
    with pytest.raises(CutOff) as cut:
        await running

    assert [result.content for result in cut.value.results] == ["done", CANCELLED.content]
    ended = {change.call_id: change.state for change in changes}
    assert ended == {"1": CallState.COMPLETED, "2": CallState.ERROR}


async def test_a_command_that_is_stopped_keeps_its_output_so_far(context):
    sandbox = await context.sandbox()
    slow = call("bash", command="echo half; echo of it >&2; touch /tmp/said; sleep 600")
    running = asyncio.create_task(run_calls([slow], TOOLS, context, OPEN, lambda _: None))
    await sandbox.exec(Command("until [ -e /tmp/said ]; do sleep 0.05; done"))

    running.cancel()
    with pytest.raises(CutOff) as cut:
        await running

    assert cut.value.results[0].content == f"{CANCELLED.content}\nIts output until then:\nhalf\nof it"
    assert cut.value.results[0].is_error and context.cut_short == {}


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


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def test_a_patch_adds_changes_moves_and_deletes(context):
    for name in ("a.py", "old.sh", "gone.txt"):
        await put(context, name, "x = 1\n")
        await one(context, "read", filePath=name)
    await (await context.sandbox()).write("/workspace/old.sh", b"x = 1\n", mode=0o755)

    result = await one(
        context,
        "apply_patch",
        patchText=patch(
            *["*** Add File: new/b.py", "+y", "*** Update File: a.py", "@@", "-x = 1", "+x = 2"],
            *["*** Update File: old.sh", "*** Move to: /workspace/bin/new.sh", "*** Delete File: gone.txt"],
        ),
    )

    assert (result.content, result.is_error) == ("A new/b.py\nM a.py\nM bin/new.sh\nD gone.txt", False)
    assert result.title == "new/b.py and 4 more"
    assert (await get(context, "new/b.py"), await get(context, "a.py")) == (b"y\n", b"x = 2\n")
    assert (await (await context.sandbox()).stat("/workspace/bin/new.sh")).mode & 0o777 == 0o755
    assert (await one(context, "list")).content == "a.py\nbin/\nnew/"
    assert "--- a/a.py\n+++ b/a.py\n@@ -1,1 +1,1 @@\n-x = 1\n+x = 2\n" in result.metadata["diff"]
    assert "--- a/gone.txt\n+++ /dev/null\n" in result.metadata["diff"]
    again = await one(context, "edit", filePath="bin/new.sh", oldString="x = 1", newString="x = 3")
    assert not again.is_error and context.may_have_written


async def test_a_patch_is_applied_whole_or_not_at_all(context):
    await put(context, "a.py", "x = 1\n")
    await one(context, "read", filePath="a.py")
    change = ["*** Update File: a.py", "@@", "-x = 1", "+x = 2"]

    misfit = await one(context, "apply_patch", patchText=patch("*** Add File: b", "+b", *change, "@@", "-y", "+z"))
    blocked = await one(
        context, "apply_patch", patchText=patch("*** Add File: b", "+b", *change, "*** Add File: a.py/c")
    )
    stray = await one(context, "apply_patch", patchText=patch("*** Add File: b", "+b", "oops"))

    assert "no such lines" in misfit.content and blocked.is_error and "line 4: 'oops'" in stray.content
    assert await get(context, "a.py") == b"x = 1\n"
    assert (await one(context, "list")).content == "a.py"


async def test_a_patch_needs_a_read_of_every_file_that_it_changes(context):
    sections = {
        "a": ["*** Update File: a", "@@", "-x", "+y"],
        "b": ["*** Delete File: b"],
        "c": ["*** Add File: c", "+y"],
        "d": ["*** Add File: e", "+y", "*** Update File: e", "*** Move to: ./d"],
    }
    for name in sections:
        await put(context, name, "x\n")

    blind = {name: await one(context, "apply_patch", patchText=patch(*lines)) for name, lines in sections.items()}
    for name in sections:
        await one(context, "read", filePath=name)
    await put(context, "a", "x\nx\n")
    stale = await one(context, "apply_patch", patchText=patch(*sections["a"]))
    await one(context, "read", filePath="a")
    seen = await one(context, "apply_patch", patchText=patch(*(line for lines in sections.values() for line in lines)))

    for name, result in blind.items():
        assert f"/workspace/{name} was not read" in result.content
    assert "has changed since" in stale.content
    assert not seen.is_error and (await one(context, "list")).content == "a\nc\nd"


async def test_a_patch_asks_for_every_path_that_it_names(context):
    guard = Guard(("*:*",), (*DEFAULTS, *parse_rules({"edit": {"secret/*": "deny"}})))
    text = patch("*** Add File: a", "+a", "*** Update File: a", "*** Move to: src/../secret/a")

    denied = (await run(context, call("apply_patch", patchText=text), guard=guard))[0]
    outside = await one(context, "apply_patch", patchText=patch("*** Add File: /etc/x", "+a"))

    assert "not allowed: edit 'secret/a'" in denied.content
    assert "not allowed: external_directory '/etc/*'" in outside.content
    assert (await one(context, "list")).content == "(empty directory)"


async def test_every_tool_that_writes_leaves_its_diff(context):
    wrote = await one(context, "write", filePath="a", content="x\n")
    edited = await one(context, "edit", filePath="a", oldString="x", newString="y")

    assert wrote.metadata == {"diff": "--- /dev/null\n+++ b/a\n@@ -0,0 +1,1 @@\n+x\n"}
    assert edited.metadata == {"diff": "--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-x\n+y\n"}


async def test_after_a_match_that_was_not_exact_the_model_sees_what_went(context):
    await put(context, "a.py", "if a:\n\tb()\n\tc()\n")
    await one(context, "read", filePath="a.py")

    exact = await one(context, "edit", filePath="a.py", oldString="c()", newString="d()")
    loose = await one(context, "edit", filePath="a.py", oldString="    b()\n    d()", newString="    e()\n    d()")
    patched = await one(
        context, "apply_patch", patchText=patch("*** Update File: a.py", "@@", "-    e()", "+    f()", "     d()")
    )

    assert exact.content == "Edited /workspace/a.py."
    assert "not in it as you wrote it" in loose.content and "\n-\tb()\n+\te()\n" in loose.content
    assert patched.content.startswith("M a.py\n") and "\n-\te()\n+\tf()\n" in patched.content
    assert await get(context, "a.py") == b"if a:\n\tf()\n\td()\n"


async def test_text_with_lines_left_out_replaces_no_file(context):
    await put(context, "a.py", "x = 1\ny = 2\n")
    await one(context, "read", filePath="a.py")
    lazy = "x = 2\n# ... rest of the code remains unchanged\n"

    written = await one(context, "write", filePath="a.py", content=lazy)
    edited = await one(context, "edit", filePath="a.py", oldString="x = 1\ny = 2\n", newString=lazy)
    new = await one(context, "write", filePath="b.py", content=lazy)

    assert "would be lost" in written.content and "would be lost" in edited.content and not new.is_error
    assert await get(context, "a.py") == b"x = 1\ny = 2\n"


async def test_a_file_that_is_no_text_may_be_replaced(context):
    await put(context, "latin.txt", b"caf\xe9\n")
    await one(context, "read", filePath="latin.txt")

    assert not (await one(context, "write", filePath="latin.txt", content="x")).is_error


async def test_what_a_patch_had_done_when_it_failed_is_put_back_with_its_mode(context):
    sandbox = await context.sandbox()
    await put(context, "old.sh", "x\n")
    await sandbox.exec(Command(["chmod", "755", "old.sh"]))
    await put(context, "locked/b", "y\n")
    await put(context, "c", "z\n")
    for name in ("old.sh", "locked/b", "c"):
        await one(context, "read", filePath=name)
    await sandbox.exec(Command(["chmod", "555", "locked"]))
    moved = ["*** Update File: c", "*** Move to: d", "@@", "-z", "+w"]

    failed = await one(
        context, "apply_patch", patchText=patch("*** Delete File: old.sh", *moved, "*** Delete File: locked/b")
    )

    assert failed.is_error and "could not be deleted" in failed.content
    assert (await one(context, "list")).content == "c\nlocked/\nold.sh"
    assert (await get(context, "c"), await get(context, "old.sh")) == (b"z\n", b"x\n")
    assert (await sandbox.stat("/workspace/old.sh")).mode & 0o777 == 0o755
    assert not (await one(context, "edit", filePath="c", oldString="z", newString="v")).is_error


async def test_links_and_folders_are_put_back_as_they_were_when_a_patch_fails(context):
    sandbox = await context.sandbox()
    await put(context, "real/a", "x\n")
    await put(context, "locked/b", "y\n")
    await sandbox.exec(Command("ln -s real/a link; ln -s real/a moved; ln -s real/later dangling; chmod 555 locked"))
    for name in ("link", "moved", "locked/b"):
        await one(context, "read", filePath=name)
    made = ["*** Add File: new/deep/c", "+c", "*** Add File: dangling", "+d"]
    moved = ["*** Update File: moved", "*** Move to: elsewhere", "@@", "-x", "+z"]
    gone = ["*** Delete File: link", "*** Delete File: locked/b"]

    failed = await one(context, "apply_patch", patchText=patch(*made, *moved, *gone))

    assert failed.is_error and failed.content.startswith("Error: /workspace/locked/b could not be deleted")
    listed = await sandbox.exec(Command("find . -mindepth 1 -printf '%p%y%l\n' | sort"))
    assert listed.output.decode().split() == [
        *(
            "./danglinglreal/later",
            "./linklreal/a",
            "./locked/bf",
            "./lockedd",
            "./movedlreal/a",
            "./real/af",
            "./reald",
        )
    ]
    assert not (await one(context, "edit", filePath="link", oldString="x", newString="w")).is_error


async def test_a_file_that_a_patch_adds_where_one_is_counts_as_changed(context):
    await put(context, "a", "x\n")
    await one(context, "read", filePath="a")

    result = await one(context, "apply_patch", patchText=patch("*** Add File: a", "+y", "*** Add File: b", "+y"))

    assert result.content == "M a\nA b"


@pytest.mark.parametrize("name", ["edit", "Edit"])
async def test_arguments_may_be_named_as_other_agents_name_them(context, name):
    guard = Guard(("*:*",), (*DEFAULTS, *parse_rules({"edit": {"secret/*": "deny"}})))
    seen = []

    class Hooks(type(context.hooks)):
        async def before(self, call):
            seen.append(call.input)
            return call

    context.hooks = Hooks()
    await put(context, "a", "x x\n")
    await one(context, "read", file_path="a")
    words = {"old_string": "x", "new_string": "y"}

    done = await one(context, name, file_path="a", replace_all=True, **words)
    denied = (await run(context, call(name, file_path="secret/a", **words), guard=guard))[0]
    both = await one(context, name, file_path="a", filePath="b", **words)

    assert not done.is_error and await get(context, "a") == b"y y\n"
    assert seen[1] == {"filePath": "a", "replaceAll": True, "oldString": "x", "newString": "y"}
    assert "not allowed: edit 'secret/a'" in denied.content
    assert "'file_path' was unexpected" in both.content


async def test_two_names_of_one_file_are_not_changed_by_one_patch(context):
    await put(context, "a", "x\ny\n")
    await (await context.sandbox()).exec(Command(["ln", "-s", "a", "b"]))
    context.resolve = (await context.sandbox()).resolve
    for name in ("a", "b"):
        await one(context, "read", filePath=name)
    body = ["*** Update File: a", "@@", "-x", "+1", "*** Update File: b", "@@", "-y", "+2"]

    refused = await one(context, "apply_patch", patchText=patch(*body))

    assert "/workspace/b and /workspace/a are the same file" in refused.content
    assert await get(context, "a") == b"x\ny\n"


async def test_a_patch_that_is_stopped_in_the_middle_is_written_whole(context):
    names = [f"f{number:02}" for number in range(20)]
    text = patch(*(line for name in names for line in (f"*** Add File: {name}", f"+{name}")))
    sandbox, looks = await context.sandbox(), itertools.count()

    async def opened():  # each write asks for the sandbox: the call is stopped before the eighth, or so
        if next(looks) == 10:
            task.cancel()
        return sandbox

    context.sandbox = opened
    task = asyncio.create_task(run_calls([call("apply_patch", patchText=text)], TOOLS, context, OPEN, lambda _: None))
    with pytest.raises(CutOff):
        await task

    assert next(looks) > 20
    assert (await one(context, "list")).content == "\n".join(names)


async def test_half_a_surrogate_pair_is_refused_as_no_text(context):
    broken = json.loads('"\\ud800"')
    calls = [
        call("write", filePath="a", content=broken),
        call("edit", filePath="b", oldString="", newString=broken),
        call("apply_patch", patchText=patch("*** Add File: c", f"+{broken}")),
    ]

    assert all("half a surrogate pair" in result.content for result in await run(context, *calls))


AGENT = parse_agent("tester", "---\ndescription: edits\nmode: primary\n---\nYou edit.")


@pytest.mark.parametrize(
    ("model", "editors"),
    [
        ("openai/gpt-5.1-codex", {"apply_patch"}),
        ("gpt-5", {"apply_patch"}),
        ("openai/gpt-4.1", {"edit", "write"}),
        ("openai/gpt-oss-120b", {"edit", "write"}),
        ("anthropic/claude-sonnet", {"edit", "write"}),
        ("", {"edit", "write"}),
    ],
)
def test_a_model_is_offered_the_editing_tools_that_it_knows(model: str, editors: set[str]):
    tools = {tool.name for tool in offered(AGENT, OPEN, None, {}, model=model)}
    none = {tool.name for tool in offered(AGENT, Guard(("read:*",), DEFAULTS), None, {}, model=model)}

    assert tools & {"apply_patch", "edit", "write"} == editors
    assert none == {"read"}


def test_who_may_edit_may_patch():
    assert [tool.name for tool in offered(AGENT, OPEN, ["read", "edit"], {}, model="gpt-5")] == ["apply_patch", "read"]


async def test_a_cd_holds_for_the_next_call(context):
    moved = await one(context, "bash", command="mkdir -p src/a /tmp/b; cd src && exit 3")
    here = await one(context, "bash", command="pwd")
    for_once = await one(context, "bash", command="cd a; pwd", workdir="/tmp")
    left = await one(context, "bash", command="(cd a && pwd); cd missing || sh -c 'cd a'")
    deeper = await one(context, "bash", command="cd a\nset -e\nfalse")
    back = await one(context, "bash", command="pwd; cd ../..")

    assert moved.content == "(no output)\n(exit code 3)\n(the working directory is /workspace/src now)"
    assert here.content == "/workspace/src"
    assert "now)" not in for_once.content + left.content
    assert left.content.startswith("/workspace/src/a\n")
    assert "(the working directory is /workspace/src/a now)" in deeper.content
    assert back.content == "/workspace/src/a\n(the working directory is /workspace now)"
    assert context.cwd == ""
    assert (await one(context, "bash", command="ls -A /tmp")).content == "b"


async def test_a_path_is_judged_from_where_the_last_cd_went(context):
    await one(context, "bash", command="mkdir -p /tmp/b/c src; cd /tmp/b/c")

    denied = await one(context, "bash", command="cat ../../../etc/passwd")
    read = await one(context, "bash", command="cat ../x")
    elsewhere = await one(context, "bash", command="cd /etc && ls")

    assert denied.is_error and "'/etc/*' needs a person's approval" in denied.content
    assert "No such file" in read.content and not read.is_error
    assert elsewhere.is_error and context.cwd == "/tmp/b/c"


async def test_links_do_not_lead_a_cd_elsewhere(context):
    context.resolve = (await context.sandbox()).resolve
    await one(context, "bash", command="ln -s /etc out; ln -s . here")

    through = await one(context, "bash", command="cd out && cat passwd")
    above = await one(context, "bash", command="cd here && cat ../etc/passwd")

    assert through.is_error and above.is_error
    assert "root:" not in through.content + above.content


async def test_a_working_directory_that_is_gone_is_told_and_left(context):
    await one(context, "bash", command="mkdir -p /tmp/b; cd /tmp/b")
    await one(context, "bash", command="rm -r /tmp/b")

    gone = await one(context, "bash", command="touch x")
    after = await one(context, "bash", command="pwd; ls")

    assert gone.is_error and "nothing was run: the working directory /tmp/b is gone" in gone.content
    assert after.content == "/workspace"


async def test_what_a_command_leaves_running_is_told(context):
    left = await one(
        context, "bash", command="sleep 611 >/dev/null 2>&1 & setsid sleep 612 >/dev/null 2>&1 & echo begun"
    )
    after = await one(context, "bash", command="echo next | cat")

    assert left.content.startswith("begun\n(left running, until this task ends or any command takes too long: ")
    assert "sleep 611" in left.content and "sleep 612" in left.content
    assert after.content == "next"


async def begun(context, command: str, **arguments) -> str:
    """The id of a command in the background."""
    started = await one(context, "bash", command=command, run_in_background=True, **arguments)
    assert not started.is_error and started.metadata["bash_id"] in started.content
    return started.metadata["bash_id"]


async def test_a_command_in_the_background_is_heard_from_where_one_last_looked(context):
    await one(context, "bash", command="mkdir sub")
    name = await begun(
        context, "cd sub; echo first; touch up; until [ -e go ]; do sleep 0.01; done; printf 'ä'; exit 3"
    )
    await one(context, "bash", command="until [ -e sub/up ]; do sleep 0.01; done")

    first = await one(context, "bash_output", bash_id=name, timeout=50)
    nothing = await one(context, "bash_output", bash_id=name)
    moved = await one(context, "bash", command="pwd; touch sub/go")
    last = await one(context, "bash_output", bash_id=name, timeout=60_000)
    again = await one(context, "bash_output", bash_id=name)

    assert re.fullmatch(r"first\n\(still running, for \d+ s\)", first.content)
    assert re.fullmatch(r"\(no new output\)\n\(still running, for \d+ s\)", nothing.content)
    assert moved.content.splitlines()[0] == "/workspace"
    assert re.fullmatch(r"ä\n\(ended after \d+ s, exit code 3\)", last.content)
    assert re.fullmatch(r"\(no new output\)\n\(ended after \d+ s, exit code 3\)", again.content)
    assert [each.metadata["exit_code"] for each in (first, last)] == [None, 3]


async def test_the_end_of_a_command_in_the_background_is_told_once_with_the_next_call(context):
    name = await begun(context, "until [ -e /tmp/go ]; do sleep 0.01; done; exit 4")
    other = await begun(context, "sleep 600")

    quiet = await one(context, "bash", command="touch /tmp/go; echo went on")
    await context.commands[name].job.peek(wait_s=60)
    told = await one(context, "bash_output", bash_id=other)
    after = await one(context, "bash", command="echo after")

    assert quiet.content.splitlines()[0] == "went on"
    ends = [line for each in (quiet, told) for line in each.content.splitlines() if f"{name} has ended" in line]
    assert len(ends) == 1 and "exit code 4" in ends[0] and "until [ -e /tmp/go ]" in ends[0]
    assert after.content == "after"


async def test_a_command_in_the_background_is_stopped_with_all_its_processes(context):
    name = await begun(context, "echo said; setsid sleep 633 & sleep 633; echo never")
    await one(context, "bash", command="until pgrep -fx 'sleep 633'; do sleep 0.01; done")

    stopped = await one(context, "bash_stop", bash_id=name)
    again = await one(context, "bash_stop", bash_id=name)
    gone = await one(
        context, "bash", command="while pgrep -fx 'sleep 633'; do sleep 0.01; done; echo gone", timeout=20_000
    )

    assert stopped.content.startswith("said\n(ended after ") and stopped.content.endswith("exit code 137)\n(stopped)")
    assert again.content.endswith("(it had ended before)") and not again.is_error
    assert gone.content == "gone"


async def test_a_time_out_ends_leftovers_and_no_command_in_the_background(context):
    name = await begun(context, "sleep 644")

    late = await one(context, "bash", command="sleep 60", timeout=200)
    looked = await one(context, "bash_output", bash_id=name)

    assert "longer than 200 ms" in late.content
    assert "still running" in looked.content


async def test_a_look_that_is_cut_off_loses_no_output(context):
    name = await begun(context, "echo once; until [ -e /tmp/go ]; do sleep 0.01; done")
    waits = asyncio.Event()
    look = call("bash_output", bash_id=name, timeout=60_000)
    running = asyncio.create_task(run_calls([look], TOOLS, context, OPEN, lambda _: waits.set()))
    await waits.wait()
    await one(context, "bash", command="touch /tmp/seen")  # the sandbox has the question before it

    running.cancel()
    with pytest.raises(CutOff):
        await running
    await one(context, "bash", command="touch /tmp/go")

    assert (await one(context, "bash_output", bash_id=name, timeout=60_000)).content.startswith("once\n(ended")


async def test_much_output_of_a_command_in_the_background_is_cut_and_what_is_lost_is_told(context):
    name = await begun(
        context,
        "seq 1 5000; touch /tmp/counted; until [ -e /tmp/go ]; do sleep 0.01; done; head -c 3000000 /dev/zero; echo",
    )

    await one(context, "bash", command="until [ -e /tmp/counted ]; do sleep 0.01; done")
    many = await one(context, "bash_output", bash_id=name)
    await one(context, "bash", command="touch /tmp/go")
    flood = await one(context, "bash_output", bash_id=name, timeout=60_000)

    assert many.content.startswith("(the beginning was cut; all of it is in /tmp/tool-output/c1.txt")
    assert "\n4999\n5000\n(still running" in many.content and "\n3000\n" not in many.content
    assert flood.content.startswith(f"({3_000_001 - (1 << 20)} bytes before this are lost")
    assert "\n(ended after" in flood.content


async def test_half_a_character_waits_for_its_other_half(context):
    name = await begun(
        context, "printf '\\303'; touch /tmp/half; until [ -e /tmp/go ]; do sleep 0.01; done; printf '\\244'"
    )
    await one(context, "bash", command="until [ -e /tmp/half ]; do sleep 0.01; done")

    half = await one(context, "bash_output", bash_id=name)
    await one(context, "bash", command="touch /tmp/go")
    whole = await one(context, "bash_output", bash_id=name, timeout=60_000)

    assert half.content.startswith("(no new output)") and whole.content.startswith("ä\n")


async def test_commands_in_the_background_are_few_and_end_with_their_sandbox(context, driver, image):
    missing = await one(context, "bash_output", bash_id="bash_00000000")
    names = [await begun(context, "sleep 655") for _ in range(8)]
    ninth = await one(context, "bash", command="sleep 655", run_in_background=True)
    nowhere = await one(context, "bash", command="true", workdir="/nowhere", run_in_background=True)

    async with await driver.open(SandboxSpec(image)) as sandbox:

        async def opened():
            return sandbox

        context.sandbox = opened
        gone = [await one(context, name, bash_id=names[0]) for name in ("bash_output", "bash_stop")]

    assert missing.is_error and "there are none" in missing.content
    assert ninth.is_error and "8 commands run in the background already; end one with bash_stop" in ninth.content
    assert names[0] in ninth.content and len({*names}) == 8
    assert nowhere.is_error and "/nowhere" in nowhere.content
    assert all(each.is_error and "a session that goes on has a new one" in each.content for each in gone)


async def test_a_command_in_the_background_is_judged_as_any_other(context):
    guard = Guard(("bash:**",), parse_rules({"bash": {"*": "allow", "rm *": "deny"}}))
    start = call("bash", command="cd src && rm -r x", run_in_background=True)
    nobody = Guard(("bash:**",), parse_rules({"bash": "deny"}))
    agent = parse_agent("mine", "---\ntools: [read, Bash]\n---\n")

    assert (await run(context, start, guard=guard))[0].is_error and context.commands == {}
    shell = {"bash", "bash_output", "bash_stop"}
    assert shell <= {tool.name for tool in offered(AGENT, guard, None, {})}
    assert not shell & {tool.name for tool in offered(AGENT, nobody, None, {})}
    assert {tool.name for tool in offered(agent, OPEN, ["bash"], {})} == shell


async def test_a_search_is_of_files_and_folders_alone(context):
    box = await context.sandbox()
    await box.exec(Command("mkfifo fifo; ln -s fifo link; ln -s /dev/zero zero"))

    for name in ("fifo", "link", "zero"):
        searched = await one(context, "grep", pattern="x", path=name)

        assert searched.is_error and searched.content == f"Error: /workspace/{name} is neither a file nor a folder."


async def test_a_search_that_took_too_long_has_not_found_that_there_is_nothing(context, monkeypatch):
    await put(context, "a.txt", "needle\n")
    monkeypatch.setattr("sandbox.tools.SEARCH_TIMEOUT_S", 0.0)

    for found in (await one(context, "grep", pattern="needle"), await one(context, "glob", pattern="*")):
        assert "was stopped" in found.content and "narrower" in found.content


async def test_a_command_that_is_too_long_is_told_so_and_moves_nobody(context):
    await one(context, "bash", command="mkdir sub; cd sub")

    [refused] = await run(context, call("bash", command=f"echo {'x' * 140_000}"), guard=FREE)

    assert refused.is_error and "128 KiB" in refused.content and len(refused.content) < 500
    assert (await one(context, "bash", command="pwd")).content == "/workspace/sub"


@pytest.mark.parametrize("text", ["mkdir a; cd a && rm -rf ../a", "cd src; exec true"])
async def test_a_folder_that_cannot_be_gone_on_in_is_told(context, text):
    await put(context, "src/a", "")

    left = await one(context, "bash", command=text)

    assert left.content.endswith("(where it ended cannot be told: the next call begins in /workspace)")
    assert (await one(context, "bash", command="pwd")).content == "/workspace"


async def test_a_file_that_holds_more_than_it_says_is_not_read_in_part(context, monkeypatch):
    monkeypatch.setattr("workers.tools.files.MAX_FILE_BYTES", 30)

    [grown] = await run(context, call("read", filePath="/proc/cpuinfo"), guard=FREE)  # of 0 bytes, as `stat` says

    assert grown.is_error and "more than 30 bytes" in grown.content


async def test_what_is_listed_and_cannot_be_opened_is_not_proposed_for_itself(context):
    await (await context.sandbox()).exec(Command("ln -s loop loop; touch \"$(printf 'bad\\377name')\""))

    for name in ("loop", "bad\\xffname"):
        told = await one(context, "read", filePath=name)

        assert told.is_error and "is listed, but cannot be opened by this name" in told.content


async def test_a_refusal_of_a_long_command_is_short(context):
    asks = Guard(("bash:**",), parse_rules({"bash": "ask"}))

    refused = (await run(context, call("bash", command=f"echo {'x' * 50_000}"), guard=asks))[0]

    assert refused.is_error and refused.content.startswith("not allowed: bash") and len(refused.content) < 2000
