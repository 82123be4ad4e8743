"""A task whose trace's money is spent: it waits where somebody can raise the cap, and elsewhere ends resumable."""

from __future__ import annotations

import pytest

from envelope.budget import Budget
from envelope.errors import CODES, ErrorCode, ExitCode
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress

pytestmark = [pytest.mark.redis, pytest.mark.docker]

MODEL = "openai/scripted"
# $1 for a million tokens in, $100 out: the first call costs $0.50, and the second may cost up to $0.80
SETTINGS = {
    "prices": {MODEL: {"input": 1_000_000, "output": 100_000_000}},
    "model_limits": {MODEL: {"context": 100_000, "output": 8_000}},
}
CAP_MICROUSD = 550_000
COSTLY = "usage: {input_tokens: 100, output_tokens: 4999}"
SCRIPT = f"""
rules:
  - when: {{tool_results: 0}}
    reply: {{{COSTLY}, tool_calls: [{{name: read, arguments: {{filePath: src/other.py}}}}]}}
  - {{reply: {{text: "It says ${{result.0}}"}}}}
"""


@pytest.fixture
def start(start_agents, workspace):
    async def begin(*, waits_at_cap: bool):
        hands, server = await start_agents(SCRIPT, **SETTINGS)
        request = hands.request(
            agent="build",
            auth_scope=("read:**",),
            workspace=workspace,
            input=TaskInput(prompt="What does it say?"),
            budget=Budget(max_cost_microusd=CAP_MICROUSD, waits_at_cap=waits_at_cap),
        )
        return hands, server, request

    return begin


def waits(progress: TaskProgress) -> bool:
    return progress.status is State.WAITING


async def test_it_waits_and_goes_on_when_the_cap_is_raised(start):
    hands, server, request = await start(waits_at_cap=True)
    await hands.transport.submit([request])
    await hands.until(request.trace_id, waits)
    assert server.log.requests == 1

    await hands.transport.raise_cap(request.trace_id, 2_000_000, by="a person")

    result = await hands.ended(request.task_id)
    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert "X = 1" in result.output.text
    assert (result.metrics.turns, server.log.requests) == (2, 2)  # the first call was not made again
    assert CAP_MICROUSD - 100_000 < result.metrics.cost_microusd < 2_000_000


async def test_a_raise_that_is_not_enough_has_it_wait_again(start):
    hands, server, request = await start(waits_at_cap=True)
    await hands.transport.submit([request])
    seen = await hands.until(request.trace_id, waits)

    await hands.transport.raise_cap(request.trace_id, CAP_MICROUSD + 1, by="a person")

    await hands.until(request.trace_id, waits, after=seen)
    assert server.log.requests == 1
    await hands.transport.cancel(request.task_id, by="test", reason="enough")
    assert (await hands.ended(request.task_id)).status is State.CANCELLED


async def test_it_waits_for_its_tenants_money_as_well(start):
    hands, server, request = await start(waits_at_cap=True)
    await hands.transport.fund(request.tenant, CAP_MICROUSD, by="test")
    request = request.model_copy(update={"budget": Budget(waits_at_cap=True)})
    await hands.transport.submit([request])
    await hands.until(request.trace_id, waits)
    told = [entry.message async for entry in hands.transport.follow(request.trace_id, wait=False)]
    reached = [event for one in told for event in one.events if event.kind == "budget"]

    await hands.transport.fund(request.tenant, 2_000_000, by="a person")

    result = await hands.ended(request.task_id)
    assert [(event.whose, event.spent, event.allowed) for event in reached] == [("tenant", 500_000, CAP_MICROUSD)]
    assert (result.status, result.metrics.turns, server.log.requests) == (State.COMPLETED, 2, 2)
    assert (await hands.transport.funds(request.tenant)).spent_microusd == result.metrics.cost_microusd


async def test_where_nobody_can_raise_it_the_task_ends_and_its_session_can_go_on(start):
    hands, server, request = await start(waits_at_cap=False)

    result = await hands.result(request)

    assert result.status is State.ERROR
    assert result.errors[0].code is ErrorCode.BUDGET and CODES[ErrorCode.BUDGET].exit_code is ExitCode.BUDGET == 3
    assert "pays for no other model call" in result.errors[0].message and result.errors[0].hint
    assert (server.log.requests, result.metrics.cost_microusd) == (1, 500_000)
    more = hands.request(
        agent="build",
        auth_scope=("read:**",),
        workspace=request.workspace,
        resume_token=result.resume_token,
        input=TaskInput(prompt="Go on."),
        budget=Budget(max_cost_microusd=2_000_000),
    )
    assert "X = 1" in (await hands.result(more)).output.text
    assert [body["max_tokens"] <= 8_000 for body in server.log.bodies] == [True, True]
