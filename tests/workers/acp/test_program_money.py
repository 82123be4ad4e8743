"""A program's model calls: through the relay alone, counted, capped and stored like any agent's."""

from __future__ import annotations

import pytest

from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskInput

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SAYS = """
rules:
  - when: {user_contains: think}
    reply: {text: "thought", reasoning: "hm"}
  - reply: {text: "yes"}
"""
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


async def test_both_formats_are_answered_and_no_key_enters_the_sandbox(start_agents, led, agent_file, steps):
    env = 'env: {WHERE: "${relay}/v1 for ${model}"}\nsession_mode: look\n'
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file(env)}, model_api_key=KEY)
    request = led(
        hands,
        steps(
            ("openai", "a"),
            ("anthropic", "b"),
            ("stream", "think"),
            ("get", "/v1/models"),
            ("get", "/v1/embeddings"),
            ("env", "WHERE"),
            ("env", "MODE"),
            ("run", "cat /proc/*/environ /proc/*/cmdline; env"),
        ),
    )

    result = await hands.result(request)

    assert result.errors == ()
    said = result.output.text
    assert said.startswith("yes\nyes\ndata: ")
    assert '"reasoning_content": "hm"' in said
    assert '"content": "thought"' in said
    assert "data: [DONE]" in said
    assert '"id": "openai/scripted"' in said
    assert "HTTP 404" in said
    assert "/v1 for openai/scripted" in said
    assert "look" in said.split("\n")
    assert KEY not in said
    assert (result.metrics.turns, server.log.requests) == (3, 3)
    turns = await hands.events(request.trace_id, "turn_finished")
    assert sum(turn.cost_microusd for turn in turns) == result.metrics.cost_microusd > 0
    assert result.metrics.usage.input_tokens > 0


async def test_a_grant_that_is_used_up_before_there_is_a_session_is_said_so(start_agents, led, agent_file, steps):
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file("env: {EARLY: 'yes'}\n")})
    request = led(hands, steps(("openai", "a")), budget=Budget(max_cost_microusd=1))

    result = await hands.result(request)

    assert [error.code for error in result.errors] == [ErrorCode.BUDGET]
    assert server.log.requests == 0


async def test_a_better_rank_of_service_is_charged_to_a_programs_task_too(start_agents, led, agent_file, steps):
    ranked = agent_file("options: {serviceTier: priority}\n")
    hands, _ = await start_agents(SAYS, agents={"foreign": agent_file(), "ranked": ranked})
    requests = [led(hands, steps(("openai", "a")), agent=agent) for agent in ("foreign", "ranked")]

    usual, better = [(await hands.result(request)).metrics.cost_microusd for request in requests]

    assert better > 2 * usual > 0


@pytest.mark.parametrize(
    ("budget", "limit", "code", "calls"),
    [
        (Budget(max_cost_microusd=1), "cost", ErrorCode.BUDGET, 0),
        (Budget(max_tokens=1), "tokens", ErrorCode.BUDGET, 1),
        (Budget(max_turns=2), "turns", ErrorCode.TURN_LIMIT, 2),
    ],
)
async def test_a_used_up_grant_ends_the_task_with_its_work(
    start_agents, led, agent_file, steps, budget, limit, code, calls
):
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file()})
    asks = [("openai", "more")] * 5
    request = led(hands, steps(("run", "echo 1 > src/new.py"), *asks), budget=budget)

    result = await hands.result(request)

    assert [error.code for error in result.errors] == [code]
    [reached] = await hands.events(request.trace_id, "budget")
    assert reached.limit == limit
    assert server.log.requests == calls
    assert [file.path for file in result.patch.files] == ["src/new.py"]
    assert result.resume_token


async def test_a_failing_model_is_what_the_task_failed_with(start_agents, led, agent_file, steps):
    script = "rules: [{fault: {status: 401, message: no such key}}]"
    hands, server = await start_agents(script, agents={"foreign": agent_file()})

    result = await hands.result(led(hands, steps(("openai", "a"))))

    assert [error.code for error in result.errors] == [ErrorCode.MODEL_AUTH]
    assert server.log.requests == 1


async def test_a_request_that_is_none_is_told_so_and_costs_nothing(start_agents, led, agent_file, steps):
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file()})
    bodies = (
        {},
        [],
        {"messages": 1},
        {"messages": [{"role": "odd"}]},
        {"messages": [{"role": "user", "content": [1]}]},
    )

    result = await hands.result(led(hands, steps(*(("post", "/v1/chat/completions", body) for body in bodies))))

    assert result.output.text.count("HTTP 400") == len(bodies)
    assert (server.log.requests, result.metrics.cost_microusd) == (0, 0)


async def test_another_task_goes_on_with_the_work_and_knows_what_was_said(start_agents, led, agent_file, steps):
    hands, _ = await start_agents(SAYS, agents={"foreign": agent_file()})
    first = led(hands, steps(("run", "echo 1 > src/new.py"), ("openai", "a")))
    ended = await hands.result(first)
    second = led(hands, steps(("recalls", "echo 1"), ("run", "cat src/new.py")), resume_token=ended.resume_token)

    result = await hands.result(second)

    assert result.errors == ()
    assert result.output.text == "True\n0 1"
    assert [file.path for file in result.patch.files] == ["src/new.py"]
    assert result.metrics.turns == 0  # what was spent before is not this task's


async def test_a_lost_attempt_begins_again_and_what_it_spent_counts(start_agents, led, agent_file, steps):
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file()})
    request = led(hands, steps(("run", "echo 1 >> src/new.py"), ("openai", "a"), ("hang",)))
    await hands.transport.submit([request])
    await hands.until(request.trace_id, lambda progress: any(e.kind == "turn_finished" for e in progress.events))
    await hands.stop()
    others, _ = await start_agents("rules: []", model_base_url=server.base_url, agents={"foreign": agent_file()})
    await others.until(
        request.trace_id,
        lambda progress: progress.attempt == 2 and any(e.kind == "turn_finished" for e in progress.events),
    )

    await others.transport.cancel(request.task_id, reason="enough", by="me")
    result = await others.ended(request.task_id)

    assert result.status is State.CANCELLED
    assert result.metrics.turns == 2
    assert any("begins again" in warning.message for warning in await others.events(request.trace_id, "warning"))


@pytest.mark.parametrize(
    "asked",
    [
        {"output_schema": {"type": "object"}},
        {"input": TaskInput(prompt="go", params={"record": True})},
        {"input": TaskInput(prompt="go", params={"replay": "sha256:" + "0" * 64})},
    ],
)
async def test_what_only_our_own_loop_can_do_is_refused_at_once(start_agents, led, agent_file, asked):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})

    result = await hands.result(led(hands, "go", **asked))

    assert [error.code for error in result.errors] == [ErrorCode.BAD_INPUT]
    assert "engine: acp" in result.errors[0].message
