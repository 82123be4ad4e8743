"""An agent with several models: where one fails or refuses, the next one goes on with the session."""

from __future__ import annotations

import json

import pytest

from envelope.errors import ErrorCode
from envelope.events import TurnStarted, WarningRaised
from envelope.lifecycle import State
from envelope.messages import TaskInput

pytestmark = [pytest.mark.redis, pytest.mark.docker]

FIRST, SECOND, THIRD = "openai/first", "openai/second", "openai/third"
AGENT = f"---\ndescription: d\nmode: primary\nmodels: [{FIRST}, {SECOND}, {THIRD}]\n---\nYou read."
PRICE = {"input": 1_000_000, "output": 10_000_000}
# a try that failed in its middle would be tried again after seconds; what cannot be mended is told at once
BREAKS = """
rules:
  - when: {model: first, turn: 1}
    reply: {text: I look., reasoning: hm, tool_calls: [{name: read, arguments: {filePath: src/greet.py}}]}
  - when: {model: first}
    BREAKS
  - when: {model: second, result_contains: def greet}
    reply: {text: It greets.}
"""
REFUSES = "reply: {text: I will not., finish_reason: content_filter}"
FILTERS = "fault: {status: 400, code: content_filter, message: by our content policy}"


@pytest.fixture
def start(start_agents, workspace):
    async def begin(script: str, *, prices=(FIRST, SECOND, THIRD), model: str = "", agent: str = AGENT, **settings):
        hands, server = await start_agents(
            script, agents={"reader": agent}, prices=dict.fromkeys(prices, PRICE), **settings
        )
        request = hands.request(
            agent="reader",
            recipient="build",
            auth_scope=("read:**",),
            workspace=workspace,
            model=model,
            input=TaskInput(prompt="what does it do?"),
        )
        return hands, server, request

    return begin


async def told(hands, request, kind: str) -> list:
    return await hands.events(request.trace_id, kind)


@pytest.mark.parametrize("breaks", [REFUSES, FILTERS])
async def test_the_next_model_goes_on_with_what_was_said(start, breaks):
    hands, server, request = await start(BREAKS.replace("BREAKS", breaks))

    result = await hands.result(request)

    assert (result.status, result.output.text) == (State.COMPLETED, "It greets.")
    [warning] = [one for one in await told(hands, request, "warning") if isinstance(one, WarningRaised)]
    assert warning.code == "model_fallback"
    assert warning.message.startswith(f"{FIRST} does not go on: ") and warning.message.endswith(f"{SECOND} does")
    turns = [one.model for one in await told(hands, request, "turn_started") if isinstance(one, TurnStarted)]
    assert turns == [FIRST, FIRST, SECOND]
    sent = json.dumps(server.log.bodies[-1])
    assert "I look." in sent and "I will not." not in sent
    assert result.metrics.turns == 3 and result.metrics.cost_microusd > 0, "all of it is the task's own"


async def test_an_outage_is_passed_on_once_it_was_tried_again(start):
    hands, server, request = await start(
        BREAKS.replace("BREAKS", "fault: {status: 503, message: Overloaded, headers: {retry-after-ms: '1'}}")
    )

    result = await hands.result(request)

    assert (result.status, result.output.text) == (State.COMPLETED, "It greets.")
    assert [body["model"] for body in server.log.bodies].count("first") == 6, "one turn, and five tries of another"


async def test_a_wrong_request_is_wrong_for_every_model(start):
    hands, server, request = await start(BREAKS.replace("BREAKS", "fault: {status: 400, message: nonsense}"))

    result = await hands.result(request)

    assert result.errors[0].code is ErrorCode.MODEL_FAILED
    assert {body["model"] for body in server.log.bodies} == {"first"}


async def test_the_last_of_them_ends_the_task(start):
    refuses = "\nrules:\n  - reply: {text: No., finish_reason: content_filter}\n"
    hands, server, request = await start(refuses)

    result = await hands.result(request)

    assert result.errors[0].code is ErrorCode.MODEL_FAILED
    assert [body["model"] for body in server.log.bodies] == ["first", "second", "third"]


async def test_who_names_a_model_gets_no_other(start):
    hands, server, request = await start(BREAKS.replace("BREAKS", REFUSES), model=FIRST)

    result = await hands.result(request)

    assert result.status is State.ERROR
    assert {body["model"] for body in server.log.bodies} == {"first"}


async def test_where_money_is_capped_a_model_without_a_price_is_passed_over(start):
    third = BREAKS.replace("BREAKS", REFUSES).replace("model: second", "model: third")
    agent = AGENT.replace(SECOND, "anthropic/unheard-of")  # and elsewhere: what runs here costs nothing
    hands, server, request = await start(third, prices=(FIRST, THIRD), agent=agent)
    budget = request.budget.model_copy(update={"max_cost_microusd": 1_000_000})

    result = await hands.result(request.model_copy(update={"budget": budget}))

    assert (result.status, result.output.text) == (State.COMPLETED, "It greets.")
    assert [body["model"] for body in server.log.bodies] == ["first", "first", "third"]


async def test_a_new_prompt_begins_with_the_first_again(start):
    hands, server, request = await start(BREAKS.replace("BREAKS", REFUSES))
    first = await hands.result(request)
    later = request.model_copy(
        update={
            "task_id": hands.request().task_id,
            "resume_token": first.resume_token,
            "input": TaskInput(prompt="Look again."),
        }
    )

    await hands.result(later)

    assert [body["model"] for body in server.log.bodies][-2:] == ["first", "second"]
