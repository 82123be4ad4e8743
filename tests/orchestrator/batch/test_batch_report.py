"""Reports fit into a result, whatever the size of the batch."""

from __future__ import annotations

import pytest

from orchestrator.batch.report import (
    DETAIL_CHARS,
    MAX_LISTED,
    MAX_REPORT_BYTES,
    BatchReport,
    CollisionReport,
    RepositoryReport,
    ShardReport,
)


def report(shards: int, failed: int, *, repositories: int = 1) -> BatchReport:
    lines = tuple(
        ShardReport(
            key=f"src/module_{number}.py",
            outcome="failed" if number < failed else "applied",
            task_id="t" * 36,
            trace_id="f" * 32,
            detail="x" * DETAIL_CHARS if number < failed else "",
            cost_microusd=1,
        )
        for number in range(shards)
    )
    collision = CollisionReport(key="a", with_keys=("b",), paths=("c",), detail="y" * DETAIL_CHARS)
    one = RepositoryReport.of(
        lines, name="demo", base="0" * 40, commit="1" * 40, collisions=(collision,) * failed, reason="z"
    )
    return BatchReport(name="big", repositories=(one,) * repositories)


def test_a_small_report_is_whole():
    assert report(100, 3).abridged() == report(100, 3)


def test_a_large_one_lists_what_needs_a_look():
    short = report(5_000, 50).abridged()

    assert not short.listed
    assert [len(one.shards) for one in short.repositories] == [50]
    assert all(shard.outcome == "failed" for shard in short.shards)
    assert (short.repositories[0].count("applied"), short.cost_microusd) == (4_950, 5_000)


@pytest.mark.parametrize(("shards", "failed", "repositories"), [(3_000, 3_000, 1), (10, 10, 300)])
def test_every_report_fits(shards, failed, repositories):
    short = report(shards, failed, repositories=repositories).abridged()

    assert len(short.model_dump_json()) <= MAX_REPORT_BYTES
    assert len(short.repositories) == repositories
    assert all(len(one.shards) <= MAX_LISTED for one in short.repositories)


def test_the_text_says_done_and_not_verified_until_it_is():
    assert report(5, 2).text() == "demo: done, not verified; shards: 3 applied, 2 failed: z"
