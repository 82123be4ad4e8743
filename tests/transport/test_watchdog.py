"""A handler whose one step holds the event loop is ended there, and everything else goes on."""

from __future__ import annotations

import asyncio
import importlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import yaml

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from transport import watchdog
from transport.consumer import Delivery
from transport.watchdog import StepTooLong, watch_steps, watched_steps

from .test_consumer import serving

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
BLANKS = "x:" + " " * 200_000 + "y"


@pytest.fixture(autouse=True)
def watching(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(watchdog, "MAX_STEP_S", 0.4)
    monkeypatch.setattr(watchdog, "LOOK_S", 0.1)
    before = signal.getsignal(signal.SIGPROF)
    watch_steps()
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


def in_a_pattern() -> None:
    re.search(r"^x:.*\s+$", BLANKS + "\n" + BLANKS, re.DOTALL)
    re.search(r"(\s+)*z", " " * 40)


def in_a_loop() -> None:
    while True:
        yaml.safe_load("a: [1, 2]")


def one_after_another() -> None:
    """As code that goes on with the next of many files, whatever one of them did."""
    for _ in range(1000):
        try:
            in_a_pattern()
        except Exception:
            continue


@pytest.mark.parametrize("work", [in_a_pattern, in_a_loop, one_after_another])
async def test_a_step_that_does_not_end_is_ended(work):
    began_s = time.thread_time()
    with pytest.raises(StepTooLong) as ended, watched_steps():
        work()

    assert time.thread_time() - began_s < 3
    assert ended.value.hint


async def test_so_is_one_of_a_task_that_was_started_within():
    async def child() -> None:
        in_a_loop()

    with pytest.raises(StepTooLong), watched_steps():
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
    with pytest.raises(StepTooLong), watched_steps():
        await asyncio.gather(child(), asyncio.sleep(0))


async def test_what_nobody_watches_goes_on():
    began_s = time.thread_time()
    while time.thread_time() - began_s < 1:
        yaml.safe_load("a: [1, 2]")


async def test_many_short_steps_are_no_long_one():
    began_s = time.thread_time()
    with watched_steps():
        while time.thread_time() - began_s < 1:
            yaml.safe_load("a: [1, 2]")
            await asyncio.sleep(0)


async def test_importing_is_no_handlers_fault(tmp_path, monkeypatch):
    spend = "import time\nbegan_s = time.thread_time()\nwhile time.thread_time() - began_s < 1: pass\n"
    (tmp_path / "long_to_load.py").write_text(spend)
    monkeypatch.syspath_prepend(tmp_path)
    with watched_steps():
        importlib.import_module("long_to_load")


async def test_its_task_ends_once_and_the_others_go_on(fleet):
    async def handle(delivery: Delivery):
        if delivery.request.input.prompt == "hold":
            in_a_loop()
        return fleet.result(delivery.claim)

    async with serving(fleet, handle):
        held, other = await fleet.submit(input={"prompt": "hold"}), await fleet.submit()
        failure = await fleet.ended(held.task_id)
        assert (await fleet.ended(other.task_id)).status is State.COMPLETED

    assert (failure.status, failure.errors[0].code) == (State.ERROR, ErrorCode.INTERNAL)


GREEDY = """
from transport import watchdog
watchdog.MEMORY_SHARE, watchdog.MIN_MEMORY_BYTES = 0, 512 << 20
watchdog.bound_memory()
try:
    ["x" * 1000 * n for n in range(10_000)]
except MemoryError:
    print("ended")
print(len("x" * (64 << 20)))
"""


ENDING = """
import time
from transport import watchdog
watchdog.LOOK_S = 0.01
watchdog.watch_steps()
class Late:
    def __del__(self, now=time.thread_time):
        began_s = now()
        while now() - began_s < 0.1: pass
late = Late()
late.itself = late
"""


def test_a_process_ends_well_while_it_is_watched():
    assert subprocess.run([sys.executable, "-c", ENDING], check=False).returncode == 0


def test_who_asks_for_all_memory_is_refused_and_the_process_goes_on():
    ended = subprocess.run([sys.executable, "-c", GREEDY], capture_output=True, text=True, check=False)

    assert ended.stdout.split() == ["ended", str(64 << 20)], ended.stderr
