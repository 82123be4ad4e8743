"""A program that waits, for people or for money, keeps its sandbox: one source tells everybody that it waits."""

from __future__ import annotations

import pytest

from envelope.asks import AskTerms, Reply
from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator.asks import open_asks
from orchestrator.metrics.survey import survey
from orchestrator.session.fold import Session, apply
from orchestrator.task_life import Ending, task_life
from transport.raising import ask_for_more
from workers.delivery import holding

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SAYS = """
rules:
  - reply: {text: "you have it"}
"""
EDIT = ("edits", "/workspace/src/greet.py", "X = 3\n")
CAP = 2  # micro-dollars: less than any call


async def waiting(hands, request) -> None:
    await hands.until(request.trace_id, lambda progress: progress.status is State.WAITING)


async def view(hands, request) -> Session:
    """As trees, the console and `muster top` have it."""
    seen = Session.of(request.task_id, request.trace_id)
    async for entry in hands.transport.follow(request.trace_id, wait=False):
        apply(seen, entry)
    return seen


async def test_a_program_that_asks_waits_for_everybody_who_looks(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file("permission: {edit: ask}\n")})
    request = led(hands, steps(EDIT), asks=AskTerms())
    await hands.transport.submit([request])
    await waiting(hands, request)

    record, seen = await hands.transport.record(request.task_id), await view(hands, request)
    found = await survey(hands.transport)
    [ask_id] = record.waits_for
    assert (record.state, bool(record.worker)) == (State.WAITING, True)
    assert (seen.root_task.state, list(seen.root_task.asks)) == (State.WAITING, [ask_id])
    assert [question.kind for question in found.questions] == ["edit"]
    assert found.parked == {("build", "ask"): 1}
    [one] = await open_asks(hands.transport, trace_id=request.trace_id)
    await hands.transport.answer(request.task_id, ask_id, Reply(choice="once").text(), by="me", asked=one.ask.digest())
    result = await hands.ended(request.task_id)

    assert result.errors == ()
    assert (await survey(hands.transport)).questions == []
    entries = [entry async for entry in hands.transport.follow(request.trace_id)]
    life = task_life(await hands.transport.record(request.task_id), entries)
    assert [attempt.ending for attempt in life.attempts] == [Ending.ENDED]
    assert State.WAITING in [phase.state for phase in life.phases]


async def test_a_program_waits_for_more_money_and_goes_on(start_agents, led, agent_file, steps):
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file()})
    budget = Budget(max_cost_microusd=CAP, waits_at_cap=True)
    request = led(hands, steps(("run", "echo 1 > src/new.py"), ("openai", "some money, please")), budget=budget)
    await hands.transport.submit([request])
    await waiting(hands, request)
    assert (await hands.transport.record(request.task_id)).waits_for == (ask_for_more(CAP),)
    assert server.log.requests == 0

    await hands.transport.raise_cap(request.trace_id, 1_000_000, by="me")
    result = await hands.ended(request.task_id)

    assert result.errors == ()
    assert result.output.text.endswith("you have it")
    assert (result.attempt, result.metrics.turns) == (1, 1)


async def test_money_that_nobody_gives_in_time_ends_the_task_with_its_work(
    start_agents, led, agent_file, steps, monkeypatch
):
    monkeypatch.setattr(holding, "LONGEST_MS", 0)
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file()})
    budget = Budget(max_cost_microusd=CAP, waits_at_cap=True)
    request = led(hands, steps(("run", "echo 1 > src/new.py"), ("openai", "money that never comes")), budget=budget)

    result = await hands.result(request)

    assert [error.code for error in result.errors] == [ErrorCode.BUDGET]
    assert [file.path for file in result.patch.files] == ["src/new.py"]
    assert server.log.requests == 0
    assert len(await hands.events(request.trace_id, "budget")) == 1


async def test_a_question_that_its_asker_has_given_up_is_not_paid_when_there_is_money(
    start_agents, led, agent_file, steps
):
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file()})
    budget = Budget(max_cost_microusd=CAP, waits_at_cap=True)
    asked = (("gives_up", "money, quickly"), ("plan", "given up"), ("openai", "money, whenever"))
    request = led(hands, steps(*asked), budget=budget)
    await hands.transport.submit([request])
    told: list[str] = []

    def second_waits(progress: TaskProgress) -> bool:
        """Only when the first one waits no longer it is the second one's turn; the plan is told when there is time."""
        told.extend(event.kind for event in progress.events)
        return "todo" in told and (told.count("budget") > 1 or "budget" in told[told.index("todo") :])

    await hands.until(request.trace_id, second_waits)

    await hands.transport.raise_cap(request.trace_id, 1_000_000, by="me")
    result = await hands.ended(request.task_id)

    assert result.output.text == "TimeoutError\nNone\nyou have it"
    assert [body["messages"][-1]["content"] for body in server.log.bodies] == ["money, whenever"]


async def test_a_program_that_dies_while_it_waits_for_money_is_not_waited_for(
    start_agents, led, agent_file, steps, go_on
):
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file()})
    budget = Budget(max_cost_microusd=CAP, waits_at_cap=True)
    request = led(hands, steps(("pays_and_dies", "money for the dying")), budget=budget)
    await hands.transport.submit([request])
    await waiting(hands, request)

    go_on(request)
    result = await hands.ended(request.task_id)

    assert [error.code for error in result.errors] == [ErrorCode.ENGINE]
    assert server.log.requests == 0
