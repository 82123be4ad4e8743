"""Subagents are started under their caller's lease, once for each call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from envelope.messages import TaskInput
from transport.errors import Fenced
from transport.outbox import Outbox
from workers.agents.registry import builtin
from workers.attempt import Attempt
from workers.children import QueuedChildren
from workers.permissions.guard import Guard
from workers.reporter import Reporter
from workers.task_sandbox import TaskSandbox
from workers.tools.base import ChildRequest
from workers.tools.registry import all_tools

pytestmark = [pytest.mark.redis, pytest.mark.docker]

LOOKS = ChildRequest("call_1", "explore", "look", "look around")


@pytest.fixture
async def caller(hands, driver) -> AsyncIterator[Callable[[], Awaitable[QueuedChildren]]]:
    """`await caller()`: the next attempt of one task that has subagents; this test plays its worker."""
    request = hands.request(agent="build", recipient="orchestrator", auth_scope=("read:**", "task:**"))
    request = request.model_copy(update={"input": TaskInput(prompt="lead")})
    await hands.transport.submit([request])

    async def no_workspace():
        raise AssertionError("these subagents have none")

    async def attempt() -> QueuedChildren:
        [claim] = await hands.transport.claim("orchestrator", "w1", slots=1, wait_s=5)
        agents, reporter = builtin(), Reporter(hands.transport, claim.lease)
        guard, sandbox = Guard(request.auth_scope, ()), TaskSandbox(driver, no_workspace, lambda _: None)
        made = Attempt(claim, request, agents["build"], guard, sandbox, reporter)
        return QueuedChildren(hands.transport, Outbox(hands.transport), made, agents, tuple(all_tools()))

    yield attempt
    await hands.transport.cancel(request.task_id, by="test", reason="done")


async def test_the_same_call_leads_to_the_same_subagent(caller):
    children = await caller()

    assert await children.start(LOOKS) == await children.start(LOOKS)


async def test_a_worker_that_lost_its_task_starts_no_subagent(caller, hands):
    lost = await caller()
    await hands.transport.give_back(lost.attempt.claim.lease)
    current = await caller()

    with pytest.raises(Fenced):
        await lost.start(LOOKS)

    [task] = await hands.transport.tasks(trace_id=lost.attempt.request.trace_id)
    assert task.attempt == current.attempt.claim.lease.attempt == 2
