"""What a model has been shown is never changed: byte for byte, over every path of the loop, in every wire format.

Providers cache the beginning of a request, and the newest sign a model's thoughts together with it. The scripted server
speaks for Anthropic here: it refuses a thought that comes back behind another conversation.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from envelope.budget import Budget
from envelope.plan import Plan, PlanStep
from tests.workers.prefixes import said
from workers.agent.compacting import only_compacted
from workers.agent.history import reopen_session
from workers.agent.loop import run
from workers.agent.policy import WindowPolicy
from workers.agent.session import Session
from workers.agents.registry import builtin
from workers.llm.base import ChatMessage, ToolCall
from workers.llm.limits import ModelLimits

Json = dict[str, Any]

THINKS = "reasoning: let me think"
NOTES = "tool_calls: [{name: note, arguments: {text: a border}}]"
LOOKS = "tool_calls: [{name: lookup, arguments: {word: fence}}]"


@dataclass(frozen=True)
class Wire:
    model: str
    path: str

    def bench(self, kit, server, **fields):
        return kit.Bench(f"{server.url}{self.path}", model=self.model, **fields)


@pytest.fixture(
    params=[
        pytest.param(Wire("openai/scripted", "/v1"), id="chat"),
        pytest.param(Wire("openai/scripted", "/v1/responses"), id="responses"),
        pytest.param(Wire("anthropic/scripted", ""), id="anthropic"),
    ]
)
def wire(request) -> Wire:
    return request.param


def assert_stable(server, *, but: int | None = None) -> None:
    """Each request begins with all of the one before it. `but`: the one that begins anew."""
    bodies = [said(body) for body in server.log.bodies]
    assert len(bodies) > 1
    for number, (before, now) in enumerate(pairwise(bodies), 1):
        if number != but:
            assert now[: len(before)] == before, f"request {number} changes what was said"


async def test_turns_with_calls_and_thoughts(kit, serve, wire):
    server = await serve(f"rules: [{{when: {{turn: 4}}, reply: {{text: Done.}}}}, {{reply: {{{THINKS}, {LOOKS}}}}}]")

    session = await wire.bench(kit, server).run(kit.opened())

    assert session.outcome.text == "Done."
    assert_stable(server)


async def test_a_closing_turn_offers_the_same_tools(kit, serve, wire):
    server = await serve(
        f"rules: [{{when: {{turn: 3}}, reply: {{text: Not all.}}}}, {{reply: {{text: so, {THINKS}, {LOOKS}}}}}]"
    )

    session = await wire.bench(kit, server).run(kit.opened(max_turns=3))

    assert session.outcome.text == "Not all."
    assert server.log.bodies[-1]["tool_choice"] in ("none", {"type": "none"})
    assert_stable(server)


async def test_an_empty_reply_and_one_that_was_cut_off(kit, serve, wire):
    server = await serve(
        f"rules: [{{times: 1, reply: {{text: '', {THINKS}}}}},"
        f" {{times: 1, reply: {{text: Half of, {THINKS}, finish_reason: length}}}}, {{reply: {{text: an answer.}}}}]"
    )

    session = await wire.bench(kit, server).run(kit.opened())

    assert session.outcome.text == "Half ofan answer."
    assert_stable(server)


async def test_words_of_people_and_of_subagents_between_turns(kit, serve, wire):
    server = await serve(f"rules: [{{when: {{turn: 3}}, reply: {{text: Done.}}}}, {{reply: {{{THINKS}, {LOOKS}}}}}]")
    bench = wire.bench(kit, server)
    bench.said = ["and look at the park, too"]

    async def told(session: Session) -> dict[str, str]:
        return {"child": "A subagent in the background has ended."} if session.turn == 1 else {}

    session = await run(kit.opened(), replace(bench.loop(), told=told))

    assert session.outcome.text == "Done."
    assert_stable(server)


async def test_a_session_that_another_process_goes_on_with(kit, serve, wire):
    server = await serve(f"rules: [{{when: {{turn: 4}}, reply: {{text: Done.}}}}, {{reply: {{{THINKS}, {LOOKS}}}}}]")
    bench = wire.bench(kit, server)
    await bench.run(kit.opened())
    requests = server.log.requests

    # from the middle: the last two turns once more, from what was stored
    again = wire.bench(kit, server)
    session = await again.run(Session.load(bench.saved[-3]))

    assert session.outcome.text == "Done." and server.log.requests > requests
    assert_stable(server, but=requests)


async def test_a_prompt_after_the_answer_a_plan_and_its_reminders(kit, serve, wire):
    server = await serve(
        f"rules: [{{when: {{turn: 2}}, reply: {{{THINKS}, {LOOKS}}}}}, {{reply: {{text: So. , {THINKS}}}}}]"
    )
    plan = Plan(goal="Mend it", steps=(PlanStep(step_id="a", title="Look", goal="Look.", agent="build"),))
    opened = kit.opened().model_copy(update={"given_plan": plan, "waypoints": ("Found.",)})

    first = await wire.bench(kit, server).run(opened)
    second = reopen_session(first, kit.AGENT, model=first.model, prompt="And now?", budget=Budget())
    third = await wire.bench(kit, server).run(second)

    assert third.outcome.error is None and server.log.requests == 3
    reminders = [one for one in third.messages if one.content.startswith("<reminder>")]
    assert len(reminders) == 2, "told behind each prompt, and left there"
    assert_stable(server)


async def test_an_agent_that_plans_is_reminded_behind_each_prompt(kit, serve, wire):
    server = await serve(f"rules: [{{reply: {{text: Planned., {THINKS}}}}}]")
    opened = kit.opened().model_copy(update={"agent": "plan"})

    first = await wire.bench(kit, server).run(opened)
    second = reopen_session(first, builtin()["plan"], model=first.model, prompt="Look again.", budget=Budget())
    await wire.bench(kit, server).run(second)

    assert_stable(server)


async def test_a_compaction_begins_anew_and_what_is_kept_behind_it_has_no_thoughts(kit, serve, wire):
    server = await serve(
        f"""
        rules:
          - {{when: {{user_contains: Write the notes}}, reply: {{text: "## Objective: look"}}}}
          - {{when: {{user_contains: And now, tool_results: 2}}, reply: {{text: I see., {THINKS}, {NOTES}}}}}
          - {{when: {{turn: 1}}, reply: {{text: I look., {THINKS}, {LOOKS}}}}}
          - {{when: {{turn: 2}}, reply: {{text: I note., {THINKS}, {NOTES}}}}}
          - {{reply: {{text: Done., {THINKS}}}}}
        """
    )
    long = kit.opened().messages[1].model_copy(update={"content": "x" * 40_000})
    opened = kit.opened().model_copy(update={"messages": (kit.opened().messages[0], long)})
    policy = WindowPolicy(limits=ModelLimits(context=200_000, output=8_000))
    first = await wire.bench(kit, server, policy=policy).run(opened)
    compacted = await wire.bench(kit, server, policy=policy).run(only_compacted(first))
    begun_anew = server.log.requests
    again = reopen_session(compacted, kit.AGENT, model=first.model, prompt="And now?", budget=Budget())
    last = await wire.bench(kit, server, policy=policy).run(again)

    assert compacted.compaction is not None and compacted.compaction.kept_from < len(first.messages)
    assert (last.outcome.error, last.outcome.text) == (None, "Done.")
    sent = list(server.log.bodies)[begun_anew:]
    assert "I note." in json.dumps(sent[0]) and "let me think" not in json.dumps(sent[0])
    if wire.path != "/v1":
        assert "let me think" in json.dumps(sent[1]), "what is thought behind the summary goes back again"
    server.log.bodies = deque(sent)
    assert_stable(server)


async def test_another_model_gets_no_thoughts_and_the_same_words(kit, serve, wire):
    server = await serve(
        f"rules: [{{when: {{turn: 1}}, reply: {{text: I look., {THINKS}, {LOOKS}}}}}, {{reply: {{text: Done.}}}}]"
    )
    first = await wire.bench(kit, server).run(kit.opened())

    other = replace(wire, model=wire.model.replace("scripted", "another"))
    again = reopen_session(first, kit.AGENT, model=other.model, prompt="And now?", budget=Budget())
    await other.bench(kit, server).run(again)

    sent = json.dumps(server.log.bodies[-1])
    assert "let me think" not in sent and "signed-" not in sent and "sealed-" not in sent
    assert "I look." in sent and "a border" in sent


@pytest.mark.parametrize("wire", [Wire("openai/scripted", "/v1/responses"), Wire("anthropic/scripted", "")])
async def test_ids_of_a_provider_come_back_to_it(kit, serve, wire):
    long = "call_" + "x" * 900
    server = await serve(
        f"rules: [{{when: {{turn: 2}}, reply: {{text: Done.}}}},"
        f" {{reply: {{{THINKS}, tool_calls: [{{name: lookup, id: {long}, arguments: {{word: fence}}}}]}}}}]"
    )

    session = await wire.bench(kit, server).run(kit.opened())

    assert len(session.messages[-2].tool_call_id) < 64, "ours fits into events and file names"
    assert json.dumps(server.log.bodies[-1]).count(long) == 2


def test_a_message_of_an_older_session_is_read_without_its_thoughts():
    old = ChatMessage(
        role="assistant", content="it", tool_calls=(ToolCall(id="1", name="a", arguments="{}", input={}),)
    )
    stored = json.loads(old.model_dump_json()) | {"thoughts": [{"model": "m", "text": "so", "signature": "s"}]}

    assert ChatMessage.model_validate(stored) == old
