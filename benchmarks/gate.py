"""A gate's run of a project's tests beside the same command by hand, in the same sandbox, in turn.

    python -m benchmarks.gate FOLDER [--command COMMAND] [--runs N] [--json FILE]

FOLDER is a git repository whose tests the sandbox's image can run; the figures in docs are of toolz 0.12. By hand is a
plain `exec` in a Docker sandbox: in a fresh checkout, as the gate has it, and again, with what Python compiled then. A
gate's run lays the control, listens to the digest, and reads what was counted. CPU is that of the command's own
processes. What was run first is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
import time
from itertools import product
from pathlib import Path
from statistics import median

from envelope.recipe import RecipeParams
from repo.bundle import bundle
from repo.checkout import checkout
from repo.mirror import mirror_of
from sandbox.base import Command, Sandbox, SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.image import DEFAULT_IMAGE
from sandbox.uids import AGENT_GID, AGENT_UID
from workers.recipes.commands import run_recipe

FRESH, AGAIN, GATE = "by hand", "by hand again", "gate"
# `times` in a pipe would be that of another shell
CPU = "(%s) >&2; times"


async def spec_of(project: Path, folder: Path) -> SandboxSpec:
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=project, text=True).strip()
    await bundle(project, commit, folder / "project.bundle")
    mirror = await mirror_of(folder / "cache", bundle=folder / "project.bundle", commit=commit)
    files = await checkout(mirror, commit, folder / "cache", owner=(AGENT_UID, AGENT_GID))
    return SandboxSpec(DEFAULT_IMAGE, files, mirror.git_dir, commit)


def cpu_s(output: str) -> float:
    """What `times` says of the shell's children, as in `0m1.230000s 0m0.110000s`."""
    minutes = [part.rstrip("s").split("m") for part in output.split()[-2:]]
    return sum(60 * float(each) + float(rest) for each, rest in minutes)


async def in_turn(sandbox: Sandbox, command: str) -> dict[str, dict[str, float]]:
    timed = Command(CPU % command)
    rows: dict[str, dict[str, float]] = {}
    await sandbox.exec(Command("find . -name __pycache__ -prune -exec rm -r {} +"))
    for name in (FRESH, AGAIN):
        began = time.perf_counter()
        ended = await sandbox.exec(timed)
        rows[name] = {"wall": time.perf_counter() - began, "CPU": cpu_s(ended.output.decode())}
    began = time.perf_counter()
    (step,) = await run_recipe(sandbox, RecipeParams(commands=(CPU % command,)), lambda _: None, counts_tests=True)
    rows[GATE] = {"wall": time.perf_counter() - began, "CPU": cpu_s(step.output_tail)}
    assert step.tests is not None and step.digest is not None and step.control == "held", step
    return rows


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--command", default="python3 -m pytest -q")
    arguments.add_argument("--runs", type=int, default=15)
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    print(f"load before: {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        spec = await spec_of(given.folder.resolve(), Path(folder))
        driver = DockerDriver(Path(folder) / "state", "benchmark", allow_private_egress=False)
        async with await driver.open(spec) as sandbox:
            await in_turn(sandbox, given.command)
            runs = [await in_turn(sandbox, given.command) for _ in range(given.runs)]
        await driver.close()
    for figure, kind in product(("wall", "CPU"), (min, median)):
        of = {name: kind([run[name][figure] for run in runs]) for name in (FRESH, AGAIN, GATE)}
        more = of[GATE] - of[FRESH]
        print(
            f"{figure:4} {kind.__name__:6}  {FRESH} {of[FRESH]:.2f} s, {AGAIN} {of[AGAIN]:.2f} s;"
            f" {GATE} {of[GATE]:.2f} s: {more:+.2f} s, {more / of[FRESH]:+.0%} of {FRESH}"
        )
    if given.json:
        given.json.write_text(json.dumps(runs, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
