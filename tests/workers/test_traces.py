"""Spans of real attempts on real workers, as a collector on loopback receives them."""

from __future__ import annotations

import asyncio
import threading

import pytest
from collector import Collector, Seen, collector

from envelope.ids import new_trace_id
from envelope.messages import TaskInput
from envelope.tracing.context import attempt_span_id, context_of
from envelope.tracing.names import ATTRIBUTES, CONTENT
from envelope.tracing.otel import OtelTracer
from envelope.tracing.spans import continued, tracing
from transport.outbox import Outbox

pytestmark = [pytest.mark.docker, pytest.mark.redis]

CALLERS_TRACE, CALLERS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CANARY = "sk-canary5f1e7c2b9d3a4860"  # has the shape of a key, and comes back from a command
SCRIPT = f"""
rules:
  - when: {{user_contains: QUESTION one}}
    reply: {{text: The first answer.}}
  - when: {{user_contains: QUESTION two}}
    reply: {{text: The second answer.}}
  - when: {{turn: 1}}
    reply:
      tool_calls:
        - {{name: task, arguments: {{description: One, subagent_type: explore, prompt: QUESTION one}}}}
        - {{name: task, arguments: {{description: Two, subagent_type: explore, prompt: QUESTION two}}}}
  - when: {{turn: 2}}
    reply:
      tool_calls:
        - {{name: bash, arguments: {{command: printenv TRACEPARENT TRACESTATE}}}}
        - {{name: bash, arguments: {{command: echo {CANARY}}}}}
  - reply: {{text: "It is done, {CANARY}."}}
"""


@pytest.fixture
def seen(monkeypatch):
    """A collector, and a tracer of this process that sends to it. All is sent when the tracer has stopped."""
    with collector() as one:
        for name, value in one.environment.items():
            monkeypatch.setenv(name, value)
        yield one


def traced_here(one: Collector, *, captures: bool = False):
    tracer = OtelTracer("test", captures=captures)

    def end() -> list[Seen]:
        tracer.stop(60)
        return list(one.spans)

    return tracing(tracer), end


def request_for(hands, **fields):
    goal = {"recipient": "build", "agent": "build", "auth_scope": ("**:**",)}
    return hands.request(**goal, input=TaskInput(prompt="Find out, and look."), **fields)


async def run(hands, request):
    box = Outbox(hands.transport)
    [handle] = await box.submit([request])
    async with asyncio.timeout(120):
        async for result in box.results([handle.task_id]):
            return result
    raise AssertionError("no result")


def only(spans: list[Seen], name: str, **attributes) -> Seen:
    [found] = [
        span
        for span in spans
        if span.name == name and all(span.attributes.get(key) == value for key, value in attributes.items())
    ]
    return found


async def test_a_task_with_subagents_is_one_tree_below_its_caller(start_agents, seen):
    hands, _ = await start_agents(SCRIPT)
    within, end = traced_here(seen)
    with within, continued(context_of(f"00-{CALLERS_TRACE}-{CALLERS_SPAN}-01", "vendor=1")):
        request = request_for(hands, trace_id=new_trace_id())
        result = await run(hands, request)
    await hands.stop()
    spans = end()

    assert result.status == "completed", result.errors
    by_id = {span.span_id: span for span in spans}
    assert {span.trace_id for span in spans} == {CALLERS_TRACE}
    assert {span.name for span in spans if span.parent_id not in by_id} == {"submit build"}
    assert only(spans, "submit build").parent_id == CALLERS_SPAN

    def parents(span: Seen) -> list[str]:
        return [span.name, *(parents(by_id[span.parent_id]) if span.parent_id in by_id else [])]

    chains = {tuple(parents(span)) for span in spans}
    below_attempt = ("attempt build", "submit build")
    call = ("execute_tool task", "turn 1", *below_attempt)
    for chain in (
        ("queue build", "submit build"),
        ("chat openai/scripted", "turn 1", *below_attempt),
        ("execute_tool bash", "turn 2", *below_attempt),
        ("attempt explore", "submit explore", *call),
        ("queue explore", "submit explore", *call),
        ("chat openai/scripted", "turn 1", "attempt explore", "submit explore", *call),
    ):
        assert chain in chains
    assert "sandbox start" in {span.name for span in spans}
    for span in spans:  # what is below another is within it, but for tasks, which their submission does not wait for
        above = by_id.get(span.parent_id)
        if above and not above.name.startswith("submit"):
            assert above.start_ns <= span.start_ns and span.end_ns <= above.end_ns, parents(span)
    kinds = {span.name.partition(" ")[0]: span.kind for span in spans}
    assert (kinds["submit"], kinds["attempt"], kinds["chat"], kinds["turn"]) == (
        "PRODUCER", "CONSUMER", "CLIENT", "INTERNAL",
    )  # fmt: skip

    # fan-in: the answers of subagents come by links
    links = {link for span in spans for link in span.links}
    explorers = [span for span in spans if span.name == "attempt explore"]
    assert len(explorers) == 2
    assert {(CALLERS_TRACE, span.span_id) for span in explorers} <= links

    attempt = only(spans, "attempt build", **{"muster.outcome": "completed"})
    assert attempt.attributes["muster.task_id"] == request.task_id
    assert attempt.attributes["muster.trace_id"] == request.trace_id
    chat = next(span for span in spans if span.name.startswith("chat"))
    assert chat.attributes["gen_ai.usage.input_tokens"] > 0
    assert chat.attributes["gen_ai.provider.name"] == "openai"

    # what a command in the sandbox sees is its own call
    [shown] = [text.split() for text in await outputs(hands, request.trace_id) if text.startswith("00-")]
    assert by_id[context_of(shown[0]).span_id].name == "execute_tool bash"
    assert shown[1] == "vendor=1"

    # nothing is said that no table knows, and no content
    said = {name for span in spans for name in span.attributes}
    assert said <= ATTRIBUTES.keys() - CONTENT
    assert not any(CANARY.encode() in body or b"QUESTION" in body for body in seen.bodies)


async def outputs(hands, trace_id: str) -> list[str]:
    return [event.output for event in await hands.events(trace_id, "tool_call") if event.output]


async def test_content_is_sent_where_it_is_asked_for_without_secrets(start_agents, seen):
    hands, _ = await start_agents(SCRIPT)
    within, end = traced_here(seen, captures=True)
    with within:
        await run(hands, request_for(hands))
    await hands.stop()
    spans = end()

    said = {name: str(text) for span in spans for name, text in span.attributes.items() if name in CONTENT}
    assert said.keys() == CONTENT
    everything = "".join(str(text) for span in spans for text in span.attributes.values())
    assert "QUESTION one" in everything and "The first answer." in everything
    assert "echo [redacted]" in everything
    assert not any(CANARY.encode() in body for body in seen.bodies)


async def test_an_attempt_after_another_stands_beside_it(start_agents, seen):
    # its subagents are served by its own pool, whose only slot it has: it gives that back
    agents = {"explore": "---\ndescription: looks\nmode: subagent\npool: build\n---\nYou look."}
    hands, _ = await start_agents(SCRIPT, slots=1, park_after_s=1.0, agents=agents)
    within, end = traced_here(seen)
    with within:
        request = request_for(hands)
        result = await run(hands, request)
    await hands.stop()
    spans = end()

    attempts = sorted((span for span in spans if span.name == "attempt build"), key=lambda span: span.start_ns)
    assert [span.attributes["muster.attempt"] for span in attempts] == list(range(1, result.attempt + 1))
    assert len(attempts) > 1
    assert {span.parent_id for span in attempts} == {only(spans, "submit build").span_id}
    assert attempts[0].attributes["muster.outcome"] == "parked"
    assert attempts[-1].span_id == attempt_span_id(request.task_id, result.attempt)
    assert {span.trace_id for span in spans} == {request.trace_id}


@pytest.mark.parametrize("status", [500, 404])
async def test_a_collector_that_refuses_costs_no_task_anything(start_agents, seen, status):
    seen.answer = lambda: status
    await _is_done_all_the_same(start_agents, seen)


async def test_nor_does_one_that_never_answers(start_agents, seen):
    may_answer = threading.Event()
    seen.answer = lambda: may_answer.wait(60) and 200
    try:
        await _is_done_all_the_same(start_agents, seen)
    finally:
        may_answer.set()


async def test_nor_does_one_that_is_away(start_agents, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")  # the port of `discard`, which nobody runs
    await _is_done_all_the_same(start_agents, None)


async def _is_done_all_the_same(start_agents, one: Collector | None):
    hands, _ = await start_agents("rules: [{reply: {text: Done.}}]")
    tracer = OtelTracer("test", captures=False)
    with tracing(tracer):
        result = await run(hands, request_for(hands))
    await hands.stop()
    if one:
        one.until_asked()
    tracer.stop(0.1)

    assert result.output.text == "Done."
    assert one is None or one.spans == []
