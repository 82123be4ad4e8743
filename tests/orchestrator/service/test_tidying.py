"""Repositories that an orchestrator's machine no longer needs."""

from __future__ import annotations

import os
import time

import pytest

from orchestrator.repositories import fetch_mirror
from orchestrator.tidying import tidy_if_due

DAY_S = 86_400


@pytest.fixture
async def unpacked(memory_stage):
    """Two repositories of batches, the first of which nobody used for eight days."""
    stage, settings = memory_stage, memory_stage.muster.settings
    mirrors = []
    for name, age_s in (("old", 8 * DAY_S), ("new", 6 * DAY_S)):
        given = await stage.repository({"a": name}, name=name)
        found = await fetch_mirror(stage.transport.blobs, settings.cache_dir, bundle_ref=given.bundle, base=given.base)
        used = time.time() - age_s
        os.utime(found.git_dir.with_suffix(".lock"), (used, used))
        mirrors.append(found.git_dir)
    return settings, *mirrors


async def test_what_nobody_used_for_the_retention_time_goes(unpacked):
    settings, old, new = unpacked
    gone = await tidy_if_due(settings)

    assert [each.name for each in gone] == [f"mirrors/{old.name}"]
    assert (old.exists(), new.exists()) == (False, True)


async def test_no_more_than_once_an_hour(unpacked):
    settings, old, _ = unpacked
    await tidy_if_due(settings)
    used = time.time() - 365 * DAY_S
    for lock in settings.cache_dir.glob("mirrors/*.lock"):
        os.utime(lock, (used, used))

    assert await tidy_if_due(settings) == []
    assert not old.exists()


async def test_a_short_retention_takes_nothing_from_a_task_that_may_live(unpacked):
    settings, _, new = unpacked
    used = time.time() - DAY_S
    os.utime(new.with_suffix(".lock"), (used, used))
    await tidy_if_due(settings.model_copy(update={"retention_s": 60.0}))

    assert new.exists()
