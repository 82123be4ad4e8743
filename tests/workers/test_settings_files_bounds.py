"""Files of settings that take minutes to be read: read beside the event loop, for seconds, and the rest is said to be
broken."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

import pytest

from workers.agents.layers import AgentFile, builtin_agents, with_files
from workers.commands.catalogue import catalogue
from workers.front_matter import MAX_READ_S, STRINGS, read_beside, read_front_matter
from workers.project.skills import _parsed

LIST = "---\noptions: {a: [" + "1," * 20_000 + "1]}\n---\nWork.\n"
BROKEN = "---\nx: [\n" + "a: b\n" * 10_000 + "---\nWork.\n"


def agents() -> int:
    files = [AgentFile(f"a{n}", f".muster/agents/a{n}.md", LIST.encode()) for n in range(100)]
    return len(with_files(builtin_agents(()), files, trusted=False).faults)


def skills() -> int:
    written = [(f".muster/skills/s{n}/SKILL.md", BROKEN.encode(), False) for n in range(100)]
    return len(_parsed(written, left_out=0).warnings)


def commands() -> int:
    return len(catalogue(repository={f".muster/commands/c{n}.md": BROKEN for n in range(100)}, users={}).faults)


async def longest_hold_s(work: Awaitable[object]) -> float:
    running, longest_s = asyncio.ensure_future(work), 0.0
    while not running.done():
        began_s = time.monotonic()
        await asyncio.sleep(0.001)
        longest_s = max(longest_s, time.monotonic() - began_s)
    return longest_s


@pytest.mark.parametrize("read", [agents, skills, commands])
async def test_a_hundred_files_that_take_minutes_hold_up_nobody(read):
    faults = 0

    def counted() -> None:
        nonlocal faults
        began_s = time.thread_time()
        faults = read()
        assert time.thread_time() - began_s < 2 * MAX_READ_S

    longest_s = await longest_hold_s(read_beside(counted))

    assert longest_s < 1
    assert faults >= 90


def test_blanks_after_a_key_are_read_in_time():
    began_s = time.thread_time()
    keys, _ = read_front_matter("---\ndescription: [\na:" + " " * 60_000 + "\n---\n", STRINGS)
    assert keys == {"description": "[", "a": ""}
    assert time.thread_time() - began_s < 1


def test_a_value_that_wants_quotes_keeps_its_words():
    keys, body = read_front_matter("---\ndescription: use it when: now  \nx: [\n---\nWork.\n", STRINGS)

    assert (keys, body) == ({"description": "use it when: now", "x": "["}, "Work.")
