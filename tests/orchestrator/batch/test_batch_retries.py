"""What a fleet has lost comes again by itself, within bounds."""

from __future__ import annotations

import pytest

from envelope.errors import ErrorCode
from orchestrator.batch.failures import TRIES

FILES = {"src/a.py": "old a\n", "src/b.py": "old b\n", "tests/t.py": "assert\n"}


def losing(builders, code, times):
    """The first tries of one shard end so."""
    left = [times]

    def edit(task, files):
        if task.intent.endswith("src/b.py") and left[0]:
            left[0] -= 1
            raise builders.fails("it is gone")
        builders.modernise(task, files)

    builders.edit, builders.code = edit, lambda _: code
    return left


def tries_of(builders, path):
    return [task for task in builders.shards_started() if task.intent.endswith(path)]


@pytest.mark.parametrize("code", [ErrorCode.SANDBOX, ErrorCode.INTERNAL, ErrorCode.POISON])
async def test_a_shard_that_was_lost_as_often_as_is_forgiven_comes_through(stage, code):
    losing(stage.builders, code, TRIES[code] - 1)

    result, report = await stage.batch(await stage.repository(FILES))

    assert report.verified and result.errors == ()
    assert len(tries_of(stage.builders, "src/b.py")) == TRIES[code]
    assert len(tries_of(stage.builders, "src/a.py")) == 1


async def test_another_run_of_the_batch_has_all_its_tries_again(stage):
    left = losing(stage.builders, ErrorCode.SANDBOX, TRIES[ErrorCode.SANDBOX])
    given = await stage.repository(FILES)
    _, first = await stage.batch(given)
    left[0] = TRIES[ErrorCode.SANDBOX] - 1

    _, second = await stage.batch(given)

    assert [shard.outcome for shard in first.repositories[0].shards] == ["applied", "failed"]
    assert [shard.outcome for shard in second.repositories[0].shards] == ["applied", "applied"]
