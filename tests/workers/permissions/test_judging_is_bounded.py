"""What judges a command line runs in a worker's event loop, among the tasks of all tenants: its time has a bound."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator

import pytest

from workers.llm.base import ToolCall
from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS
from workers.permissions.runners import MAX_FOUND
from workers.permissions.shell import Unparsable, read
from workers.permissions.syntax import MAX_BYTES
from workers.tools.base import ToolContext, ToolResult
from workers.tools.bash import Bash
from workers.tools.dispatch import run_calls

GUARD = Guard(("bash:ls *", "bash:git *"), DEFAULTS)
MAX_CPU_S = 2.0  # on a slow machine; half a second is the worst that is known
SAMPLES, SEED = 30, 20

# What begins, repeats and ends a text: the programs that run others, and all that nests.
HEADS = (
    *(
        "find . ",
        "find . -exec ",
        "xargs ",
        "xargs -I a ",
        "env ",
        "sudo ",
        "timeout 5 ",
        "nice ",
        "sh -c '",
        'sh -c "',
    ),
    *("git ", "git -c a=b ", "docker run ", "parallel ", "ssh a ", "sed '", "sed '1", "awk '", "python -c '", "make "),
    *("cd a; ", "pushd b; ", "(cd c; ", "{ cd d; ", "for i in a; do ", "while a; do ", "if a; then ", "f() { ", "$("),
    *(
        "`",
        '"$(',
        "((",
        "[[ ",
        "case a in ",
        "cat <<E\n",
        "A=1 ",
        "<a ",
        "/bin/",
        "rm ",
        "read ",
        "export ",
        "x{",
        "tar ",
    ),
)
UNITS = (
    *("-exec a ", "-exec a \\; ", "-ok b + ", "a ", "-n ", "-u a ", "-C x ", "-c a=b ", "{", "{a,b} ", ",", "..", "}"),
    *(
        "(",
        ")",
        "a;",
        "a\n",
        " ",
        "\t",
        "\\ ",
        "1p;",
        "/a/",
        "s/a/b/;",
        "q ",
        "'a'",
        '"$a" ',
        "$(a) ",
        "${a}",
        "*",
        "[",
    ),
    *("~/ ", "../", "a/", "cd a;", "cd a && ", "pushd b; ", "(cd a); ", "rm a ", "git log; ", "A=1 ", "> a ", "<<E "),
    *(
        "| a ",
        "|| a ",
        "& ",
        "# ",
        "\u00e9",
        "=",
        "--a ",
        "-a",
        "1+",
        "if a; then b; fi; ",
        "for i in a; do cd b; done; ",
    ),
    *("sh -c 'a'; ", "env a; ", "xargs a; "),
)
TAILS = ("", "x", "'", '"', ")", "}", "; done", "; fi", "\nE\n", "`", "))", "]]", "; }", " esac", "%'")


def filled(head: str, unit: str, tail: str = "") -> str:
    """As long as a text may be."""
    room = MAX_BYTES - len((head + tail).encode())
    return head + unit * (room // len(unit.encode())) + tail


def judging_cpu_s(text: str) -> float:
    began = time.process_time()
    GUARD.judge(Bash().targets({"command": text}))
    return time.process_time() - began


# Each took from one second to many minutes.
COSTLY = {
    "a find of many commands": filled("find . ", "-exec a "),
    "which ask": filled("find . ", "-ok a "),
    "which hold code": filled("find . ", "-exec python -c "),
    "blanks behind an address of sed": filled("sed '1", " ", "%'"),
    "blanks behind a command of sed": filled("sed '1q", " ", "%'"),
    "variables behind a default": "echo ${a:-" + "$aa" * 2000 + "[!]}",  # each could be read in two ways
    "commas in a brace": filled("echo {", ","),
    "dots in a brace": filled("echo {", ".."),
    "braces without an end": filled("echo ", "{,"),
}


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY)
def test_a_text_is_judged_soon(text: str):
    assert judging_cpu_s(text) < MAX_CPU_S


def samples() -> Iterator[str]:
    chosen = random.Random(SEED)
    for _ in range(SAMPLES):
        heads = "".join(chosen.choices(HEADS, k=chosen.choice((1, 1, 2, 3))))
        units = "".join(chosen.choices(UNITS, k=chosen.choice((1, 1, 2, 3))))
        yield filled(heads, units, "".join(chosen.choices(TAILS, k=2)))


def test_whatever_is_repeated_and_nested_is_judged_soon():
    slow = {f"{text[:60]}…{text[-20:]}": took_s for text in samples() if (took_s := judging_cpu_s(text)) > MAX_CPU_S}
    assert slow == {}


def test_a_find_of_more_commands_than_anybody_writes_is_not_understood():
    few, many = (f"find . {'-exec rm {} + ' * count}" for count in (MAX_FOUND, MAX_FOUND + 1))
    assert sum(command.name == "rm" for command in read(few).commands) == MAX_FOUND
    with pytest.raises(Unparsable, match="one find"):
        read(many)


def test_what_stands_in_each_other_is_judged_so_far():
    nested = "a $(" * 100 + "b" * 4000 + ")" * 100
    with pytest.raises(Unparsable, match="stand in each other"):
        read(nested)
    assert len(read("echo $(git log $(git rev-parse HEAD))").commands) == 3


async def test_other_tasks_go_on_while_a_turn_is_judged():
    async def no_sandbox():
        raise AssertionError

    context = ToolContext(no_sandbox, None, {})  # pyright: ignore[reportArgumentType]
    command = {"command": COSTLY["a find of many commands"]}
    calls = [ToolCall(id=str(n), name="bash", arguments=json.dumps(command), input=command) for n in range(3)]
    gaps_s, last = [0.0], time.monotonic()

    async def another_tenants_task() -> None:
        nonlocal last
        while True:
            gaps_s.append(time.monotonic() - last)
            last = time.monotonic()
            await asyncio.sleep(0)

    other = asyncio.create_task(another_tenants_task())
    results = await run_calls(calls, {"bash": Bash()}, context, Guard(("bash:ls *",), DEFAULTS), lambda _: None)
    other.cancel()
    assert all(isinstance(result, ToolResult) and result.is_error for result in results)
    assert max(gaps_s) < MAX_CPU_S
    assert len(gaps_s) > len(calls)
