"""What is sent in either format, and what a stranger's server may answer."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import ClientSession, web
from hypothesis import given
from hypothesis import strategies as st

from workers.agents.registry import parse_agent
from workers.llm.anthropic_format import EMPTY, MARK
from workers.llm.base import ChatMessage, Completed, Failed, Failure, ProviderItems, ToolCall, ToolSpec
from workers.llm.connections import proxy_for
from workers.llm.direct import MAX_ERROR_BYTES, ODD, DirectModel
from workers.llm.litellm import LiteLlmModel
from workers.llm.providers import ANTHROPIC, OPENAI, RESPONSES, endpoint
from workers.llm.wire import Question
from workers.llm.wire_openai import OpenAiWire
from workers.models import Models

READ = ToolSpec("read", "Reads.", {"type": "object"})
LIST = ToolSpec("list", "Lists.", {"type": "object"})
CALL = ToolCall(id="c1", name="read", arguments='{"path": "a"}', input={"path": "a"})
BROKEN = ToolCall(id="c2", name="read", arguments='{"pa')
MENDED = ToolCall(id="c3", name="read", arguments="{'path': 'b'}", input={"path": "b"}, repaired=True)
HISTORY = [
    ChatMessage(role="system", content="You are brief."),
    ChatMessage(role="user", content="Hello?"),
    ChatMessage(role="assistant", reasoning="hm", tool_calls=(CALL, BROKEN, MENDED)),
    ChatMessage(role="tool", tool_call_id="c1", name="read", content="text"),
    ChatMessage(role="tool", tool_call_id="c2", name="read", content="not JSON", is_error=True),
    ChatMessage(role="tool", tool_call_id="c3", name="read", content="more"),
    ChatMessage(role="user", content="go on"),
]


def asking(messages=HISTORY, tools=(READ,), model="scripted", **options) -> Question:
    return Question(model, f"anthropic/{model}", messages, tools, **options)


def said(*blocks: dict, role: str = "user") -> dict:
    return {"role": role, "content": list(blocks)}


def text(words: str, **mark) -> dict:
    return {"type": "text", "text": words, **mark}


def answer(call_id: str, content: str, *, is_error: bool = False) -> dict:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}


def use(call_id: str, path: dict) -> dict:
    return {"type": "tool_use", "id": call_id, "name": "read", "input": path}


def test_a_history_in_the_format_of_openai():
    body = OPENAI.body(asking())

    assert (body["model"], body["stream"], body["stream_options"]) == ("scripted", True, {"include_usage": True})
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", *["tool"] * 3, "user"]
    sent = body["messages"][2]["tool_calls"]
    # A provider that parses the history must not choke on what an earlier reply got wrong.
    assert [call["function"]["arguments"] for call in sent] == ['{"path": "a"}', "{}", '{"path": "b"}']
    assert [(m["tool_call_id"], m["content"]) for m in body["messages"][3:5]] == [("c1", "text"), ("c2", "not JSON")]
    assert body["tools"][0]["function"] == {"name": "read", "description": "Reads.", "parameters": READ.parameters}


def test_a_history_in_the_format_of_anthropic_with_its_cache_marks():
    body = ANTHROPIC.body(asking(tools=(LIST, READ)))

    assert body["system"] == [text("You are brief.", **MARK)]
    assert body["messages"] == [
        said(text("Hello?")),
        said(use("c1", {"path": "a"}), use("c2", {}), use("c3", {"path": "b"}) | MARK, role="assistant"),
        said(answer("c1", "text"), answer("c2", "not JSON", is_error=True), answer("c3", "more"), text("go on") | MARK),
    ]
    assert [("cache_control" in tool, tool["name"]) for tool in body["tools"]] == [(False, "list"), (True, "read")]
    assert json.dumps(body).count("cache_control") == 4  # no more are allowed
    assert body["max_tokens"] == 8192


def test_a_history_with_calls_and_no_tools_offers_anthropic_what_was_called_and_forbids_it():
    body = ANTHROPIC.body(asking(tools=()))

    assert body["tools"] == [{"name": "read", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}
    assert "tools" not in ANTHROPIC.body(asking(HISTORY[:2], tools=()))


def test_a_reply_goes_back_as_it_came_to_the_model_that_gave_it_and_in_our_words_to_others():
    items = ({"type": "thinking", "thinking": "so", "signature": "s"}, {"type": "redacted_thinking", "data": "xyz"})
    said = (*items, {"type": "text", "text": "it", "citations": None})
    reply = ChatMessage(
        role="assistant", content="it", provider_items=ProviderItems(model="anthropic/scripted", items=said)
    )
    again = ChatMessage(role="user", content="again")

    same = ANTHROPIC.body(asking([*HISTORY[:2], reply, again]))["messages"][1]
    other = ANTHROPIC.body(replace(asking([*HISTORY[:2], reply, again]), full_name="anthropic/other"))["messages"][1]

    assert same["content"] == [*items, {**said[2], **MARK}]
    assert other["content"] == [text("it", **MARK)]


OPTIONS = {"reasoningEffort": "high", "top_p": 0.5, "top_k": 5, "api_base": "http://x", "model": "x", "stream": False}


def test_only_options_that_shape_a_reply_are_sent():
    plain = OPENAI.body(asking())

    assert OPENAI.body(asking(options=OPTIONS)) == {**plain, "reasoning_effort": "high", "top_p": 0.5, "top_k": 5}
    assert ANTHROPIC.body(asking(options=OPTIONS)) == {**ANTHROPIC.body(asking()), "top_p": 0.5, "top_k": 5}


def test_what_a_model_that_thinks_refuses_is_not_sent_and_is_told():
    for wire in (OPENAI, RESPONSES):
        thinking = asking(model="gpt-5", options={"topP": 0.5, "verbosity": "low"})

        assert "top_p" not in wire.body(thinking)
        assert [*wire.remarks(thinking)] == [f"top_p 0.5 is not sent: {thinking.full_name} takes none"]
        assert wire.body(replace(thinking, model="gpt-4.1"))["top_p"] == 0.5
        assert [*wire.remarks(replace(thinking, model="gpt-4.1"))] == []


async def test_both_engines_send_what_an_agent_asks_of_its_model(serve):
    server = await serve("rules: [{reply: {text: it}}]")
    for engine in ("direct", "litellm"):
        models = Models("openai/scripted", f"{server.url}/v1", "sk-nobody-0123456789", engine=engine)
        agent = parse_agent("a", "---\nreasoningEffort: high\ntop_p: 0.5\nseed: 7\nn: 9\n---\n")
        model = models.named("openai/scripted", options=agent.model_options)
        assert isinstance([event async for event in model.stream(HISTORY[:2], [])][-1], Completed)

    for body in server.log.bodies:
        assert (body["top_p"], body["seed"], body.get("n")) == (0.5, 7, None)
    assert server.log.bodies[0]["reasoning_effort"] == "high"


async def test_what_litellm_leaves_out_or_changes_is_told_once(serve):
    server = await serve("rules: [{reply: {text: it}}]")
    options = {"seed": 7, "top_k": 5, "topP": 0.5}

    def named(name: str, **fields) -> LiteLlmModel:
        return LiteLlmModel(name, f"{server.url}/v1", "sk-nobody-0123456789", **fields)

    thinking, plain = (
        named("openai/gpt-5-mini", effort="max", options=options),
        named("mistral/codestral-latest", effort="low"),
    )
    remarks = [[e async for e in model.stream(HISTORY[:2], [])][-1].remarks for model in (thinking, thinking, plain)]

    assert remarks == [
        (
            "effort max is sent as high, the nearest that openai/gpt-5-mini takes",
            "top_k 5 is not sent: openai/gpt-5-mini takes none",
            "top_p 0.5 is not sent: openai/gpt-5-mini takes none",
        ),
        (),
        ("effort low is not sent: mistral/codestral-latest takes none",),
    ]
    assert [body.get("reasoning_effort") for body in server.log.bodies] == ["high", "high", None]


async def test_where_a_server_refuses_the_word_that_forbids_calls_it_is_asked_without():
    asked: list[dict] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(await request.json())
        if "tool_choice" in asked[-1]:
            words = {
                "error": {"message": "Thinking mode does not support this tool_choice", "type": "invalid_request_error"}
            }
            return web.json_response(words, status=400)
        return web.json_response({"choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}]})

    async with server_that(answer) as url:
        model = DirectModel("deepseek/deepseek-v4-pro", f"{url}/v1", "sk-nobody-0123456789")
        *_, completed = [event async for event in model.stream(HISTORY[:2], [READ], "none")]

    assert completed.text == "Done."
    assert [body.get("tool_choice") for body in asked] == ["none", None]
    assert asked[0]["tools"] == asked[1]["tools"]


async def test_thoughts_come_with_their_signature_and_return_as_they_were(serve):
    server = await serve("rules: [{reply: {reasoning: a long thought, text: it}}]")
    model = DirectModel("anthropic/scripted", server.url, "sk-nobody-0123456789")

    completed = [event async for event in model.stream(HISTORY[:2], [])][-1]
    reply = ChatMessage(role="assistant", content=completed.text, provider_items=completed.provider_items)
    again = ChatMessage(role="user", content="again")
    await anext(model.stream([*HISTORY[:2], reply, again], []))

    sent = server.log.bodies[-1]["messages"][1]["content"][0]
    assert (sent["type"], sent["thinking"], sent["signature"][:9]) == ("thinking", "a long thought", "signed-1-")


def test_names_and_ids_that_a_provider_would_refuse_are_changed_alike_on_both_sides():
    odd = ToolCall(id="functions.read:0", name="functions.read", arguments="{}", input={})
    messages = [
        *HISTORY[:2],
        ChatMessage(role="assistant", content=" ", tool_calls=(odd,)),
        ChatMessage(role="tool", tool_call_id="functions.read:0", content=""),
        ChatMessage(role="user", content=" "),
    ]

    call, results = ANTHROPIC.body(asking(messages))["messages"][1:]
    openai = OPENAI.body(asking(messages))["messages"]

    assert [block["type"] for block in call["content"]] == ["tool_use"]  # blank text would be refused
    assert call["content"][0]["id"] == results["content"][0]["tool_use_id"] == "functions_read_0"
    assert results["content"][1]["text"] == EMPTY
    assert openai[2]["tool_calls"][0]["function"]["name"] == call["content"][0]["name"] == "functions_read"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("gpt-4o", {"temperature": 1.5, "max_tokens": 9}),
        ("o3-mini", {"max_completion_tokens": 9}),
        ("gpt-5", {"max_completion_tokens": 9}),
        ("openai/gpt-5-mini", {"max_completion_tokens": 9}),
    ],
)
def test_models_that_think_take_no_temperature_and_another_limit(model, told):
    body = OPENAI.body(asking(model=model, temperature=1.5, max_output_tokens=9))

    assert {key: body[key] for key in ("temperature", "max_tokens", "max_completion_tokens") if key in body} == told


def test_a_temperature_beyond_what_anthropic_knows_is_its_highest():
    assert ANTHROPIC.body(asking(temperature=1.5))["temperature"] == 1.0


@pytest.mark.parametrize(
    ("name", "base_url", "url"),
    [
        ("openai/m", "", "https://api.openai.com/v1/chat/completions"),
        ("openai/m", "http://here:1/v1/", "http://here:1/v1/chat/completions"),
        ("openai/org/m", "http://here/v1/chat/completions", "http://here/v1/chat/completions"),
        ("anthropic/m", "http://here", "http://here/v1/messages"),
        ("anthropic/m", "http://here/v1", "http://here/v1/messages"),
        ("ollama/m", "http://here:11434", "http://here:11434/v1/chat/completions"),
        ("ollama_chat/m", "http://here:11434/v1", "http://here:11434/v1/chat/completions"),
    ],
)
def test_where_a_model_is_asked(name, base_url, url):
    where = endpoint(name, base_url, "sk-nobody-0123456789", {})

    assert (where.url, where.model) == (url, name.partition("/")[2])


def test_keys_and_addresses_come_from_the_providers_own_variables():
    environ = {"ANTHROPIC_API_KEY": " sk-from-the-environment ", "ANTHROPIC_BASE_URL": "http://proxy"}

    where = endpoint("anthropic/m", "", "", environ)

    assert (where.url, where.key) == ("http://proxy/v1/messages", "sk-from-the-environment")
    assert endpoint("openai/m", "", "", environ).failure is Failure.AUTH
    assert endpoint("openai/m", "", "a\r\nb: c", {}).failure is Failure.AUTH
    assert endpoint("ollama/m", "", "", {}).key == ""
    assert "HOSTED_VLLM_API_BASE" in endpoint("hosted_vllm/m", "", "", {}).message


# -- a stranger's server


@asynccontextmanager
async def server_that(handle):
    application = web.Application()
    application.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def ask_server(handle, provider="openai", **options) -> list:
    async with server_that(handle) as url:
        model = DirectModel(f"{provider}/m", url, "sk-nobody-0123456789", **options)
        return [event async for event in model.stream(HISTORY[:2], [])]


def answering(body: bytes, content_type="text/event-stream", status=200, headers=None):
    async def handle(request):
        await request.read()
        return web.Response(body=body, content_type=content_type, status=status, headers=headers)

    return handle


async def test_a_redirect_is_not_followed_with_the_key():
    (failed,) = await ask_server(answering(b"", status=307, headers={"location": "http://elsewhere.invalid/"}))

    assert failed.failure is Failure.BAD_REQUEST


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"provider_name": "Acme", "raw": '{"error": {"message": "tools must not be empty", "code": 3}}'},
            "Provider returned error (Acme: tools must not be empty)",
        ),
        ({"provider_name": "Acme", "raw": "upstream\nis  full"}, "Provider returned error (Acme: upstream is full)"),
        ({"raw": {"detail": "no"}}, "Provider returned error (no)"),
        ({"raw": '{"a": 1}'}, 'Provider returned error ({"a": 1})'),
        ({"raw": [1]}, "Provider returned error ([1])"),
        ({"provider_name": "Acme"}, "Provider returned error"),
        ({"raw": "[" * 50_000}, f"Provider returned error ({'[' * 1000})"),
        ("odd", "Provider returned error"),
        (None, "Provider returned error"),
    ],
)
def test_the_reason_of_a_router_behind_its_own_message_is_shown(metadata: object, message: str):
    body = {"error": {"code": 400, "message": "Provider returned error", "metadata": metadata}}

    assert (OpenAiWire().error(body).message, OpenAiWire().error(body).status) == (message, 400)


async def test_an_error_page_of_a_gateway_is_read_to_its_beginning_only():
    (failed,) = await ask_server(answering(b"<h1>Bad gateway</h1>" + b"x" * 3 * MAX_ERROR_BYTES, "text/html", 502))

    assert failed.failure is Failure.UNAVAILABLE
    assert "Bad gateway" in failed.message and len(failed.message) < 400


async def test_a_server_that_does_not_stream_is_understood():
    whole = {
        "choices": [{"message": {"content": "hi", "tool_calls": [
            {"id": "a", "function": {"name": "x", "arguments": "{}"}},
            {"id": "b", "function": {"name": "y", "arguments": "{}"}},
        ]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }  # fmt: skip

    completed = (await ask_server(answering(json.dumps(whole).encode(), "application/json")))[-1]

    assert (completed.text, [call.name for call in completed.tool_calls]) == ("hi", ["x", "y"])
    assert completed.usage.total_tokens == 5


async def test_tokens_that_a_server_does_not_count_are_estimated():
    stream = b'data: {"choices": [{"delta": {"content": "%s"}, "finish_reason": "stop"}]}\n\n' % (b"four" * 100)

    completed = (await ask_server(answering(stream)))[-1]

    assert completed.usage.output_tokens == 101 and completed.usage.input_tokens > 1


async def test_a_server_that_hangs_on_after_its_last_word_holds_nobody_up():
    async def handle(request):
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n')
        await response.write(b"data: [DONE]\n\n")
        await asyncio.Event().wait()

    async with asyncio.timeout(20):
        assert isinstance((await ask_server(handle, chunk_timeout_s=600))[-1], Completed)


async def test_a_server_that_never_answers_is_given_up():
    async def handle(request):
        await asyncio.Event().wait()

    (failed,) = await ask_server(handle, chunk_timeout_s=0.2)

    assert failed == Failed(Failure.UNAVAILABLE, "the model sent nothing for 0.2 s")


async def test_an_event_without_an_end_is_given_up():
    async def handle(request):
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(b"data: " + b"x" * 1_000_000)

    (failed,) = await ask_server(handle)

    assert failed.failure is Failure.UNAVAILABLE and "8388608" in failed.message


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_full_window_is_told_by_the_reason_of_the_end_too(provider):
    stream = {
        "openai": b'data: {"choices": [{"delta": {}, "finish_reason": "model_context_window_exceeded"}]}\n\n',
        "anthropic": b'data: {"type": "message_delta", "delta": {"stop_reason": "model_context_window_exceeded"}}\n\n',
    }[provider]

    (failed,) = await ask_server(answering(stream), provider)

    assert failed.failure is Failure.OVERFLOW


KEYS = (
    *("choices", "delta", "content", "tool_calls", "index", "id", "function", "name", "arguments", "finish_reason"),
    *("usage", "error", "message", "prompt_tokens", "code", "type", "content_block", "text", "thinking", "signature"),
    *("partial_json", "input", "stop_reason", "data"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(max_size=3),
            inner | st.sampled_from(["content_block_start", "content_block_delta", "message_delta", "tool_use"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from([OPENAI, ANTHROPIC]), st.lists(JSON, max_size=4))
def test_whatever_a_server_sends_raises_only_what_is_caught(wire, events):
    reader = wire.reader(asking())
    try:
        for event in events:
            list(reader.read(json.dumps(event).encode()))
        reader.completed()
    except ODD:
        pass
    for event in events:
        if isinstance(event, dict):
            wire.error(event)


async def test_the_environments_proxy_is_used_but_not_where_it_is_told_not_to(serve, monkeypatch):
    server = await serve("rules: [{reply: {text: through}}]")
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1,.internal")
    proxy_for.cache_clear()
    model = DirectModel("openai/m", "http://models.invalid/v1", "sk-nobody-0123456789")

    completed = [event async for event in model.stream(HISTORY[:2], [])][-1]
    proxies = [proxy_for("http://127.0.0.1:1/v1"), proxy_for("http://a.internal/v1"), proxy_for("https://b.invalid/v1")]
    proxy_for.cache_clear()

    assert completed.text == "through"
    assert proxies == [None, None, None]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_calls_one_after_another_share_a_connection(serve, provider):
    server = await serve("rules: [{reply: {text: hi}}]")
    connections = set()

    async def pass_on(request):
        connections.add(request.transport)
        async with (
            ClientSession() as client,
            client.post(server.url + request.path, json=await request.json()) as reply,
        ):
            response = web.StreamResponse(headers={"content-type": reply.content_type})
            await response.prepare(request)
            async for chunk in reply.content.iter_any():
                await response.write(chunk)
            return response

    async with server_that(pass_on) as url:
        model = DirectModel(f"{provider}/m", f"{url}/v1", "sk-nobody-0123456789")
        for _ in range(4):
            assert [event async for event in model.stream(HISTORY[:2], [])][-1].text == "hi"

    assert (len(connections), server.log.requests) == (1, 4)


@pytest.mark.parametrize("wire", [OPENAI, RESPONSES, ANTHROPIC])
@pytest.mark.parametrize(
    ("sent_chars", "own", "context", "least", "most"),
    [
        (4_000, 8_000, 200_000, 8_000, 8_000),
        (4_000, 131_072, 131_072, 129_000, 130_072),  # a limit that is the window: vLLM refuses what could outgrow it
        (480_000, 64_000, 131_072, 10_000, 11_072),
        (480_000, 64_000, 100_000, 4_096, 4_096),  # no room at all: its server says so
        (4_000, 2_048, 2_048, 1_024, 1_048),
        (4_000, 64_000, 0, 64_000, 64_000),
    ],
)
def test_a_reply_is_asked_for_that_fits_behind_what_is_sent(wire, sent_chars, own, context, least, most):
    said = ChatMessage(role="user", content="x" * sent_chars)
    body = wire.body(Question("m", "openai/m", [said], (), max_output_tokens=own, context_tokens=context))

    limit = body.get("max_tokens") or body.get("max_output_tokens")
    assert least <= limit <= most
