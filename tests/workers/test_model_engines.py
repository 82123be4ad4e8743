"""A worker asks its models through either engine, in either format; what it mends it tells and counts."""

from __future__ import annotations

import pytest

from envelope.events import WarningRaised
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SLIPS = """
rules:
  - when: {turn: 1}
    fault: {status: 529, in_stream: true, after_bytes: 400, message: Overloaded}
    times: 1
  - when: {turn: 1}
    reply:
      reasoning: I should look.
      tool_calls: [{name: read, raw_arguments: "{'filePath': '/workspace/src/greet.py',}"}]
      usage: {input_tokens: 1000, cached_tokens: 200, cache_write_tokens: 300, output_tokens: 50}
  - when: {turn: 2, result_contains: def greet}
    reply: {text: It greets., usage: {input_tokens: 1200, cached_tokens: 1000, output_tokens: 10}}
"""


@pytest.mark.parametrize(
    ("model", "engine"),
    [("openai/scripted", "auto"), ("anthropic/scripted", "auto"), ("anthropic/scripted", "litellm")],
)
async def test_an_agent_reads_a_file_though_its_model_slips(start_hands, serve, workspace, model, engine):
    server = await serve(SLIPS)
    url = server.base_url if model.startswith("openai/") else server.url
    price = {"input": 1_000_000, "output": 10_000_000, "cached": 100_000, "cache_write": 2_000_000}
    hands = await start_hands(
        model=model, model_base_url=url, model_api_key="unused-key", model_engine=engine, prices={model: price}
    )
    request = hands.request(
        agent="explore",
        recipient="explore",
        auth_scope=("read:**",),
        workspace=workspace,
        input=TaskInput(prompt="what does it do?"),
    )

    result = await hands.result(request)

    assert (result.status, result.errors, result.output.text) == (State.COMPLETED, (), "It greets.")
    warnings = [
        event
        async for entry in hands.transport.follow(request.trace_id)
        if isinstance(entry.message, TaskProgress)
        for event in entry.message.events
        if isinstance(event, WarningRaised)
    ]
    assert [(warning.code, "read" in warning.message) for warning in warnings] == [("arguments_repaired", True)]
    counted = hands.metrics.registry.get_sample_value
    assert counted("muster_llm_arguments_repaired_total", {"model": model}) == 1
    if model.startswith("anthropic/"):
        assert counted("muster_llm_tokens_total", {"model": model, "type": "cache_write"}) == 300
        assert counted("muster_llm_tokens_total", {"model": model, "type": "input"}) == 500 + 200
        assert result.metrics.cost_microusd == (500 + 20 + 600 + 500) + (200 + 100 + 100)
    if engine == "auto" and model.startswith("anthropic/"):
        sent = server.log.bodies[-1]
        thought = sent["messages"][1]["content"][0]
        assert (thought["type"], thought["thinking"]) == ("thinking", "I should look.")
        assert thought["signature"].startswith("signed-1-")
        assert sent["messages"][1]["content"][1]["input"] == {"filePath": "/workspace/src/greet.py"}
