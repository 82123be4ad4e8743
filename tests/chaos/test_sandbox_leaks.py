"""R24, of sandboxes: whoever is killed, and whenever, a minute later nothing is left on the host."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lab.cut import Way
from lab.figures import report
from lab.leftovers import launchers, leftovers, tool_servers
from lab.schedule import SOAK, seeds
from lab.server import die_with_parent

from sandbox.base import SandboxDriver, SandboxSpec
from sandbox.choice import choose_driver
from sandbox.contract import make_project
from sandbox.image import DEFAULT_IMAGE
from sandbox.image.build import build_image
from workers.sandboxes.reaping import SWEEP_EVERY_S, sweep_host
from workers.settings import WorkerSettings

pytestmark = [pytest.mark.chaos, pytest.mark.docker]

ENGINE = Path("/var/run/docker.sock")
ROOT = Path(__file__).parents[2]
SANDBOXES = 250 if SOAK else 20  # for each driver
KEEPERS = 2
VICTIMS = ("workers", "clients", "servers")
GONE_WITHIN_S = 60.0
LOOK_EVERY_S = 0.2
STRIKES_PER_SANDBOX = 0.2
MOMENTS_S = 1.5  # to open a sandbox on a busy machine, and for its first calls


@dataclass
class Host:
    """A state folder, a way to the engine that can be cut, and those who keep sandboxes there."""

    driver: str
    folder: Path
    project: SandboxSpec
    way: Way
    seed: int
    owners: str = field(default_factory=lambda: f"leak-{os.urandom(6).hex()}")
    begun: int = 0
    opened: int = 0
    done: Counter[str] = field(default_factory=Counter[str])
    _next: list[str] = field(default_factory=list[str])

    @property
    def state_dir(self) -> Path:
        return self.folder / "state"

    @property
    def jobs_dir(self) -> Path:
        return self.folder / "jobs"

    @property
    def has_had_enough(self) -> bool:
        return self.opened >= SANDBOXES and all(self.done[who] for who in VICTIMS)

    async def start_keeper(self) -> asyncio.subprocess.Process:
        number = self.done["keepers"] = self.done["keepers"] + 1
        told: dict[str, Any] = {
            "driver": self.driver,
            "state_dir": str(self.state_dir),
            "owner": f"{self.owners}-{number}",
            "image": self.project.image,
            "checkout": str(self.project.checkout),
            "git_dir": str(self.project.git_dir),
            "base": self.project.base,
            "seed": f"{self.seed} {number}",
        }
        search = [str(ROOT / "tests/chaos"), str(ROOT)]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(search),
            "DOCKER_HOST": f"unix://{self.folder}/engine.sock",
            "TMPDIR": str(self.jobs_dir),
        }
        with (self.folder / "keepers.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-m", "lab.sandbox_keeper", json.dumps(told),
                stdout=asyncio.subprocess.PIPE, stderr=log, env=env, preexec_fn=die_with_parent,
            )  # fmt: skip

    def kill_one(self, pids: list[int], chance: random.Random, what: str) -> None:
        if pids:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(pids), signal.SIGKILL)
                self.done[what] += 1

    async def strike(self, keeper: asyncio.subprocess.Process, chance: random.Random) -> None:
        """One of those on whom a sandbox hangs goes, without a word; none of them twice before the others."""
        self._next = self._next or chance.sample(VICTIMS, len(VICTIMS))
        match self._next.pop():
            case "workers":
                keeper.kill()
                self.done["workers"] += 1
            case "clients" if self.driver == "docker":
                self.done["clients"] += self.way.cut() > 0
            case "clients":
                self.kill_one(await asyncio.to_thread(launchers, self.state_dir), chance, "clients")
            case _:
                self.kill_one(await asyncio.to_thread(tool_servers, self.state_dir), chance, "servers")


@pytest.mark.timeout(1800 if SOAK else 300)
@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("driver", ["docker", "bubblewrap"])
async def test_nothing_is_left_whoever_is_killed(
    driver: str, seed: int, folder: Path, project: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(driver, folder, project, Way(ENGINE), seed)
    host.state_dir.mkdir()
    host.jobs_dir.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(host.jobs_dir))
    await host.way.open(folder / "engine.sock")
    sys.stderr.write(f"\nMUSTER_CHAOS_SEED={seed}\n")

    await asyncio.gather(*(strike_place(host, random.Random(f"{seed} {driver} {place}")) for place in range(KEEPERS)))
    most = len(look(host))
    await host.way.close()
    gone_after_s = await until_nothing_is_left(host)

    figures = {"begun": host.begun, "opened": host.opened, "killed": dict(host.done), "things_at_the_end": most}
    report("R24", driver=driver, seed=seed, **figures, gone_after_s=round(gone_after_s, 1))
    assert host.has_had_enough


async def strike_place(host: Host, chance: random.Random) -> None:
    """One worker after the other, each until it is killed."""
    strikes: list[asyncio.Task[None]] = []
    while not host.has_had_enough:
        keeper = await host.start_keeper()
        assert keeper.stdout
        async for line in keeper.stdout:
            host.opened += line == b"open\n"
            if line == b"begins\n":
                host.begun += 1
                if chance.random() < STRIKES_PER_SANDBOX:
                    strikes.append(asyncio.create_task(strike_later(host, keeper, chance)))
            if host.has_had_enough and keeper.returncode is None:
                keeper.kill()
        await keeper.wait()
    await asyncio.gather(*strikes)


async def strike_later(host: Host, keeper: asyncio.subprocess.Process, chance: random.Random) -> None:
    """Somewhere between making the first folder and removing the last."""
    await asyncio.sleep(chance.uniform(0, MOMENTS_S))
    if keeper.returncode is None:
        await host.strike(keeper, chance)


async def until_nothing_is_left(host: Host) -> float:
    """How long that takes another worker of this host."""
    began = time.monotonic()
    settings = WorkerSettings(state_dir=host.state_dir)
    driver = await choose_driver(host.driver, host.state_dir, f"{host.owners}-survivor")  # pyright: ignore[reportArgumentType]
    sweeping = asyncio.create_task(keep_sweeping(driver, settings))
    try:
        async with asyncio.timeout(GONE_WITHIN_S):
            while await asyncio.to_thread(look, host):
                await asyncio.sleep(LOOK_EVERY_S)  # of what the kernel and the engine let go, nobody tells
    except TimeoutError:
        pytest.fail(f"left after {GONE_WITHIN_S:.0f} s: {look(host)}")
    finally:
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)
        await driver.close()
    return time.monotonic() - began


async def keep_sweeping(driver: SandboxDriver, settings: WorkerSettings) -> None:
    while True:
        await sweep_host(driver, settings)
        await asyncio.sleep(SWEEP_EVERY_S)


def look(host: Host) -> list[str]:
    return leftovers(host.state_dir, host.jobs_dir, owners=host.owners)


@pytest_asyncio.fixture
async def project(tmp_path: Path) -> SandboxSpec:
    await build_image(DEFAULT_IMAGE)
    return await make_project(tmp_path, DEFAULT_IMAGE)
