"""What every engine promises, over real HTTP: two engines, two wire formats, every fault that the server knows."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from email.utils import formatdate

import pytest

from envelope.budget import Usage
from workers.clock import now_ms
from workers.llm.base import (
    CallDelta,
    CallStarted,
    ChatMessage,
    ChatModel,
    Completed,
    Failed,
    Failure,
    Reasoning,
    Text,
    ToolCall,
    ToolSpec,
)
from workers.llm.direct import DirectModel
from workers.llm.litellm import LiteLlmModel
from workers.llm.retry import is_retryable
from workers.llm.retry_after import asked_ms
from workers.llm.scripted_server import ScriptedServer

ASK = [ChatMessage(role="system", content="You are brief."), ChatMessage(role="user", content="Hello?")]
LONG = "a reply that is long enough to be cut somewhere in its middle, which takes a while"
READ = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
KEY = "sk-nobody-0123456789abcdef"
# Into the middle of the reply, in either format.
INSIDE = {"openai": 700, "anthropic": 900, "responses": 2500}


@dataclass(frozen=True)
class Kind:
    """An engine and the wire format that it is to speak."""

    engine: type
    wire: str

    @property
    def provider(self) -> str:
        return "anthropic" if self.wire == "anthropic" else "openai"

    def address(self, server: ScriptedServer) -> str:
        named = {"openai": server.base_url, "responses": f"{server.base_url}/responses"}
        return named.get(self.wire, server.url)

    def at(self, server: ScriptedServer, **options) -> ChatModel:
        return self.named("scripted", self.address(server), **options)

    def named(self, model: str, url: str, **options) -> ChatModel:
        return self.engine(f"{self.provider}/{model}", url, **{"api_key": KEY, **options})


@pytest.fixture(
    params=[
        pytest.param(Kind(engine, wire), id=f"{name}-{wire}")
        for name, engine, wires in (
            ("direct", DirectModel, ("openai", "responses", "anthropic")),
            ("litellm", LiteLlmModel, ("openai", "anthropic")),
        )
        for wire in wires
    ]
)
def kind(request) -> Kind:
    return request.param


async def ask(model, messages=ASK, tools=()) -> list:
    return [event async for event in model.stream(messages, tools)]


def texts(events) -> list[str]:
    return [event.text for event in events if isinstance(event, Text)]


async def test_a_reply_arrives_in_pieces_and_then_whole(serve, kind):
    server = await serve(
        f"rules: [{{reply: {{reasoning: let me think about it, text: '{LONG}',"
        " usage: {input_tokens: 11, output_tokens: 7, cached_tokens: 5}}}]"
    )

    *events, completed = await ask(kind.at(server))

    assert len(texts(events)) > 3 and "".join(texts(events)) == LONG
    assert "".join(event.text for event in events if isinstance(event, Reasoning)) == "let me think about it"
    assert (completed.text, completed.reasoning, completed.tool_calls) == (LONG, "let me think about it", ())
    assert completed.finish_reason == "stop"
    usage = completed.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (11, 7, 5)


async def test_tokens_of_every_sort_are_counted(serve, kind):
    sort = "reasoning" if kind.provider == "openai" else "cache_write"
    server = await serve(
        "rules: [{reply: {text: fine, usage: {input_tokens: 11, output_tokens: 7, cached_tokens: 5, "
        f"{sort}_tokens: 3}}}}}}]"
    )

    *_, completed = await ask(kind.at(server))

    told = {"input_tokens": 11, "output_tokens": 7, "cached_tokens": 5, f"{sort}_tokens": 3}
    assert completed.usage == Usage(**told)


async def test_parallel_calls_are_put_together_from_their_pieces(serve, kind):
    server = await serve(
        """
        rules:
          - reply:
              text: I look.
              tool_calls:
                - {name: read, arguments: {path: /workspace/a/rather/long/path.py}}
                - {name: read, raw_arguments: '{"path": "unfinis'}
                - {name: no_such_tool, raw_arguments: ''}
        """
    )

    events = await ask(kind.at(server), tools=[READ])

    started = [event for event in events if isinstance(event, CallStarted)]
    assert [event.name for event in started] == ["read", "read", "no_such_tool"]
    assert len({event.id for event in started}) == 3
    assert len([event for event in events if isinstance(event, CallDelta) and event.id == "call_1_0"]) > 1
    long, broken, empty = events[-1].tool_calls
    assert long == ToolCall(id="call_1_0", name="read", arguments=long.arguments, input=long.input)
    assert long.input == {"path": "/workspace/a/rather/long/path.py"}
    assert (broken.arguments, broken.input, broken.repaired) == ('{"path": "unfinis', None, False)
    assert (empty.name, empty.input) == ("no_such_tool", {})
    assert (events[-1].text, events[-1].finish_reason) == ("I look.", "tool_calls")


async def test_broken_arguments_are_mended_and_say_so(serve, kind):
    server = await serve("""rules: [{reply: {tool_calls: [{name: read, raw_arguments: "{'path': 'a.py',}"}]}}]""")

    (call,) = (await ask(kind.at(server), tools=[READ]))[-1].tool_calls

    assert (call.arguments, call.input, call.repaired) == ("{'path': 'a.py',}", {"path": "a.py"}, True)


async def test_arguments_that_the_output_limit_cut_are_not_guessed_at(serve, kind):
    server = await serve(
        """rules: [{reply: {finish_reason: length, tool_calls: [{name: read, raw_arguments: '{"path": "a.py"'}]}}]"""
    )

    completed = (await ask(kind.at(server), tools=[READ]))[-1]

    assert (completed.finish_reason, completed.tool_calls[0].input) == ("length", None)


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
async def test_the_reason_of_the_end_is_in_one_vocabulary(serve, kind, reason):
    server = await serve(f"rules: [{{reply: {{text: it, finish_reason: {reason}}}}}]")

    is_refusal = reason == "content_filter" and kind == Kind(DirectModel, "anthropic")
    assert (await ask(kind.at(server)))[-1].finish_reason == ("refusal" if is_refusal else reason)


async def test_an_empty_reply_is_a_reply(serve, kind):
    server = await serve("rules: [{reply: {text: ''}}]")

    (completed,) = await ask(kind.at(server))

    assert (completed.text, completed.tool_calls, completed.finish_reason) == ("", (), "stop")


async def test_five_thousand_tiny_deltas_lose_nothing(serve, kind):
    server = await serve(f"rules: [{{reply: {{text: {'abcde' * 1000}, delta_chars: 1}}}}]")

    *events, completed = await ask(kind.at(server))

    assert len(texts(events)) == 5000
    assert completed.text == "".join(texts(events)) == "abcde" * 1000


async def test_what_the_model_may_say_is_passed_on(serve, kind):
    server = await serve("rules: [{reply: {text: fine}}]")

    await ask(kind.at(server, temperature=0.25, output_limit=lambda: 77), tools=[READ])

    (body,) = server.log.bodies
    limit = body["max_output_tokens" if kind.wire == "responses" else "max_tokens"]
    assert (body["model"], body["stream"], body["temperature"], limit) == ("scripted", True, 0.25, 77)
    described = body["tools"][0]
    schema = described.get("function", described).get("parameters") or described["input_schema"]
    assert schema["properties"] == READ.parameters["properties"]


FAULTS = [
    ("{status: 401, message: Incorrect API key}", Failure.AUTH, False),
    ("{status: 403}", Failure.AUTH, False),
    ("{status: 404, message: gone}", Failure.UNKNOWN_MODEL, False),
    ("{status: 400, message: nonsense}", Failure.BAD_REQUEST, False),
    ("{status: 400, code: context_length_exceeded, message: too big}", Failure.OVERFLOW, False),
    ('{status: 400, message: "This model\'s maximum context length is 8192 tokens."}', Failure.OVERFLOW, False),
    ("{status: 400, message: 'prompt is too long: 212000 tokens > 200000 maximum'}", Failure.OVERFLOW, False),
    ("{status: 400, message: Input is too long for requested model.}", Failure.OVERFLOW, False),
    ("{status: 400, message: The input token count (1200) exceeds the maximum}", Failure.OVERFLOW, False),
    ("{status: 400, message: Please reduce the length of the messages or completion.}", Failure.OVERFLOW, False),
    ("{status: 400, message: the request exceeds the available context size}", Failure.OVERFLOW, False),
    ("{status: 413}", Failure.OVERFLOW, False),
    ("{status: 400, code: content_policy_violation, message: not this}", Failure.CONTENT_FILTER, False),
    ("{status: 429}", Failure.RATE_LIMIT, True),
    ("{status: 429, message: too many tokens per minute}", Failure.RATE_LIMIT, True),
    ("{status: 500}", Failure.UNAVAILABLE, True),
    ("{status: 503}", Failure.UNAVAILABLE, True),
    ("{status: 529}", Failure.UNAVAILABLE, True),
    ("{cut: true}", Failure.UNAVAILABLE, True),
    ("{cut: true, after_bytes: INSIDE}", Failure.UNAVAILABLE, True),
    ("{end_early: true}", Failure.UNAVAILABLE, True),
    ("{end_early: true, after_bytes: INSIDE}", Failure.UNAVAILABLE, True),
    ("{bad_json: true, after_bytes: INSIDE}", Failure.UNAVAILABLE, True),
    ("{status: 529, in_stream: true, after_bytes: INSIDE, message: Overloaded}", Failure.UNAVAILABLE, True),
]


@pytest.mark.parametrize(("fault", "failure", "retryable"), FAULTS, ids=[row[0] for row in FAULTS])
async def test_a_fault_ends_as_one_failure_of_its_kind(serve, kind, fault, failure, retryable):
    written = fault.replace("INSIDE", str(INSIDE[kind.wire]))
    server = await serve(f"rules: [{{reply: {{text: '{LONG}'}}, fault: {written}}}]")

    events = await ask(kind.at(server))

    assert [type(event) for event in events].count(Failed) == 1
    assert (events[-1].failure, is_retryable(events[-1])) == (failure, retryable), events[-1]
    assert not any(isinstance(event, Completed) for event in events)
    assert bool(texts(events)) is ("INSIDE" in fault)
    assert server.log.requests == 1  # retries are not the engine's


@pytest.mark.parametrize(
    ("header", "low_s", "high_s"),
    [
        ("retry_after: 7", 7.0, 7.0),
        # counted from when the tests were collected, which may be half an hour ago
        (f"retry_after: '{formatdate(time.time() + 86_400, usegmt=True)}'", 80_000.0, 86_400.0),
        ("headers: {retry-after-ms: '1500'}", 1.5, 1.5),
    ],
    ids=["seconds", "date", "milliseconds"],
)
async def test_a_rate_limit_says_how_long_to_wait(serve, kind, header, low_s, high_s):
    server = await serve(f"rules: [{{fault: {{status: 429, {header}}}}}]")

    (failed,) = await ask(kind.at(server))

    assert failed.failure is Failure.RATE_LIMIT
    assert low_s * 1000 <= asked_ms(failed.headers, now_ms=now_ms()) <= high_s * 1000


@pytest.mark.parametrize("where", ["at once", "inside"])
async def test_a_stall_ends_after_the_chunk_timeout(serve, kind, where):
    after_bytes = INSIDE[kind.wire] if where == "inside" else 0
    stall = f"{{reply: {{text: '{LONG}'}}, fault: {{stall_s: 600, after_bytes: {after_bytes}}}}}"
    server = await serve(f"rules: [{{times: 1}}, {stall}]")
    await ask(kind.at(server))  # the first call of a process still imports parts of litellm, for longer than this

    events = await ask(kind.at(server, chunk_timeout_s=0.2))

    assert events[-1] == Failed(Failure.UNAVAILABLE, "the model sent nothing for 0.2 s")
    async with asyncio.timeout(60):
        await server.idle()
    assert server.log.aborted == 1


async def test_closing_the_stream_cancels_the_request(serve, kind):
    stall = f"{{stall_s: 600, after_bytes: {INSIDE[kind.wire]}}}"
    server = await serve(f"rules: [{{reply: {{text: '{LONG}'}}, fault: {stall}}}]")
    stream = kind.at(server).stream(ASK, [])
    assert isinstance(await anext(stream), Text)

    await stream.aclose()

    async with asyncio.timeout(60):
        await server.idle()
    assert server.log.aborted == 1


async def test_cancelling_the_caller_cancels_the_request(serve, kind):
    stall = f"{{stall_s: 600, after_bytes: {INSIDE[kind.wire]}}}"
    server = await serve(f"rules: [{{reply: {{text: '{LONG}'}}, fault: {stall}}}]")
    begun = asyncio.Event()

    async def listen():
        async for _ in kind.at(server).stream(ASK, []):
            begun.set()

    listening = asyncio.create_task(listen())
    async with asyncio.timeout(30):
        await begun.wait()
    listening.cancel()

    with pytest.raises(asyncio.CancelledError):
        await listening
    async with asyncio.timeout(60):
        await server.idle()
    assert server.log.aborted == 1


async def test_a_history_with_calls_and_answers_is_understood(serve, kind):
    """The server reads it back: two results, in their order, and the words after them."""
    server = await serve(
        "rules: [{when: {turn: 2, tool_results: 2, result_contains: not JSON, user_contains: go on},"
        ' reply: {text: "${result.0}"}}]'
    )
    good = ToolCall(id="c1", name="read", arguments='{"path": "a"}', input={"path": "a"})
    broken = ToolCall(id="c2", name="read", arguments='{"pa', input=None)
    history = [
        *ASK,
        ChatMessage(role="assistant", tool_calls=(good, broken)),
        ChatMessage(role="tool", tool_call_id="c1", name="read", content="the text"),
        ChatMessage(role="tool", tool_call_id="c2", name="read", content="not JSON", is_error=True),
        ChatMessage(role="user", content="go on"),
    ]

    for tools in ([READ], []):  # a closing turn offers none
        completed = (await ask(kind.at(server), history, tools))[-1]
        assert isinstance(completed, Completed), completed
        assert completed.text == "the text"


async def test_half_a_surrogate_pair_becomes_the_replacement_character(serve, kind):
    server = await serve(r'rules: [{reply: {text: "a \ud800 b"}}]')

    assert (await ask(kind.at(server)))[-1].text == "a \N{REPLACEMENT CHARACTER} b"


async def test_a_name_without_a_provider_is_an_unknown_model(kind):
    (failed,) = await ask(kind.engine("no-such-provider/no-such-model"))

    assert failed == Failed(Failure.UNKNOWN_MODEL, "no provider serves a model called 'no-such-provider/no-such-model'")


async def test_a_port_where_nobody_listens_is_worth_another_try(unused_tcp_port, kind):
    (failed,) = await ask(kind.named("x", f"http://127.0.0.1:{unused_tcp_port}"))

    assert failed.failure is Failure.UNAVAILABLE


async def test_a_missing_key_is_told_as_such(monkeypatch, serve, kind):
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    server = await serve("rules: [{reply: {text: never}}]")

    (failed,) = await ask(kind.at(server, api_key=""))

    assert failed.failure is Failure.AUTH
    assert server.log.requests == 0


async def test_what_the_server_repeats_of_the_key_is_not_passed_on(serve, kind):
    server = await serve(f"rules: [{{fault: {{status: 401, message: 'Incorrect key {KEY}'}}}}]")

    (failed,) = await ask(kind.at(server))

    assert "Incorrect key" in failed.message and KEY not in failed.message


def test_a_key_is_not_shown_with_its_model(kind):
    assert "sk-nobody" not in repr(kind.named("x", "http://localhost"))
