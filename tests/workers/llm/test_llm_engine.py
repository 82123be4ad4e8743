"""The litellm engine against a real server: what it sends, what it makes of a stream, and of every fault."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from email.utils import formatdate

import pytest

from envelope.budget import Usage
from workers.clock import now_ms
from workers.llm.base import (
    CallDelta,
    CallStarted,
    ChatMessage,
    Completed,
    Failed,
    Failure,
    Reasoning,
    Text,
    ToolCall,
    ToolSpec,
)
from workers.llm.litellm import LiteLlmModel, list_price
from workers.llm.openai_format import parsed
from workers.llm.prices import Price
from workers.llm.retry import asked_ms, is_retryable
from workers.models import Models

ASK = [ChatMessage(role="system", content="You are brief."), ChatMessage(role="user", content="Hello?")]
LONG = "a reply that is long enough to be cut somewhere in its middle"
READ = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})


def model(server, **options) -> LiteLlmModel:
    return LiteLlmModel("openai/scripted", server.base_url, "sk-nobody-0123456789abcdef", **options)


async def ask(engine, messages=ASK, tools=()) -> list:
    return [event async for event in engine.stream(messages, tools)]


async def test_a_reply_arrives_in_pieces_and_then_whole(serve):
    server = await serve(
        f"rules: [{{reply: {{reasoning: let me think about it, text: {LONG},"
        " usage: {input_tokens: 11, output_tokens: 7, cached_tokens: 5, reasoning_tokens: 3}}}]"
    )

    events = await ask(model(server))

    texts = [event.text for event in events if isinstance(event, Text)]
    assert len(texts) > 3 and "".join(texts) == LONG
    assert "".join(event.text for event in events if isinstance(event, Reasoning)) == "let me think about it"
    usage = Usage(input_tokens=11, output_tokens=7, cached_tokens=5, reasoning_tokens=3)
    assert events[-1] == Completed(LONG, "let me think about it", (), "stop", usage)


async def test_parallel_calls_are_put_together_from_their_pieces(serve):
    server = await serve(
        """
        rules:
          - reply:
              tool_calls:
                - {name: read, arguments: {path: /workspace/a/rather/long/path.py}}
                - {name: read, raw_arguments: '{"path": "unfinis'}
                - {name: list, raw_arguments: ''}
        """
    )

    events = await ask(model(server), tools=[READ])

    assert [event.name for event in events if isinstance(event, CallStarted)] == ["read", "read", "list"]
    assert len([event for event in events if isinstance(event, CallDelta) and event.id == "call_1_0"]) > 1
    long, broken, empty = events[-1].tool_calls
    assert long == ToolCall(id="call_1_0", name="read", arguments=long.arguments, input=long.input)
    assert long.input == {"path": "/workspace/a/rather/long/path.py"}
    assert (broken.arguments, broken.input) == ('{"path": "unfinis', None)
    assert empty.input == {}
    assert events[-1].finish_reason == "tool_calls"


async def test_a_history_is_sent_in_the_format_of_openai(serve):
    server = await serve("rules: [{reply: {text: fine}}]")
    good = ToolCall(id="c1", name="read", arguments='{"path": "a"}', input={"path": "a"})
    broken = ToolCall(id="c2", name="read", arguments='{"pa', input=None)
    history = [
        *ASK,
        ChatMessage(role="assistant", tool_calls=(good, broken)),
        ChatMessage(role="tool", tool_call_id="c1", name="read", content="text"),
        ChatMessage(role="tool", tool_call_id="c2", name="read", content="not JSON", is_error=True),
    ]

    await ask(model(server, temperature=0.25), history, [READ])

    body = server.log.bodies[0]
    assert (body["model"], body["stream"], body["temperature"]) == ("scripted", True, 0.25)
    assert body["stream_options"] == {"include_usage": True}
    assert body["tools"][0]["function"] == {"name": "read", "description": "Reads.", "parameters": READ.parameters}
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool", "tool"]
    sent = body["messages"][2]["tool_calls"]
    # A provider that parses the history must not choke on what an earlier reply got wrong.
    assert [call["function"]["arguments"] for call in sent] == ['{"path": "a"}', "{}"]
    assert [(m["tool_call_id"], m["content"]) for m in body["messages"][3:]] == [("c1", "text"), ("c2", "not JSON")]


@pytest.mark.parametrize(
    ("fault", "failure", "retryable"),
    [
        ("{status: 401, message: Incorrect API key}", Failure.AUTH, False),
        ("{status: 403}", Failure.AUTH, False),
        ("{status: 404, message: gone}", Failure.UNKNOWN_MODEL, False),
        ("{status: 400, message: nonsense}", Failure.BAD_REQUEST, False),
        ("{status: 400, code: context_length_exceeded, message: too big}", Failure.OVERFLOW, False),
        ('{status: 400, message: "This model\'s maximum context length is 8192 tokens."}', Failure.OVERFLOW, False),
        ("{status: 400, message: prompt is too long}", Failure.OVERFLOW, False),
        ("{status: 413}", Failure.OVERFLOW, False),
        ("{status: 429}", Failure.RATE_LIMIT, True),
        ("{status: 429, message: too many tokens per minute}", Failure.RATE_LIMIT, True),
        ("{status: 500}", Failure.UNAVAILABLE, True),
        ("{status: 503}", Failure.UNAVAILABLE, True),
        ("{status: 529}", Failure.UNAVAILABLE, True),
        ("{cut: true}", Failure.UNAVAILABLE, True),
        ("{cut: true, after_bytes: 700}", Failure.UNAVAILABLE, True),
        ("{end_early: true, after_bytes: 700}", Failure.UNAVAILABLE, True),
        ("{bad_json: true, after_bytes: 700}", Failure.UNAVAILABLE, True),
    ],
)
async def test_a_fault_ends_as_one_failure_of_its_kind(serve, fault, failure, retryable):
    server = await serve(f"rules: [{{reply: {{text: {LONG}}}, fault: {fault}}}]")

    events = await ask(model(server))

    assert [type(event) for event in events].count(Failed) == 1
    assert (events[-1].failure, is_retryable(events[-1])) == (failure, retryable)
    assert not any(isinstance(event, Completed) for event in events)
    assert server.log.requests == 1  # retries are not the engine's


@pytest.mark.parametrize(
    ("header", "low_s", "high_s"),
    [
        ("retry_after: 7", 7.0, 7.0),
        # counted from when the tests were collected, which may be half an hour ago
        (f"retry_after: '{formatdate(time.time() + 86_400, usegmt=True)}'", 80_000.0, 86_400.0),
        ("headers: {retry-after-ms: '1500'}", 1.5, 1.5),
    ],
)
async def test_a_rate_limit_says_how_long_to_wait(serve, header, low_s, high_s):
    server = await serve(f"rules: [{{fault: {{status: 429, {header}}}}}]")

    (failed,) = await ask(model(server))

    assert failed.failure is Failure.RATE_LIMIT
    assert low_s * 1000 <= asked_ms(failed.headers, now_ms=now_ms()) <= high_s * 1000


@pytest.mark.parametrize("after_bytes", [0, 700])
async def test_a_stall_ends_after_the_chunk_timeout(serve, after_bytes):
    stall = f"{{reply: {{text: {LONG}}}, fault: {{stall_s: 600, after_bytes: {after_bytes}}}}}"
    server = await serve(f"rules: [{{times: 1}}, {stall}]")
    await ask(model(server))  # the first call of a process still imports parts of litellm, for longer than the time-out

    events = await ask(model(server, chunk_timeout_s=0.2))

    assert events[-1] == Failed(Failure.UNAVAILABLE, "the model sent nothing for 0.2 s")
    async with asyncio.timeout(5):
        await server.idle()
    assert server.log.aborted == 1


async def test_closing_the_stream_cancels_the_request(serve):
    server = await serve(f"rules: [{{reply: {{text: {LONG}}}, fault: {{stall_s: 600, after_bytes: 700}}}}]")
    stream = model(server).stream(ASK, [])
    assert isinstance(await anext(stream), Text)

    await stream.aclose()

    async with asyncio.timeout(5):
        await server.idle()
    assert server.log.aborted == 1


async def test_a_name_without_a_provider_is_an_unknown_model():
    (failed,) = await ask(LiteLlmModel("no-such-provider/no-such-model"))

    assert failed == Failed(Failure.UNKNOWN_MODEL, "no provider serves a model called 'no-such-provider/no-such-model'")


async def test_a_port_where_nobody_listens_is_worth_another_try(unused_tcp_port):
    (failed,) = await ask(LiteLlmModel("openai/x", f"http://127.0.0.1:{unused_tcp_port}/v1", "sk-nobody"))

    assert failed.failure is Failure.UNAVAILABLE


async def test_a_missing_key_is_told_as_such(monkeypatch, serve):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = await serve("rules: [{reply: {text: never}}]")

    (failed,) = await ask(LiteLlmModel("openai/x", server.base_url))

    assert failed.failure is Failure.AUTH
    assert server.log.requests == 0


def test_a_key_is_not_shown_with_its_model():
    assert "sk-nobody" not in repr(LiteLlmModel("openai/x", "http://localhost", "sk-nobody-0123456789"))


async def test_prices_come_from_the_list_in_the_wheel():
    known = await list_price("openai/gpt-4o")

    assert isinstance(known, Price) and 0 < known.input_microusd < known.output_microusd
    assert await list_price("openai/scripted") is None


async def test_the_operators_price_goes_before_the_list():
    models = Models(prices={"openai/gpt-4o": Price(9, 9)})

    assert await models.price("openai/gpt-4o") == Price(9, 9)
    assert await models.price("openai/gpt-4o-mini") == await list_price("openai/gpt-4o-mini")


# One process for all of it: an import of litellm takes seconds.
WATCH = """
import asyncio, importlib, sys
seen = []
sys.addaudithook(lambda name, args: seen.append(name) if name in ("socket.connect", "socket.getaddrinfo") else None)
for module in ("workers.agent.loop", "workers.agents.registry", "workers.cli", "workers.runner", "workers.service"):
    importlib.import_module(module)
from workers.llm.litellm import list_price
before = "litellm" in sys.modules
asyncio.run(list_price("openai/gpt-4o"))
print(before, "litellm" in sys.modules, seen)
"""


def test_no_part_of_a_worker_imports_litellm_before_its_first_use_which_asks_nobody():
    done = subprocess.run([sys.executable, "-c", WATCH], capture_output=True, text=True, check=True)

    assert done.stdout == "False True []\n"
    assert done.stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        '{"path": "\\ud800"}',  # half a surrogate pair
        '{"path": ' + "9" * 30 + "}",  # beyond 64 bits
        '{"path": ' + "[" * 100 + "]" * 100 + "}",
        '{"path": ' + "[" * 100_000,
        "[1]",
        "null",
    ],
)
def test_arguments_that_fit_into_no_message_are_no_arguments(arguments):
    assert parsed(arguments) is None


async def test_half_a_surrogate_pair_becomes_the_replacement_character(serve):
    server = await serve(r'rules: [{reply: {text: "a \ud800 b", tool_calls: [{name: "x\udfff"}]}}]')

    completed = (await ask(model(server)))[-1]

    assert isinstance(completed, Completed)
    assert (completed.text, completed.tool_calls[0].name) == (
        "a \N{REPLACEMENT CHARACTER} b",
        "x\N{REPLACEMENT CHARACTER}",
    )
