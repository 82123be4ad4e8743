"""Subagents are started under their caller's lease, once for each call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from envelope.messages import TaskInput
from transport.errors import Fenced
from transport.outbox import Outbox
from workers.agents.registry import builtin
from workers.delivery.attempt import Attempt
from workers.delivery.reporter import Reporter
from workers.permissions.guard import Guard
from workers.sandboxes.of_task import TaskSandbox
from workers.sandboxes.turns import Single
from workers.subagents.children import QueuedChildren
from workers.subagents.room import Room
from workers.tools.base import ChildRequest
from workers.tools.errors import ToolError
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
        guard, sandbox = Guard(request.auth_scope, ()), TaskSandbox(Single(driver), no_workspace)
        room = Room(hands.transport, request.trace_id, max_in_flight=2)
        made = Attempt(claim, request, agents["build"], guard, sandbox, reporter)
        return QueuedChildren(hands.transport, Outbox(hands.transport), made, agents, tuple(all_tools()), room, 1)

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


async def test_a_trace_has_no_more_subagents_than_there_is_room_for(caller, hands):
    children = await caller()
    await hands.stop()  # nobody works: what is started stays under way
    started = [await children.start(ChildRequest(f"call_{n}", "explore", "look", f"look {n}")) for n in range(2)]

    with pytest.raises(ToolError, match="2 subagents of this trace are under way"):
        await children.start(ChildRequest("call_2", "explore", "look", "look 2"))
    await hands.transport.cancel(started[0], by="test", reason="room")

    assert await children.start(ChildRequest("call_3", "explore", "look", "look 3"))
