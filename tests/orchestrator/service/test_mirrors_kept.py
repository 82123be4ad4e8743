"""An orchestrator gives up the mirrors that nobody works on, and no others."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator.mirrors import MirrorsAtWork, collect_mirrors_if_due
from orchestrator.settings import Settings
from repo.keeping import DAY_S
from repo.mirror import Mirror, mirror_of
from transport.base import Lease


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path / "state")


@pytest.fixture
async def mirrors(tmp_path: Path, settings: Settings) -> tuple[Mirror, Mirror]:
    """Two, both of which nobody has asked for in a month."""
    source = tmp_path / "source"
    git = ["git", "-C", str(source), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    subprocess.run(["git", "init", "-q", str(source)], check=True)
    subprocess.run([*git, "commit", "-qm", "first", "--allow-empty"], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    url = source.as_uri()
    one, other = [
        await mirror_of(settings.cache_dir, url=url, commit=commit, shared_by=[key], protocols=("file",))
        for key in "ab"
    ]
    for mirror in (one, other):
        os.utime(mirror.git_dir.with_suffix(".lock"), (time.time() - 30 * DAY_S,) * 2)
    return one, other


async def test_what_a_running_batch_works_on_stays_and_goes_when_it_has_ended(settings, mirrors):
    busy, idle = mirrors
    at_work = MirrorsAtWork()
    lost, lease = (Lease("task", "trace", "orchestrator", "us", attempt) for attempt in (1, 2))
    assert at_work.of(lost, "ann").take(busy.git_dir) and at_work.of(lease, "ann").take(busy.git_dir)
    at_work.release(lost)

    await collect_mirrors_if_due(settings)

    assert busy.git_dir.is_dir() and not idle.git_dir.exists()
    at_work.release(lease)
    os.utime(busy.git_dir.with_suffix(".lock"), (time.time() - 30 * DAY_S,) * 2)
    await collect_mirrors_if_due(settings)
    assert busy.git_dir.is_dir()  # it is not an hour since the last time

    os.utime(settings.state_dir / "locks" / "collect-mirrors.lock", (time.time() - 2 * 3600,) * 2)
    await collect_mirrors_if_due(settings)
    assert not busy.git_dir.exists()


async def test_the_limits_are_the_operators(mirrors, settings, monkeypatch):
    monkeypatch.setenv("MUSTER_REPOSITORIES_MAX_AGE_DAYS", "60")
    await collect_mirrors_if_due(Settings(state_dir=settings.state_dir))

    assert all(mirror.git_dir.is_dir() for mirror in mirrors)
