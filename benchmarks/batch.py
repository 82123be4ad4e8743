"""What a batch costs beside its recipe's own commands, and a shell loop that does the same work, in the same run.

    python -m benchmarks.batch [--quick] [--no-loop] [--only own|shared] [--json FILE]

One generated repository of 20,000 files, a shard for each of 200 of them, ruff's safe fixes as the recipe, one worker
with four slots: the whole of `muster batch run`, from the command line to its end. *Own*: each shard has a sandbox of
its own. *Shared*: shards take turns in sandboxes that are reset in between. The commands alone run in one sandbox, as
many at a time as there are cores, and so does the loop. A disk that is busy makes the loop slower than anything else:
TMPDIR may name a folder in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.base import Command, SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.image import DEFAULT_IMAGE
from sandbox.uids import AGENT_GID, AGENT_UID

from .agent_fleet import AgentFleet, agent_fleet, commit_all
from .queue import Row

BIN = Path(sys.executable).parent
FILES, FILES_A_FOLDER = 20_000, 100
OLD = """\
from typing import List


class Part{n}(object):
    def __init__(self, names: List[str]) -> None:
        super(Part{n}, self).__init__()
        self.names = names

    def greet(self) -> str:
        return "Hello %s" % (self.names[{n}],)
"""
RECIPE = "ruff check --isolated --quiet --no-cache --fix --select UP --target-version py311 {path}"
LOOP = """\
one() {{
  git clone --quiet --local {repository} "$1.clone" && cd "$1.clone" || exit 1
  {recipe}; git diff --binary HEAD > "../$1.patch"; cd .. && rm -rf "$1.clone"
}}
export -f one
"""
OWN, SHARED = "own", "shared"
OVERHEAD_AIM_MS = {OWN: 200.0, SHARED: 60.0}
LOOP_AIM, AGAIN_AIM_S = 5.0, 2.0
LOOPED = 20  # clones of 20,000 files take longer than all else here, and one as long as the next


@dataclass(frozen=True)
class Work:
    """`batch`: the file that says it."""

    root: Path
    paths: list[str]
    batch: Path


async def generated(folder: Path, shards: int) -> Work:
    root = folder / "project"
    paths = [f"d{number // FILES_A_FOLDER}/f{number}.py" for number in range(FILES)]
    for number, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(OLD.format(n=number))
    await commit_all(root)
    chosen = paths[:: FILES // shards][:shards]
    (folder / "list.txt").write_text("\n".join(chosen))
    batch = folder / "batch.toml"
    batch.write_text(
        f'name = "bench"\nrepositories = [{{ path = "project" }}]\nshards = {{ files_from = "list.txt" }}\n'
        f"steps = [{{ recipe = [{json.dumps(RECIPE)}], ok_exit_codes = [0, 1] }}]\n"
    )
    return Work(root, chosen, batch)


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def shell(script: str, folder: Path, environment: Mapping[str, str] | None = None) -> Row:
    began_s, cpu_s = time.perf_counter(), children_cpu_s()
    subprocess.run(["bash", "-c", script], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    return {"wall_s": time.perf_counter() - began_s, "cpu_s": children_cpu_s() - cpu_s}


def at_once(words: str, paths: list[str]) -> str:
    """As many at a time as there are cores."""
    listed = "\n".join(paths)
    return f"printf '%s\\n' {shlex.quote(listed)} | xargs -P {os.cpu_count()} -I{{}} sh -c {shlex.quote(words)}"


async def commands_alone(work: Work, folder: Path) -> Row:
    """In one sandbox, on one copy of the files."""
    copy = folder / "copy"
    subprocess.run(["git", "clone", "--quiet", str(work.root), str(copy)], check=True)
    subprocess.run(["chown", "-R", f"{AGENT_UID}:{AGENT_GID}", str(copy)], check=True)
    async with (
        DockerDriver(folder / "state", "bench") as driver,
        await driver.open(SandboxSpec(DEFAULT_IMAGE, checkout=copy)) as sandbox,
    ):
        line = at_once(RECIPE.replace("{path}", "{}") + "; test $? -le 1", work.paths)
        ended = await sandbox.exec(Command(line, timeout_s=600))
        assert ended.exit_code == 0, ended.output
        return {"wall_s": ended.duration_s}


def shell_loop(work: Work, folder: Path) -> Row:
    """Clone, codemod, diff for each of the first shards, as many at a time as there are cores; as if for all."""
    place = folder / "loop"
    place.mkdir()
    recipe = f"{BIN}/" + RECIPE.replace("{path}", '"$2"')
    numbered = [f"{number} {path}" for number, path in enumerate(work.paths[:LOOPED])]
    script = LOOP.format(repository=work.root, recipe=recipe)
    lines = shlex.quote("\n".join(numbered))
    row = shell(f"{script}printf '%s\\n' {lines} | xargs -P {os.cpu_count()} -L1 bash -c 'one $0 $1'", place)
    made = [patch for patch in place.glob("*.patch") if patch.stat().st_size]
    assert len(made) == len(numbered), f"{len(made)} patches"
    return {what: seconds * len(work.paths) / len(numbered) for what, seconds in row.items()}


async def batch(work: Work, kind: str) -> dict[str, Row]:
    """The first run, and the second, which finds everything done."""
    async with agent_fleet(lambda _: {"rules": []}) as fleet:
        fleet.environment["MUSTER_SHARED_SANDBOXES"] = str(kind == SHARED).lower()
        for idle in ("explore", "general"):  # the command line asks for all pools
            await fleet.worker(idle)
        worker = await fleet.worker("build", slots=4)
        await fleet.orchestrator()
        while len(await fleet.transport.workers()) < 4:
            await asyncio.sleep(0.1)
        command = f"{BIN}/muster batch run {work.batch} --json --no-input 2> cli.log"
        rows: dict[str, Row] = {}

        async def run(name: str) -> None:
            row = await asyncio.to_thread(shell, command, work.root.parent, fleet.environment)
            rows[name] = {"wall_s": row["wall_s"], "client_cpu_s": row["cpu_s"]}

        used = await worker.spends(lambda: run("first"))
        rows["first"] |= {"worker_cpu_s": used["cpu_s"], "git_cpu_s": used["children_cpu_s"]}
        before = await submitted(fleet)
        assert before == len(work.paths) + 1, before
        await run("again")
        assert await submitted(fleet) == before
        await worker.process.finish()
        return rows


async def submitted(fleet: AgentFleet) -> int:
    return len(await fleet.transport.tasks(limit=1000))


def told(rows: Mapping[str, Row], shards: int) -> list[str]:
    lines = [
        f"{name:14} " + "  ".join(f"{what} {figure:.2f}" for what, figure in row.items()) for name, row in rows.items()
    ]
    for kind in (OWN, SHARED):
        if kind in rows:
            overhead_ms = (rows[kind]["wall_s"] - rows["commands"]["wall_s"]) / shards * 1000
            aim_ms = OVERHEAD_AIM_MS[kind]
            lines.append(
                f"overhead of a shard, {kind}: {overhead_ms:.0f} ms  aim {aim_ms:.0f} {met(overhead_ms <= aim_ms)}"
            )
            again_s = rows[f"{kind}, again"]["wall_s"]
            lines.append(f"a finished batch again: {again_s:.2f} s  aim {AGAIN_AIM_S:g} {met(again_s <= AGAIN_AIM_S)}")
        if kind in rows and "shell loop" in rows:
            times = rows["shell loop"]["wall_s"] / rows[kind]["wall_s"]
            lines.append(f"the shell loop takes {times:.1f} times as long as {kind}" + aim(kind, times))
    return lines


def aim(kind: str, times: float) -> str:
    return f"  aim {LOOP_AIM:g} {met(times >= LOOP_AIM)}" if kind == SHARED else ""


def met(is_met: bool) -> str:
    return "(met)" if is_met else "(SHORT)"


async def main() -> None:
    parser = argparse.ArgumentParser(description="What a batch costs beside its recipe's own commands.")
    parser.add_argument("--quick", action="store_true", help="40 shards instead of 200")
    parser.add_argument("--no-loop", action="store_true", help="without the shell loop")
    parser.add_argument("--only", choices=[OWN, SHARED], help="one way to give shards their sandboxes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures down")
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        work = await generated(Path(name), 40 if options.quick else 200)
        rows["commands"] = await commands_alone(work, Path(name))
        if not options.no_loop:
            rows["shell loop"] = shell_loop(work, Path(name))
        for kind in [options.only] if options.only else [OWN, SHARED]:
            runs = await batch(work, kind)
            rows |= {kind: runs["first"], f"{kind}, again": runs["again"]}
        print("\n".join(told(rows, len(work.paths))))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    asyncio.run(main())
