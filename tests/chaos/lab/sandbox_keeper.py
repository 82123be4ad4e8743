"""A program that does with sandboxes what a worker does, until somebody ends it. Its arguments are one JSON object."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from sandbox.base import Command, Sandbox, SandboxDriver, SandboxSpec
from sandbox.choice import choose_driver
from sandbox.errors import SandboxError
from workers.sandboxes.owners import owned
from workers.sandboxes.reaping import SWEEP_EVERY_S, sweep_host
from workers.settings import WorkerSettings

AT_ONCE = 3


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def main(told: dict[str, Any]) -> None:
    settings = WorkerSettings(state_dir=Path(told["state_dir"]))
    project = SandboxSpec(told["image"], Path(told["checkout"]), Path(told["git_dir"]), told["base"])
    chance = random.Random(told["seed"])
    with owned(settings.owners_dir, told["owner"]):
        driver = await choose_driver(told["driver"], settings.state_dir, told["owner"])
        await sweep_host(driver, settings)
        await asyncio.gather(
            sweep_for_ever(driver, settings), *(serve(driver, project, chance) for _ in range(AT_ONCE))
        )


async def sweep_for_ever(driver: SandboxDriver, settings: WorkerSettings) -> None:
    while True:
        await asyncio.sleep(SWEEP_EVERY_S)
        await sweep_host(driver, settings)


async def serve(driver: SandboxDriver, project: SandboxSpec, chance: random.Random) -> None:
    """One sandbox after the other, each for a few calls. Those that are killed meanwhile are the run's affair."""
    while True:
        say("begins")
        with suppress(SandboxError):
            spec = project if chance.random() < 0.7 else SandboxSpec(project.image, read_only=chance.random() < 0.3)
            async with await driver.open(spec) as sandbox:
                say("open")
                for _ in range(chance.randrange(4)):
                    await use(sandbox, spec, chance)


async def use(sandbox: Sandbox, spec: SandboxSpec, chance: random.Random) -> None:
    match chance.randrange(4):
        case 0 if spec.git_dir is not None:
            await sandbox.snapshot()
        case 1 if not spec.read_only:
            await sandbox.write("/workspace/new.txt", b"new\n")
        case 2:
            await sandbox.exec(Command("(setsid sleep 600 &) ; sleep 0.1"))
        case _:
            await sandbox.exec(Command("echo here"))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
