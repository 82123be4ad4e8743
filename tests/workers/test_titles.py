"""A root session gets a title, beside its first turn; a failure changes nothing."""

from __future__ import annotations

import pytest

from envelope.budget import Budget
from envelope.lifecycle import State
from envelope.messages import TaskInput
from workers.sessions.titles import cleaned

pytestmark = [pytest.mark.redis, pytest.mark.docker]

MODEL = "openai/scripted"
PRICES = {MODEL: {"input": 1_000_000, "output": 2_000_000}, "openai/small": {"input": 10, "output": 20}}
USAGE = "usage: {input_tokens: 100, output_tokens: 50}"
NAMED = f'reply: {{text: "<think>so</think> Mend the parser", {USAGE}}}'
NAMES = f"""
rules:
  - when: {{system_contains: You name a piece of work}}
    {NAMED}
  - {{when: {{prompt_contains: look}}, reply: {{text: I looked., {USAGE}}}}}
  - when: {{turn: 1}}
    reply:
      {USAGE}
      tool_calls: [{{name: task, arguments: {{description: x, prompt: look, subagent_type: explore}}}}]
  - {{reply: {{text: Done., {USAGE}}}}}
"""


@pytest.fixture
def start(start_agents, workspace):
    async def begin(script: str = NAMES, **settings):
        hands, server = await start_agents(script, **{"titles": True, "prices": PRICES, **settings})
        scope = ("read:**", "task:**")
        return (
            hands,
            server,
            hands.request(
                agent="build", auth_scope=scope, workspace=workspace, input=TaskInput(prompt="Mend the parser of dates")
            ),
        )

    return begin


def titles_asked(server) -> list[dict]:
    return [body for body in server.log.bodies if "You name" in body["messages"][0]["content"]]


async def test_a_session_that_is_a_part_of_something_named_asks_for_none(start):
    hands, server, request = await start()
    untitled = request.input.model_copy(update={"params": {"untitled": True}})

    result = await hands.result(request.model_copy(update={"input": untitled}))

    assert result.status is State.COMPLETED
    assert titles_asked(server) == []


async def test_the_first_prompt_of_a_root_session_gives_it_a_title(start):
    hands, server, request = await start()

    result = await hands.result(request)

    assert result.status is State.COMPLETED
    assert [event.title for event in await hands.events(request.trace_id, "title")] == ["Mend the parser"]
    (asked,) = titles_asked(server)  # none for the subagent
    assert (asked["temperature"], asked["max_tokens"], asked.get("tools")) == (0.5, 2_000, None)
    assert "Mend the parser of dates" in asked["messages"][1]["content"]


async def test_a_title_is_paid_for_and_is_no_turn(start):
    hands, server, request = await start()
    request = request.model_copy(update={"budget": Budget(max_cost_microusd=5_000_000)})

    result = await hands.result(request)

    assert (result.metrics.turns, result.metrics.cost_microusd) == (2, 3 * 200)
    assert result.metrics.usage.input_tokens == 300
    assert server.log.requests == 4


async def test_a_small_model_may_give_the_titles(start):
    hands, server, request = await start(small_model="openai/small")

    await hands.result(request)

    assert [body["model"] for body in titles_asked(server)] == ["small"]


async def test_a_title_that_fails_changes_nothing(start):
    hands, _, request = await start(NAMES.replace(NAMED, "fault: {status: 401}"))

    result = await hands.result(request)

    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert await hands.events(request.trace_id, "title") == []


async def test_a_title_that_breaks_off_is_paid_for_as_far_as_it_came(start, monkeypatch):
    monkeypatch.setattr("workers.sessions.titles.GRACE_S", 60.0)  # it takes two tries, and a pause between them
    breaks = f"reply: {{text: '{'Mend the parser of dates. ' * 40}'}}, fault: {{after_bytes: 3000, cut: true}}"
    hands, server, request = await start(
        NAMES.replace(f"    {NAMED}", "    " + breaks.replace(", fault", "\n    fault"))
    )
    request = request.model_copy(update={"budget": Budget(max_cost_microusd=5_000_000)})

    result = await hands.result(request)

    assert (result.status, len(titles_asked(server))) == (State.COMPLETED, 2)
    lost = result.metrics.usage.input_tokens - 200, result.metrics.usage.output_tokens - 100
    assert min(lost) > 0
    assert result.metrics.cost_microusd == 2 * 200 + lost[0] + 2 * lost[1]


async def test_titles_can_be_turned_off(start):
    hands, server, request = await start(titles=False)

    await hands.result(request)

    assert titles_asked(server) == []


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Mend it", "Mend it"),
        ("\n\n  Mend\tit  \nand more", "Mend it"),
        ("<think>a\nb</think>Mend it", "Mend it"),
        ("<THINKING>a</THINKING>\nMend it", "Mend it"),
        ("<think>never ends", ""),
        ("", ""),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 99 + "…"),
    ],
)
def test_a_title_is_one_line_without_thoughts(said, title):
    assert cleaned(said) == title


async def test_no_title_is_asked_of_a_model_without_a_price_where_only_the_tenant_has_a_cap(start, transport, capfd):
    await transport.fund("default", 5_000_000, by="operator")
    # another provider's: what is asked at an address of this machine is free
    hands, _, request = await start(small_model="anthropic/a-model-without-a-price")

    result = await hands.result(request)

    assert result.status is State.COMPLETED
    assert "title_without_price" in capfd.readouterr().err
