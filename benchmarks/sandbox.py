"""Sandboxes beside `docker exec`, `docker run`, ripgrep, SWE-ReX and mini-swe-agent, on the same machine in the same
run, for each driver.

    python -m benchmarks.sandbox [--only docker] [--quick] [--no-peers]

A tool call is `sh -c true`, which is what every peer is asked for too; `stat` shows the price of the channel alone. The
workspace is a repository of 20,000 files. What is compared is measured in turn. A row ends with its aim.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path

from repo.bundle import bundle
from repo.checkout import checkout
from repo.mirror import mirror_of
from sandbox.base import Command, Limits, Sandbox, SandboxDriver, SandboxSpec
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.choice import DRIVERS
from sandbox.errors import EngineUnavailable
from sandbox.image import DEFAULT_IMAGE
from sandbox.pool import WarmPool
from sandbox.uids import AGENT_GID, AGENT_UID

from .sandbox_costs import children_bytes, containers_bytes, disk_bytes, engine_bytes
from .sandbox_peers import PEERS, peer
from .sandbox_table import RATE_AIM, Call, Row, in_turn, latencies, spread, timed, told

SANDBOXES = 20
FILES, FILES_A_FOLDER, CHANGED = 20_000, 100, 50
TRUE = Command("true")
LIMITS = Limits(memory_bytes=256 * 1024 * 1024)
NEEDLE = "needle_7"
IDENTITY = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
# Ten that ignore signals, left their session and hold the pipe.
TREE = "trap '' TERM; for i in 1 2 3 4 5 6 7 8 9 10; do (trap '' TERM; env -i setsid sleep 1000) & done; sleep 1000"


@dataclass(frozen=True)
class Counts:
    calls: int = 1000
    peer_calls: int = 40
    openings: int = 20
    together: int = 200


QUICK = Counts(calls=200, peer_calls=10, openings=8, together=50)


@dataclass
class Ready:
    """What a pool tells, as far as somebody waits for it here."""

    hits: list[bool] = field(default_factory=list)

    def warm_standing(self, count: int) -> None: ...

    def warm_asked(self, *, hit: bool) -> None:
        self.hits.append(hit)


async def program(*argv: str, cwd: Path | None = None) -> None:
    process = await asyncio.create_subprocess_exec(*argv, cwd=cwd, stdout=asyncio.subprocess.DEVNULL)
    assert await process.wait() == 0, argv


async def per_second(calls: list[Call], each: int) -> float:
    async def work(call: Call) -> None:
        for _ in range(each):
            await call()

    took_s = await timed(lambda: asyncio.gather(*(work(call) for call in calls)))
    return round(len(calls) * each / took_s, 1)


async def repository(folder: Path, image: str) -> SandboxSpec:
    """20,000 small files, committed, mirrored and checked out; one line in a hundred holds the needle."""
    root = folder / "project"
    for number in range(FILES):
        file = root / f"d{number // FILES_A_FOLDER}" / f"f{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"line_{line} = {NEEDLE if number % 100 == 0 else 0}\n" for line in range(20)))
    (root / "ten_kb.txt").write_bytes(b"x" * 10_000)
    for words in (("init", "--quiet"), ("add", "--all"), (*IDENTITY, "commit", "--quiet", "-m", "first")):
        await program("git", *words, cwd=root)
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=root, text=True).strip()
    await bundle(root, commit, folder / "project.bundle")
    mirror = await mirror_of(folder / "cache", bundle=folder / "project.bundle", commit=commit)
    files = await checkout(mirror, commit, folder / "cache", owner=(AGENT_UID, AGENT_GID))
    return SandboxSpec(image, files, mirror.git_dir, commit, limits=LIMITS)


async def cold(driver: SandboxDriver, spec: SandboxSpec, count: int) -> dict[str, Row]:
    """Each is in use when the first command has run; a bare container has ended by then."""
    bare = ("docker", "run", "--rm", "--network", "none", DEFAULT_IMAGE, "true")
    without = replace(spec, checkout=None, git_dir=None, base="")

    async def used(wanted: SandboxSpec) -> float:
        began = time.perf_counter()
        async with await driver.open(wanted) as sandbox:
            await sandbox.exec(TRUE)
            return time.perf_counter() - began

    ours = {"cold, with 20,000 files": lambda: used(spec), "cold, empty": lambda: used(without)}
    theirs = {"docker run --rm (peer)": lambda: timed(lambda: program(*bare))} if driver.name == "docker" else {}
    return await in_turn({**ours, **theirs}, count)


async def warm_acquire(driver: SandboxDriver, spec: SandboxSpec, count: int) -> Row:
    """As above; whoever comes next finds one, because nobody comes before it stands."""
    seen = Ready()
    pool = WarmPool(driver, 1, seen)
    times_s: list[float] = []
    for _ in range(count):
        await pool.warm(spec)
        began = time.perf_counter()
        async with await pool.open(spec) as sandbox:
            await sandbox.exec(TRUE)
            times_s.append(time.perf_counter() - began)
    assert all(seen.hits)
    await asyncio.gather(*pool._background, return_exceptions=True)  # pyright: ignore[reportPrivateUsage]
    return spread(times_s)


async def one_sandbox(sandbox: Sandbox, counts: Counts) -> dict[str, Row]:
    return {
        "exec": await latencies(lambda: sandbox.exec(TRUE), counts.calls),
        "stat": await latencies(lambda: sandbox.stat("/workspace"), counts.calls),
        "read 10 KB": await latencies(lambda: sandbox.read("/workspace/ten_kb.txt"), counts.calls),
    }


async def search(sandbox: Sandbox, counts: Counts) -> dict[str, Row]:
    """Ripgrep itself: with its own choice of order and threads, whose time as a command of the sandbox is the peer."""
    rg = Command(["rg", "--no-config", "--hidden", "--line-number", NEEDLE, "."])
    both: dict[str, Call] = {
        "grep 20,000 files": lambda: sandbox.grep(NEEDLE),
        "ripgrep itself (peer)": lambda: sandbox.exec(rg),
    }
    return await in_turn({name: lambda call=call: timed(call) for name, call in both.items()}, counts.openings * 2)


async def patch_of_changes(sandbox: Sandbox, counts: Counts) -> Row:
    """Other contents each time: a snapshot of what has not changed costs nothing."""
    times_s: list[float] = []
    cpu_s: list[float] = []
    for number in range(max(5, counts.openings // 2)):
        change = f"for n in $(seq 1 {CHANGED}); do echo {number} > /workspace/d$n/f${{n}}00.py; done"
        assert (await sandbox.exec(Command(change))).exit_code == 0
        began, cpu_began_s = time.perf_counter(), cpu_of_us_s()
        patch = await sandbox.patch(lambda _: True)
        times_s.append(time.perf_counter() - began)
        cpu_s.append(cpu_of_us_s() - cpu_began_s)
        assert len(patch.files) == CHANGED
    return {**spread(times_s), "cpu_ms": spread(cpu_s)["p50_ms"]}


def cpu_of_us_s() -> float:
    """Of this process and of those that it has started and seen end."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


async def kill_of_a_tree(sandbox: Sandbox) -> Row:
    """From the time-out to the answer."""
    times_s: list[float] = []
    for _ in range(5):
        result = await sandbox.exec(Command(TREE, timeout_s=0.5))
        assert result.timed_out
        times_s.append(result.duration_s - 0.5)
        left = await sandbox.exec(Command("grep -sl sleep /proc/[0-9]*/comm | wc -l"))
        assert int(left.output) == 0, left.output
    return spread(times_s)


async def together(driver: SandboxDriver, spec: SandboxSpec, counts: Counts) -> tuple[dict[str, Row], Row]:
    """With 20,000 files each: what they take at rest, and what they do at once."""
    engine_before, began = engine_bytes(), time.perf_counter()
    sandboxes = await asyncio.gather(*(driver.open(spec) for _ in range(SANDBOXES)))
    opened_s = time.perf_counter() - began
    names = [sandbox.id for sandbox in sandboxes]
    in_docker = driver.name == "docker"
    disk = sum(disk_bytes(driver.state_dir / "sandboxes" / name) for name in names)
    memory = containers_bytes(names) + engine_bytes() - engine_before if in_docker else children_bytes()
    rows = {
        "disk at rest": {"mb": round(disk / len(names) / 1e6, 2)},
        "memory, idle": {"mb": round(memory / len(names) / 1e6, 2)},
    }
    ours: list[Call] = [lambda sandbox=sandbox: sandbox.exec(TRUE) for sandbox in sandboxes]
    figures = {"opened_s": round(opened_s, 2), "calls_per_s": await per_second(ours, counts.together)}
    if in_docker:
        theirs: list[Call] = [lambda name=name: docker_exec(name) for name in names]
        figures["docker_exec_calls_per_s"] = await per_second(theirs, 3)
    closed_s = await timed(lambda: asyncio.gather(*(sandbox.close() for sandbox in sandboxes)))
    return rows, {**figures, "closed_s": round(closed_s, 2)}


async def docker_exec(name: str) -> None:
    """The peer, as most agents call it."""
    await program("docker", "exec", name, "/bin/sh", "-c", "true")


async def of_driver(driver: SandboxDriver, spec: SandboxSpec, counts: Counts) -> tuple[dict[str, Row], Row]:
    rows = await cold(driver, spec, counts.openings)
    rows["warm, with 20,000 files"] = await warm_acquire(driver, spec, counts.openings)
    async with await driver.open(spec) as sandbox:
        rows |= await one_sandbox(sandbox, counts)
        rows |= await search(sandbox, counts)
        rows["patch of 50 files"] = await patch_of_changes(sandbox, counts)
        rows["kill of a tree"] = await kill_of_a_tree(sandbox)
        if driver.name == "docker":
            rows["docker exec (peer)"] = await latencies(lambda: docker_exec(sandbox.id), counts.peer_calls)
    at_rest, many = await together(driver, spec, counts)
    return rows | at_rest, many


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", choices=sorted(DRIVERS))
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--no-peers", action="store_true")
    wanted = arguments.parse_args()
    counts = QUICK if wanted.quick else Counts()
    state_dir = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    report: dict[str, object] = {"benchmark": "sandbox", "load_1min": os.getloadavg()[0]}
    try:
        spec = await repository(state_dir, DEFAULT_IMAGE)
        for name in [wanted.only] if wanted.only else DRIVERS:
            driver = DRIVERS[name](state_dir, f"bench-{uuid.uuid4().hex}", allow_private_egress=False)
            try:
                await driver.check()
                image = image_folder(state_dir) if isinstance(driver, BubblewrapDriver) else spec.image
                rows, many = await of_driver(driver, replace(spec, image=image), counts)
            except EngineUnavailable as refusal:
                print(f"{name}: not measured: {refusal}")
                continue
            finally:
                await driver.close()
            report[name] = {"one": rows, "many": many}
            print(*told(name, rows), sep="\n")
            print(f"{name}: {SANDBOXES} together: {figures_of(many)}   aim calls_per_s {RATE_AIM}", flush=True)
        for name in () if wanted.no_peers else PEERS:
            if row := await peer(name, DEFAULT_IMAGE, counts.peer_calls, SANDBOXES):
                report[name] = row
                print(f"{name} (peer), {SANDBOXES} together: {figures_of(row)}", flush=True)
    finally:
        shutil.rmtree(state_dir)
    print(json.dumps(report))


def figures_of(row: Row) -> str:
    return ", ".join(f"{what} {figure}" for what, figure in row.items())


def image_folder(state_dir: Path) -> str:
    """The same image for both drivers, where there is an engine to take it from; else this machine's programs."""
    folder = state_dir / "image"
    folder.mkdir(mode=0o755)
    try:
        name = subprocess.check_output(["docker", "create", DEFAULT_IMAGE, "true"], text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        return "host"
    try:
        export = subprocess.Popen(["docker", "export", name], stdout=subprocess.PIPE)
        subprocess.check_call(["tar", "-x", "-C", str(folder)], stdin=export.stdout)
        assert export.wait() == 0
    finally:
        subprocess.check_call(["docker", "rm", name], stdout=subprocess.DEVNULL)
    return str(folder)


if __name__ == "__main__":
    asyncio.run(main())
