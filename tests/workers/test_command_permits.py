"""How many commands run at once, by all worker processes of a host."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from workers.sandboxes.permits import CommandPermits, SpareCores

OTHER_PROCESS = """
import asyncio, sys
from pathlib import Path
from workers.sandboxes.permits import CommandPermits

async def main():
    async with CommandPermits(Path(sys.argv[1]), 2, lambda: 0.0).permit("elsewhere"):
        print("held", flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


def busy() -> float:
    return 0.0


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., CommandPermits]:
    def made(count: int = 2, spare_cores: Callable[[], float] = busy, patience_s: float = 60.0) -> CommandPermits:
        return CommandPermits(tmp_path / "commands", count, spare_cores, patience_s)

    return made


class Commands:
    """Those of tasks, in the order in which they began; each runs until it is ended."""

    def __init__(self, permits: CommandPermits) -> None:
        self.permits = permits
        self.began: list[str] = []
        self._ends: list[asyncio.Event] = []
        self._news = asyncio.Condition()
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, *names: str) -> None:
        self.tasks += [asyncio.create_task(self._run(name)) for name in names]

    async def _run(self, name: str) -> None:
        async with self.permits.permit(name[0]):
            end = asyncio.Event()
            async with self._news:
                self.began.append(name)
                self._ends.append(end)
                self._news.notify_all()
            await end.wait()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(lambda: len(self.began) >= count)

    def end(self, number: int) -> None:
        self._ends[number].set()

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_so_many_run_and_the_next_begins_when_one_ends(make: Callable[..., CommandPermits]):
    commands = Commands(make(2))
    commands.start("a1", "b1", "c1", "d1")
    await commands.until(2)
    for number in (0, 1):
        commands.end(number)
        await commands.until(3 + number)
    assert commands.began == ["a1", "b1", "c1", "d1"]
    await commands.stop()


async def test_whose_task_has_the_fewest_goes_first(make: Callable[..., CommandPermits]):
    commands = Commands(make(2))
    commands.start("a1", "a2", "a3", "a4", "b1")
    await commands.until(2)
    commands.end(0)
    await commands.until(3)
    assert commands.began == ["a1", "a2", "b1"]
    await commands.stop()


async def test_processes_of_one_host_share_the_limit_and_a_dead_one_holds_nothing(
    make: Callable[..., CommandPermits], tmp_path: Path
):
    words = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path / "commands")]
    others = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        assert [other.stdout.readline() for other in others if other.stdout] == ["held\n"] * 2
        commands = Commands(make(2))
        commands.start("a1")
        await asyncio.sleep(0)
        assert commands.began == []

        others[0].kill()
        await commands.until(1)
        await commands.stop()
    finally:
        for other in others:
            other.kill()
            other.wait()
            assert other.stdout is not None
            other.stdout.close()


async def test_one_more_begins_while_the_machine_has_a_core_to_spare(make: Callable[..., CommandPermits]):
    """What is held by commands that sleep is no reason to wait."""
    commands = Commands(make(1, spare_cores=lambda: 1.0))
    commands.start("a1", "b1", "c1")
    await commands.until(3)
    await commands.stop()


async def test_nobody_waits_for_ever(make: Callable[..., CommandPermits]):
    commands = Commands(make(1, patience_s=0.2))
    commands.start("a1", "b1")
    await commands.until(2)
    await commands.stop()


async def test_who_is_cancelled_while_it_waits_leaves_the_permit_to_others(make: Callable[..., CommandPermits]):
    permits = make(1)
    commands = Commands(permits)
    commands.start("a1", "b1", "c1")
    await commands.until(1)
    commands.tasks[1].cancel()
    commands.end(0)
    await commands.until(2)
    assert commands.began == ["a1", "c1"]
    await commands.stop()

    async with asyncio.timeout(5), AsyncExitStack() as stack:  # all is given back
        await stack.enter_async_context(permits.permit("d"))


def test_spare_cores_are_those_that_were_idle_meanwhile():
    spare = SpareCores()
    spare()
    with subprocess.Popen(
        [sys.executable, "-c", "import time; end = time.time() + 0.3\nwhile time.time() < end: pass"]
    ):
        pass
    measured = spare()
    assert 0 <= measured <= (os.cpu_count() or 1) - 0.5
