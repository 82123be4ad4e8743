"""A batch over many repositories, while all that takes part in it is killed: the same commits, the same verdicts."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from lab.batch_fleet import batch_fleet
from lab.figures import report
from lab.schedule import SOAK, seeds
from lab.server import Server, redis_server

from envelope.errors import ErrorCode
from envelope.ids import new_trace_id
from envelope.messages import TaskResult
from orchestrator.batch.file import parse_batch
from orchestrator.batch.report import REPORT_NAME, BatchReport, RepositoryReport
from orchestrator.batch.request import batch_request
from orchestrator.client import Muster
from orchestrator.settings import Settings
from orchestrator.submit import RepositoryInput
from transport import keyring
from transport.errors import TransportError
from transport.settings import connect

# Two fleets are started and a thousand sandboxes opened: for `make soak`.
pytestmark = [
    pytest.mark.chaos,
    pytest.mark.redis,
    pytest.mark.skipif(not SOAK, reason="MUSTER_CHAOS=soak is not set"),
]

REPOSITORIES = int(os.environ.get("MUSTER_CHAOS_REPOSITORIES", "200"))
PAUSE_S, LIMIT_S = 1.0, 5400
# What a person or a CI job does again: the platform was at fault, and says so.
RETRIED = {ErrorCode.SANDBOX, ErrorCode.INTERNAL}
BATCH = """
name = "kill"
repositories = [{ path = "." }]
shards = { glob = "src/*.txt", also_edit = ["NEWS"] }
steps = [{ recipe = ["sed -i s/old/new/ {path}", "sh fix.sh {path}"] }]
gate = { commands = ["sh check.sh"], min_tests = 0 }
[limits]
shard_deadline_s = 3600
"""
# One in five has a shard whose command fails, one in four shards that collide, one in three a gate that then fails.
FIX, CHECK = "true\n", "true\n"
IDENTITY = {f"GIT_{who}_{what}": "tester@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
DATES = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}


def make_repository(root: Path, number: int) -> Path:
    files = {f"src/{name}.txt": f"old {name} {number}\n" for name in "abc"}
    files |= {"NEWS": "nothing\n", "fix.sh": FIX, "check.sh": CHECK}
    if number % 5 == 1:
        files["fix.sh"] = 'test "$1" != src/b.txt\n'
    if number % 4 == 2:
        files["fix.sh"] = 'echo "$1" > NEWS\n'
    if number % 3 == 0:
        files["check.sh"] = "! grep -q new src/a.txt\n"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "LC_ALL": "C"} | IDENTITY | DATES
    for words in (["init", "-q", "-b", "main"], ["add", "--all"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(root), *words], check=True, env=environment)
    return root


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("repositories")
    return [make_repository(folder / f"r{number:03}", number) for number in range(REPOSITORIES)]


@pytest.fixture
def fresh_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("MUSTER_") and "CHAOS" not in name]:
        monkeypatch.delenv(name)
    yield


Outcome = dict[str, Any]


def outcome(found: BatchReport) -> Outcome:
    """What must be the same, whoever was killed: no task's id, no cost, no time."""
    return {
        one.name: (
            one.commit, one.verified, one.reason, [(shard.key, shard.outcome) for shard in one.shards],
            [(collision.key, collision.with_keys, collision.paths) for collision in one.collisions],
        )
        for one in found.repositories
    }  # fmt: skip


async def run(muster: Muster, given: list[RepositoryInput]) -> tuple[BatchReport, int]:
    """To its end; and how often it was done again because of the platform's failures alone."""
    spec, again = parse_batch(BATCH, name="batch.toml"), 0
    while True:
        try:
            handle = await muster.submit_repeatable(batch_request(spec, given, settings=muster.settings))
            [result] = await muster.gather([handle])
            found = await whole_report(muster, result)
        except TransportError:  # as who runs the command again: it joins what is under way
            continue
        if not any(map(is_stuck, found.repositories)):
            return found, again
        again += 1


def is_stuck(one: RepositoryReport) -> bool:
    """By a failure of the platform's: a sandbox that was killed is not opened again by itself, for it may have been
    its task's own doing. Without shards: of its gate."""
    return not one.shards or any(shard.code in RETRIED for shard in one.shards)


async def whole_report(muster: Muster, result: TaskResult) -> BatchReport:
    assert any(each.name == REPORT_NAME for each in result.attachments), result.errors
    return BatchReport.model_validate_json(await muster.attachment(result, REPORT_NAME))


async def one_batch(
    server: Server, folder: Path, repositories: list[Path], seed: int | None
) -> tuple[BatchReport, int, Mapping[str, int]]:
    """With kills as a seed has them, or without."""
    keys = folder / "keyring.json"
    keyring.load_or_create(keys)
    environment = {
        "MUSTER_REDIS_URL": server.url, "MUSTER_FLEET": f"kill-{new_trace_id()[:8]}", "MUSTER_KEYRING": str(keys),
        "MUSTER_STATE_DIR": str(folder / "state"), "MUSTER_CONFIG": str(folder / "none.toml"),
        "MUSTER_SANDBOX_DRIVER": "bubblewrap", "MUSTER_LEASE_S": "3", "MUSTER_POISON_AFTER": "1000",
    }  # fmt: skip
    settings = Settings(
        redis_url=server.url, fleet=environment["MUSTER_FLEET"], keyring=keys, state_dir=folder / "state", lease_s=3.0
    )
    async with batch_fleet(server, environment, folder / "fleet.log") as fleet:
        await fleet.whole()
        transport = await connect(settings)
        muster = Muster(transport, settings)
        given = [await packed(muster, root) for root in repositories]
        striking = asyncio.create_task(fleet.strike(seed, PAUSE_S)) if seed is not None else None
        try:
            found, again = await run(muster, given)
        finally:
            if striking is not None:
                striking.cancel()
                await asyncio.wait([striking])
        await transport.close()
    return found, again, fleet.struck


async def packed(muster: Muster, root: Path) -> RepositoryInput:
    where = await muster.pack(root)
    assert where.bundle
    return RepositoryInput(name=root.name, bundle=where.bundle, base=where.base)


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.usefixtures("fresh_settings")
@pytest.mark.parametrize("seed", seeds(1))
async def test_a_batch_under_kills_comes_to_the_same(seed: int, repositories: list[Path], folder: Path) -> None:
    async with redis_server(folder / "redis") as server:
        (folder / "calm").mkdir()
        (folder / "struck").mkdir()
        began_s = time.monotonic()
        calm, _, _ = await one_batch(server, folder / "calm", repositories, None)
        calm_s = time.monotonic() - began_s
        struck, again, faults = await one_batch(server, folder / "struck", repositories, seed)
    outcomes = [shard.outcome for one in calm.repositories for shard in one.shards]
    report("kill batch", seed=seed, repositories=REPOSITORIES, faults=faults, runs=again + 1,
           calm_s=round(calm_s, 1), struck_s=round(time.monotonic() - began_s - calm_s, 1),
           verified=sum(one.verified for one in calm.repositories),
           **{kind: outcomes.count(kind) for kind in sorted(set(outcomes))})  # fmt: skip
    assert outcome(struck) == outcome(calm), f"replay with MUSTER_CHAOS_SEED={seed}"
    assert {"applied", "failed", "collision"} <= set(outcomes)
    assert sum(faults.values()) > 0
