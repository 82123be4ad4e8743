"""Reports fit into a result, whatever the size of the batch."""

from __future__ import annotations

import pytest

from envelope.budget import Metrics
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import Output, TaskRequest, TaskResult
from orchestrator.batch.ended import report_of_goal
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


@pytest.mark.parametrize(("turns", "said", "verified"), [(0, True, True), (3, True, False), (0, "yes", False)])
def test_the_report_of_one_task_believes_no_agents_word_on_itself(turns: int, said: object, verified: bool):
    ids = {"task_id": new_task_id(), "trace_id": new_trace_id()}
    request = TaskRequest(**ids, sender="me", recipient="explore", agent="explore", deadline_ms=1000, created_at_ms=1)
    structured = {"verified": said, "evidence": "all of it" if turns else {}}
    result = TaskResult(
        **ids,
        attempt=1,
        status=State.COMPLETED,
        output=Output(structured=structured),
        metrics=Metrics(turns=turns),
    )

    [one] = report_of_goal(request, result, cost_microusd=0).repositories

    assert one.verified is verified
