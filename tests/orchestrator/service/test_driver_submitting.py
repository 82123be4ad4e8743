"""What a driver submits: under its lease, and stamped when it is handed over."""

from __future__ import annotations

import asyncio

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskResult
from orchestrator.driver import Driver, DriverContext, Work, open_driver
from orchestrator.submit import DRIVERS, RUN, task_request
from transport.base import Claim
from transport.delivery import Delivery
from transport.errors import Fenced

FIELDS = {"auth_scope": (), "deadline_ms": 60_000}


@pytest.fixture
def played(any_stage):
    """A claimed goal, with what its driver may submit."""

    async def claim() -> tuple[Driver, Claim, Work]:
        goal = task_request(agent=RUN, pool=DRIVERS, **FIELDS)
        await any_stage.muster.submit(goal)
        [claimed] = await any_stage.transport.claim(DRIVERS, "d1", slots=1, wait_s=5)
        context = DriverContext(any_stage.transport, any_stage.folder, any_stage.metrics)
        child = task_request(parent=goal, agent="build", pool="build", **FIELDS)
        driver = await open_driver(Delivery(claimed, goal), context)
        # made long before there was room for it: the queue itself would refuse it
        return driver, claimed, Work("a", child.model_copy(update={"created_at_ms": 0}), "a child")

    return claim


async def test_work_that_had_to_wait_is_stamped_anew(played, any_stage):
    driver, _, work = await played()
    endings = driver.run([work])
    ending = anext(endings)

    async def builder() -> None:
        [claim] = await any_stage.transport.claim("build", "w1", slots=1, wait_s=5)
        said = {"trace_id": claim.lease.trace_id, "task_id": claim.lease.task_id, "attempt": 1}
        await any_stage.transport.finish(claim.lease, TaskResult(**said, status=State.COMPLETED))

    ended, _ = await asyncio.gather(ending, builder())
    assert ended.result.status is State.COMPLETED
    await endings.aclose()


async def test_a_driver_that_lost_its_lease_starts_no_child(played, any_stage):
    driver, claimed, work = await played()
    await any_stage.transport.give_back(claimed.lease)

    with pytest.raises(Fenced):
        async for _ in driver.run([work]):
            pass

    assert [task.agent for task in await any_stage.muster.tasks(trace_id=claimed.lease.trace_id)] == [RUN]
