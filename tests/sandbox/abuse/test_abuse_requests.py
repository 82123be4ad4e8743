"""Requests that a model may make and no person would: each is answered in words, and the sandbox goes on.

One sandbox for all of them: whoever ends it fails the test by name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any

import pytest

from sandbox.base import Command, Limits, Sandbox, SandboxSpec
from sandbox.errors import LimitExceeded, PathError, SandboxError

pytestmark = pytest.mark.docker
MANY = 1_100_000  # bytes: more than a request's header holds
LONE = "\ud800"  # half of a pair, as JSON may have it: no bytes stand for it

REFUSED: dict[str, tuple[type[SandboxError], Callable[[Sandbox], Awaitable[object]]]] = {
    "zero byte in a line": (SandboxError, lambda box: box.exec(Command("echo a\0b"))),
    "zero byte in a word": (SandboxError, lambda box: box.exec(Command(["echo", "\0"]))),
    "zero byte in a variable": (SandboxError, lambda box: box.exec(Command("true", env={"A": "\0"}))),
    "zero byte in a folder": (SandboxError, lambda box: box.exec(Command("true", cwd="/tmp\0"))),
    "zero byte in a pattern": (SandboxError, lambda box: box.grep("\0")),
    "name with =": (SandboxError, lambda box: box.exec(Command("true", env={"A=B": "x"}))),
    "no name": (SandboxError, lambda box: box.exec(Command("true", env={"": "x"}))),
    "half a character": (SandboxError, lambda box: box.exec(Command(f"echo {LONE}"))),
    "half a character in a path": (SandboxError, lambda box: box.write(f"/tmp/{LONE}", b"")),
    "no command": (SandboxError, lambda box: box.exec(Command([]))),
    "long line": (LimitExceeded, lambda box: box.exec(Command("true " + "x" * MANY))),
    "many words": (LimitExceeded, lambda box: box.exec(Command(["true"] + ["x" * 1000] * (MANY // 1000)))),
    "large environment": (LimitExceeded, lambda box: box.exec(Command("true", env={"A": "x" * MANY}))),
    "long word": (LimitExceeded, lambda box: box.exec(Command(["true", "x" * 200_000]))),
    "large input": (LimitExceeded, lambda box: box.exec(Command("true", stdin=bytes(65 << 20)))),
    "time that is no number": (SandboxError, lambda box: box.exec(Command("true", timeout_s=float("nan")))),
    "less than no output": (SandboxError, lambda box: box.exec(Command("true", max_output_bytes=-1))),
    "folder that is a file": (PathError, lambda box: box.exec(Command("true", cwd="/etc/passwd"))),
    "folder without a name": (PathError, lambda box: box.exec(Command("true", cwd=""))),
    "long folder": (PathError, lambda box: box.exec(Command("true", cwd="/" + "\x01" * 100_000))),
    "long path": (PathError, lambda box: box.read("/" + "\x01" * 200_000)),
    "long path to resolve": (PathError, lambda box: box.resolve("/" + "d/" * 50_000)),
    "place behind every end": (SandboxError, lambda box: box.read("/etc/passwd", offset_bytes=1 << 70)),
    "place before the start": (PathError, lambda box: box.read("/etc/passwd", offset_bytes=-1)),
    "mode of 70 bits": (SandboxError, lambda box: box.write("/tmp/mode", b"", mode=1 << 70)),
    "endless device": (PathError, lambda box: box.read("/dev/zero")),
    "link to itself": (PathError, lambda box: box.read("/tmp/loop")),
    "large file": (LimitExceeded, lambda box: box.write("/tmp/large", bytes(65 << 20))),
    "file below a file": (PathError, lambda box: box.write("/etc/passwd/x", b"")),
    "file in the kernel": (PathError, lambda box: box.write("/proc/self/comm", b"x")),
    "service in no folder": (PathError, lambda box: box.start(["true"], cwd="/none")),
    "service of a zero byte": (SandboxError, lambda box: box.start(["\0"])),
    "folder that a glob names wrongly": (SandboxError, lambda box: box.glob("[")),
}


async def test_what_cannot_be_done_is_said_and_ends_nothing(arena: Any):
    await arena.run("ln -s loop /tmp/loop")
    for name, (kind, ask) in REFUSED.items():
        with pytest.raises(SandboxError) as raised:
            await ask(arena.hostile)
        assert type(raised.value) is kind, name
        assert 5 < len(str(raised.value)) < 5000, name
        assert (await arena.run("echo on")).output == b"on\n", name


async def test_odd_numbers_mean_what_they_say(arena: Any):
    for timeout_s in (0.0, -1.0):
        assert (await arena.run("sleep 1000", timeout_s=timeout_s)).timed_out
    assert (await arena.run("echo on", timeout_s=float("inf"))).output == b"on\n"
    for limit in (0, 1, 2, 3):
        cut = await arena.run("printf 123", max_output_bytes=limit)
        assert (len(cut.output), cut.truncated_bytes) == (limit, 3 - limit)
    assert await arena.hostile.read("/etc/passwd", max_bytes=0) == b""
    assert await arena.hostile.list("/", limit=0) == []


@pytest.mark.parametrize("name", [each.name for each in fields(Limits)])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_limit_of_nothing_is_refused_and_not_taken_for_none(name: str, value: float):
    with pytest.raises(SandboxError, match=name):
        Limits(**{name: value})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A": "\0"}, {"A\0": "x"}, {"A": "x" * 200_000}])
def test_a_variable_that_no_program_can_have_is_refused(env: dict[str, str]):
    with pytest.raises(SandboxError, match="variable"):
        SandboxSpec("image", env=env)
