"""Sandboxes that stand ready: who gets them, how well they are, and that none is left."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sandbox.base import Command, Known, Limits, SandboxDriver, SandboxSpec
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.driver import DockerDriver
from sandbox.errors import ImageMissing, SandboxLost
from sandbox.pool import SPECS_KEPT, WarmPool

pytestmark = pytest.mark.docker

DRIVERS = {"docker": DockerDriver, "bubblewrap": BubblewrapDriver}
ON_THIS_HOST = "host"  # bubblewrap's image: what a sandbox sees of a root is not what these tests are about
TASK = {"task": "t1"}


@dataclass
class Seen:
    """What a pool tells."""

    standing: int = 0
    hits: list[bool] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def warm_standing(self, count: int) -> None:
        self.standing = count
        self.changed.set()

    def warm_asked(self, *, hit: bool) -> None:
        self.hits.append(hit)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while self.standing != count:
                self.changed.clear()
                await self.changed.wait()


@dataclass
class Bench:
    """A pool over a driver, and what it tells; `spec` is the one that is asked for."""

    driver: SandboxDriver
    seen: Seen
    spec: SandboxSpec
    pools: list[WarmPool] = field(default_factory=list)

    def pool(self, size: int = 1, **options: int) -> WarmPool:
        self.pools.append(WarmPool(self.driver, size, self.seen, **options))
        return self.pools[-1]

    async def known(self, owner: str) -> list[Known]:
        return [each for each in await self.driver.known() if each.owner == owner]


@pytest.fixture(params=sorted(DRIVERS))
async def bench(request: pytest.FixtureRequest, tmp_path: Path, owner: str, image: str) -> AsyncIterator[Bench]:
    driver = DRIVERS[request.param](tmp_path / "state", owner)
    bench = Bench(driver, Seen(), SandboxSpec(image if request.param == "docker" else ON_THIS_HOST, labels=TASK))
    yield bench
    for pool in bench.pools:
        await pool.close()
    assert await bench.known(owner) == []
    assert list((tmp_path / "state").glob("**/sandboxes/*")) == []
    await driver.close()


async def said(sandbox, line: str) -> bytes:
    return (await sandbox.exec(Command(line))).output


async def test_the_second_who_asks_finds_one_ready_and_gets_it_alone(bench: Bench):
    pool = bench.pool()
    first = await pool.open(bench.spec)
    await bench.seen.until(1)
    second = await pool.open(bench.spec)
    await bench.seen.until(1)
    third = await pool.open(bench.spec)

    await first.write("/workspace/mine", b"x")

    assert bench.seen.hits == [False, True, True]
    assert len({first.id, second.id, third.id}) == 3
    assert [await said(each, "ls -A /workspace") for each in (first, second, third)] == [b"mine\n", b"", b""]


async def test_what_was_given_away_and_closed_is_gone(bench: Bench, owner: str):
    pool = bench.pool()
    await pool.warm(bench.spec)
    async with await pool.open(bench.spec) as sandbox:
        pass

    assert bench.seen.hits == [True]
    assert sandbox.id not in [each.sandbox_id for each in await bench.known(owner)]


@pytest.mark.parametrize(
    "other",
    [{"read_only": True}, {"env": {"A": "b"}}, {"limits": Limits(pids=100)}, {"limits": Limits(lifetime_s=9000)}],
    ids=str,
)
async def test_one_that_differs_is_nobody_elses(bench: Bench, other: dict[str, object]):
    pool = bench.pool()
    await pool.warm(bench.spec)
    await pool.open(replace(bench.spec, **other))

    assert bench.seen.hits == [False]


async def test_whose_it_is_may_differ_and_for_how_long_too(bench: Bench, owner: str):
    pool = bench.pool()
    await pool.warm(replace(bench.spec, labels={"task": "t0"}, limits=Limits(lifetime_s=3700)))
    [waiting] = await bench.known(owner)
    sandbox = await pool.open(bench.spec)
    [given] = [each for each in await bench.known(owner) if each.sandbox_id == sandbox.id]

    assert bench.seen.hits == [True]
    assert (waiting.sandbox_id, waiting.labels["pool"], "task" in waiting.labels) == (sandbox.id, "warm", False)
    assert given.labels == TASK
    assert given.expires_at_s > time.time() + bench.spec.limits.lifetime_s


async def test_with_a_network_each_is_opened_for_its_task(bench: Bench, owner: str):
    pool = bench.pool()
    sandbox = await pool.open(replace(bench.spec, egress=frozenset({"index.example"})))

    assert bench.seen.hits == []
    assert [each.sandbox_id for each in await bench.known(owner)] == [sandbox.id]


async def test_its_time_counts_from_when_it_is_given_away(bench: Bench):
    pool = bench.pool()
    await pool.warm(replace(bench.spec, limits=Limits(lifetime_s=3600)))
    sandbox = await pool.open(replace(bench.spec, limits=Limits(lifetime_s=1)))

    assert bench.seen.hits == [True]
    with pytest.raises(SandboxLost):
        await sandbox.exec(Command("sleep 1000", timeout_s=60))


async def test_the_end_is_never_put_off(bench: Bench):
    """Reapers of other workers go by what was said when it was opened."""
    sandbox = await bench.driver.open(replace(bench.spec, limits=Limits(lifetime_s=2)))
    await sandbox.assign(labels={}, lifetime_s=1000)

    with pytest.raises(SandboxLost):
        await sandbox.exec(Command("sleep 1000", timeout_s=60))
    await sandbox.close()


async def test_a_dead_one_is_passed_over(bench: Bench, owner: str):
    pool = bench.pool(2)
    await pool.warm(bench.spec)
    standing = {each.sandbox_id for each in await bench.known(owner)}
    dead = next(iter(pool._shelves[-1].items))  # pyright: ignore[reportPrivateUsage] - the next in turn
    with pytest.raises(SandboxLost):
        await dead.assign(labels={}, lifetime_s=0)
    sandbox = await pool.open(bench.spec)

    assert bench.seen.hits == [True]
    assert {sandbox.id} == standing - {dead.id}
    assert await said(sandbox, "echo on") == b"on\n"


async def test_where_all_are_dead_one_is_opened(bench: Bench):
    pool = bench.pool()
    await pool.warm(bench.spec)
    [dead] = pool._shelves[-1].items  # pyright: ignore[reportPrivateUsage]
    await dead.close()
    sandbox = await pool.open(bench.spec)

    assert bench.seen.hits == [False]
    assert await said(sandbox, "echo on") == b"on\n"


async def test_one_that_does_not_answer_is_passed_over(
    driver: DockerDriver, image: str, owner: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sandbox.pool.ANSWER_TIMEOUT_S", 0.3)
    seen = Seen()
    pool = WarmPool(driver, 1, seen)
    await pool.warm(SandboxSpec(image))
    [hung] = await driver.engine.containers(f"muster.owner={owner}")
    await asyncio.to_thread(subprocess.check_call, ["docker", "pause", hung.name], stdout=subprocess.DEVNULL)
    async with await pool.open(SandboxSpec(image)) as sandbox:
        assert sandbox.id != hung.name
        assert await said(sandbox, "echo on") == b"on\n"
    await pool.close()

    assert seen.hits == [False]


async def test_an_old_one_goes_and_is_not_replaced_unasked(bench: Bench, owner: str):
    pool = bench.pool(max_age_s=1)
    await pool.warm(bench.spec)
    await bench.seen.until(0)
    await asyncio.gather(*pool._background)  # pyright: ignore[reportPrivateUsage] - its removal

    assert await bench.known(owner) == []


async def test_who_was_used_the_longest_ago_makes_room(bench: Bench):
    pool = bench.pool()
    specs = [replace(bench.spec, env={"N": str(number)}) for number in range(SPECS_KEPT + 1)]
    for spec in specs:
        await pool.warm(spec)
    await bench.seen.until(SPECS_KEPT)
    await pool.open(specs[1])
    await pool.open(specs[0])

    assert bench.seen.hits == [True, False]


async def test_a_failed_opening_is_told_and_nothing_is_opened_ahead(bench: Bench, owner: str):
    pool = bench.pool()
    with pytest.raises(ImageMissing):
        await pool.open(replace(bench.spec, image="no-such-image:here"))

    assert await bench.known(owner) == []


async def test_closing_ends_what_is_being_opened(bench: Bench, owner: str):
    pool = bench.pool(3)
    await pool.open(bench.spec)
    await pool.close()

    assert await bench.known(owner) == []
    assert bench.seen.standing == 0


async def test_a_cancelled_hand_over_leaves_none_without_an_owner(bench: Bench, owner: str):
    pool = bench.pool()
    await pool.warm(bench.spec)
    asking = asyncio.create_task(pool.open(bench.spec))
    await bench.seen.until(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.gather(*pool._background)  # pyright: ignore[reportPrivateUsage] - its removal

    assert await bench.known(owner) == []


WORKER = """
import asyncio, sys
from pathlib import Path
from sandbox.base import Command, SandboxSpec
from sandbox.choice import DRIVERS
from sandbox.pool import WarmPool

class Unwatched:
    def warm_standing(self, count): pass
    def warm_asked(self, *, hit): pass

async def main(state, owner, image, driver):
    pool = WarmPool(DRIVERS[driver](Path(state), owner, allow_private_egress=False), 2, Unwatched())
    await pool.warm(SandboxSpec(image))
    print("standing", flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_what_a_killed_worker_had_standing_goes_with_its_name(
    bench: Bench, owner: str, tmp_path: Path, engine_lists: Callable[[str], list[str]]
):
    arguments = [str(tmp_path / "state"), f"{owner}-killed", bench.spec.image, bench.driver.name]
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None and await worker.stdout.readline() == b"standing\n"
    worker.kill()
    await worker.wait()
    pool = bench.pool()
    await pool.warm(bench.spec)

    gone = await pool.reap(owner=f"{owner}-killed", now_s=time.time())

    assert len(gone) >= 2  # and whatever else of this host is over its time
    assert engine_lists(f"{owner}-killed") == []
    assert len(await bench.known(owner)) == 1
