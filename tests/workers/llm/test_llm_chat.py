"""OpenAI's chat completions as servers really speak them: odd replies, what goes back, what a call costs, errors."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import accumulate

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from envelope.budget import Usage
from workers.agent.account import Account
from workers.agent.history import with_reply
from workers.agent.session import Session
from workers.agent.tills import NO_TILL
from workers.clock import now_ms
from workers.llm.arguments import repaired
from workers.llm.base import ChatMessage, Completed, Failed, Failure, Reasoning, Text, ToolSpec
from workers.llm.direct import DirectModel
from workers.llm.pauses import told_ms
from workers.llm.prices import FREE
from workers.llm.providers import OPENAI, endpoint
from workers.llm.retry import is_retryable
from workers.llm.sse import EventParser
from workers.llm.wire import NO_RULES, ChatRules, Question
from workers.models import Models

KEY = "sk-nobody-0123456789"
ASKED = ChatMessage(role="user", content="Look.")
READ = ToolSpec("read", "Reads.", {"type": "object"})
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}


def question(messages=(ASKED,), name="openai/m", *, rules: ChatRules = NO_RULES, **more) -> Question:
    return Question(name.partition("/")[2], name, messages, (READ,), rules=rules, **more)


def chunk(delta: dict, reason: str | None = None, **more) -> dict:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}


def said_of(message: dict, reason: str = "stop", **more) -> dict:
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}], **more}


def stream(*events: dict, done: bool = True) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in events) + b"data: [DONE]\n\n" * done


def read(body: bytes, asked: Question | None = None, *, at: tuple[int, ...] = ()) -> list:
    """The events of a stream that comes cut at these places; the last one is how it ended."""
    reader, parser, heard = OPENAI.reader(asked or question()), EventParser(), []
    ends = [*at, len(body)]
    pieces = [body[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    for data in [event for piece in pieces for event in parser.feed(piece)] + parser.end():
        for event in reader.read(data):
            heard.append(event)
            if isinstance(event, Failed):
                return heard
        if reader.is_over:
            break
    return [*heard, reader.completed()]


def whole(*events: dict, asked: Question | None = None, done: bool = True) -> Completed:
    end = read(stream(*events, done=done), asked)[-1]
    assert isinstance(end, Completed), end
    return end


def ended(*events: dict, done: bool = True):
    return read(stream(*events, done=done))[-1]


# --- odd, and real


def test_content_in_parts_is_text_and_thoughts():
    reply = whole(
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "two and "}]}]}),
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "two"}]}]}),
        chunk({"content": [{"type": "text", "text": "fo"}, {"type": "reference", "reference_ids": [1]}]}),
        chunk({"content": "ur"}, "stop"),
    )
    at_once = whole(said_of({"content": [{"type": "thinking", "thinking": "hm"}, "four"]}))

    assert (reply.text, reply.reasoning) == ("four", "two and two")
    assert (at_once.text, at_once.reasoning) == ("four", "hm")


def test_arguments_may_come_as_an_object():
    reply = whole(
        chunk({"tool_calls": [{"id": "c", "function": {"name": "read", "arguments": {"path": "a"}}}]}, "stop")
    )

    assert reply.tool_calls[0].input == {"path": "a"}


@pytest.mark.parametrize(
    "written",
    ['{"path": "a"}{"path": "b"}', '{"path": "a"}\n{"path": "b"', "{'path': 'a'} {'path': 'b'}", '{"a": 1},{"b": 2}'],
)
def test_of_several_values_in_one_text_none_is_guessed(written):
    reply = whole(
        chunk({"tool_calls": [{"id": "c", "function": {"name": "read", "arguments": written}}]}, "tool_calls")
    )

    assert (reply.tool_calls[0].input, reply.tool_calls[0].repaired, repaired(written)) == (None, False, None)


def test_what_is_broken_in_one_value_is_still_mended():
    assert repaired('{"path": "a{b}"}}') == {"path": "a{b}"}


def test_calls_without_id_or_index_are_told_apart():
    one, two = ({"function": {"name": "read", "arguments": f'{{"path": "{path}"}}'}} for path in "ab")

    apart = whole(chunk({"tool_calls": [one]}), chunk({"tool_calls": [two]}, "tool_calls"))
    together = whole(chunk({"tool_calls": [one, two]}, "tool_calls"))
    in_pieces = whole(
        chunk({"tool_calls": [{"function": {"name": "read", "arguments": ""}}]}),
        chunk({"tool_calls": [{"function": {"name": "read", "arguments": '{"path": '}}]}),
        chunk({"tool_calls": [{"function": {"name": "read", "arguments": '"a"}'}}]}, "tool_calls"),
    )

    for reply in (apart, together):
        assert [call.input for call in reply.tool_calls] == [{"path": "a"}, {"path": "b"}]
        assert len({call.id for call in reply.tool_calls}) == 2
    assert [call.input for call in in_pieces.tool_calls] == [{"path": "a"}]


def test_a_stream_that_is_done_without_a_reason_is_an_answer_if_it_says_something_whole():
    cut = chunk({"tool_calls": [{"id": "c", "function": {"name": "read", "arguments": '{"pa'}}]}, "")

    assert whole(chunk({"content": "4"}, "")).finish_reason == "stop"
    assert whole(chunk({"tool_calls": [CALL]}, "")).finish_reason == "tool_calls"
    assert whole(said_of({"content": "4"}, "")).text == "4"
    assert ended(chunk({"content": "4"}), done=False) is None
    assert ended(cut) is ended(chunk({"reasoning": "hm"})) is ended(chunk({})) is None


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource", "network_error", "new_in_2027"])
def test_a_reason_that_is_no_end_of_a_reply_is_an_interruption(reason):
    failed = ended(chunk({"content": "half an ans"}), chunk({}, reason))

    assert is_retryable(failed) and reason in failed.message


@pytest.mark.parametrize(
    ("reason", "ours"),
    [("STOP", "stop"), ("eos_token", "stop"), ("model_length", "length"), ("function_call", "tool_calls")],
)
def test_reasons_of_many_servers_are_understood(reason, ours):
    assert whole(chunk({"content": "x"}, reason)).finish_reason == ours


def test_a_refusal_is_told_with_its_words():
    reply = whole(chunk({"refusal": "I will "}), chunk({"refusal": "not."}, "stop"))

    assert (reply.finish_reason, reply.text) == ("refusal", "I will not.")
    assert whole(chunk({"content": "4", "refusal": ""}, "stop")).finish_reason == "stop"


def test_the_first_way_to_call_is_read():
    reply = whole(said_of({"content": None, "function_call": {"name": "read", "arguments": "{}"}}, "function_call"))
    none = whole(said_of({"content": "4", "function_call": {"name": "", "arguments": ""}}))

    assert ([call.name for call in reply.tool_calls], none.tool_calls) == (["read"], ())


# --- errors that come with 200


@pytest.mark.parametrize(
    ("event", "failure"),
    [
        ({"error": "the model is overloaded"}, Failure.UNAVAILABLE),
        ({"error": {"message": "no", "type": "invalid_request_error"}}, Failure.BAD_REQUEST),
        ({"error": {"message": "slow", "code": "429"}}, Failure.RATE_LIMIT),
        ({"error": {"message": "gone", "code": 502}}, Failure.UNAVAILABLE),
        ({"error": {"message": "what", "status_code": 400}}, Failure.BAD_REQUEST),
        ({"error": {"message": "too long", "code": "context_length_exceeded"}}, Failure.OVERFLOW),
        ([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x"}}], Failure.RATE_LIMIT),
        ({"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}, Failure.BAD_REQUEST),
        ({"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, Failure.AUTH),
        (
            {"choices": None, "base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}},
            Failure.CONTENT_FILTER,
        ),
        ({"choices": [{"delta": {}, "error": {"code": 502, "message": "x"}}]}, Failure.UNAVAILABLE),
        ({"detail": "Internal Server Error"}, Failure.UNAVAILABLE),
    ],
)
def test_an_error_in_a_stream_is_judged_like_one_with_a_status(event, failure):
    assert ended(chunk({"content": "4"}), event).failure is failure


async def asked_of(body: bytes, content_type="text/event-stream", status=200, headers=None, **options) -> list:
    async def handle(request):
        await request.read()
        return web.Response(body=body, content_type=content_type, status=status, headers=headers)

    application = web.Application()
    application.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        model = DirectModel("openai/m", f"http://127.0.0.1:{runner.addresses[0][1]}", KEY, **options)
        return [event async for event in model.stream([ASKED], [READ])]
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("content_type", ["text/html", "text/event-stream", "application/octet-stream"])
async def test_a_page_in_the_place_of_a_reply_is_an_interruption_with_its_words(content_type):
    page = (
        b"<!doctype html>\n<html><head><style>p {}</style></head>\n<body><p>Gateway is restarting</p></body></html>\n"
    )

    (failed,) = await asked_of(page, content_type)

    assert is_retryable(failed)
    assert (
        failed.message == "the model's reply was interrupted: instead of it came a page that says Gateway is restarting"
    )


async def test_json_and_streams_under_each_others_type_are_read():
    reply, answer = stream(chunk({"content": "4"}, "stop")), json.dumps(said_of({"content": "4"})).encode()

    assert (await asked_of(reply, "application/json"))[-1].text == "4"
    assert (await asked_of(answer, "text/plain"))[-1].text == "4"


GENERATED = '{"name": "read", "arguments": {"file": "a"}}'


@pytest.mark.parametrize(
    ("generation", "name", "given"),
    [
        (GENERATED, "read", {"file": "a"}),
        (f"[{GENERATED}]", "read", {"file": "a"}),
        ('<function=read{"file": </function>', "read", None),
        ("", "", None),
    ],
)
async def test_a_call_that_groq_refuses_is_a_call_that_the_model_is_told_of(generation, name, given):
    error = {"message": "the call did not match", "code": "tool_use_failed", "failed_generation": generation}

    refused = (await asked_of(json.dumps({"error": error}).encode(), "application/json", 400))[-1]
    streamed = whole(chunk({"content": "I look."}), {"error": error | {"status_code": 400}})

    for reply in (refused, streamed):
        assert [(call.name, call.input) for call in reply.tool_calls] == [(name, given)]
        assert reply.finish_reason == "tool_calls"
    assert streamed.text == "I look."


# --- when to come again


@pytest.mark.parametrize(
    ("error", "headers", "wait_ms"),
    [
        ({"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}]}, {}, 17_000),
        ({"message": "Rate limit reached. Please try again in 1m2.5s."}, {}, 62_500),
        ({"message": "Please retry after 20 seconds."}, {}, 20_000),
        ({"metadata": {"retry_after": 3}}, {}, 3_000),
        ({"message": "try again in 20ms"}, {"retry-after": "7"}, 7_000),
        ({"message": "busy"}, {"retry-after": "250ms"}, 250),
        ({"message": "busy"}, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "4"}, 4_000),
    ],
)
async def test_a_rate_limit_says_in_many_ways_when_to_come_again(error, headers, wait_ms):
    body = json.dumps({"error": {"code": 429, "message": "busy", **error}}).encode()

    (failed,) = await asked_of(body, "application/json", 429, headers)

    assert failed.failure is Failure.RATE_LIMIT
    assert told_ms(failed.headers, now_ms=now_ms()) == wait_ms


async def test_googles_errors_come_in_a_list():
    body = json.dumps([{"error": {"code": 400, "message": "no such field", "status": "INVALID_ARGUMENT"}}]).encode()

    (failed,) = await asked_of(body, "application/json", 400)

    assert failed == Failed(Failure.BAD_REQUEST, "the model provider says: no such field")


# --- what goes back


def asked_again(reply: Completed, name="openai/m", rules: ChatRules = NO_RULES) -> list[dict]:
    """What is sent after a reply that went through a stored session, with an answer to each of its calls."""
    session = with_reply(Session(agent="build", model="openai/m", messages=(ASKED,)), reply, keep_calls=True)
    messages = Session.model_validate_json(session.model_dump_json()).messages
    answers = [ChatMessage(role="tool", tool_call_id=call.id, name="read", content="x") for call in reply.tool_calls]
    return OPENAI.body(question([*messages, *answers], name, rules=rules))["messages"][1:]


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_thoughts_go_back_under_the_name_that_they_had(key):
    reply = whole(chunk({key: "let me "}), chunk({key: "see"}), chunk({"tool_calls": [CALL]}, "tool_calls"))

    assert asked_again(reply)[0] == {"role": "assistant", "content": None, "tool_calls": [CALL], key: "let me see"}
    assert key not in asked_again(reply, "openai/another")[0]
    assert key not in asked_again(reply, rules=ChatRules("none"))[0]
    assert asked_again(reply, rules=ChatRules("thoughts"))[0]["thoughts"] == "let me see"


def test_where_thoughts_are_wanted_with_every_call_an_empty_one_is_sent_too():
    deepseek = endpoint("deepseek/m", "", KEY, {}).rules
    reply, silent = whole(chunk({"tool_calls": [CALL]}, "stop")), whole(chunk({"content": "x"}, "stop"))

    assert asked_again(reply, rules=deepseek)[0]["reasoning_content"] == ""
    assert "reasoning_content" not in asked_again(silent, rules=deepseek)[0]
    assert asked_again(whole(chunk({"reasoning_content": "", "content": "x"}, "stop")))[0]["reasoning_content"] == ""


def test_openrouters_details_go_back_in_their_order_put_together_from_their_pieces():
    def text(words: str | None, index: int = 0, **more) -> dict:
        return {"type": "reasoning.text", "text": words, "index": index, "format": "anthropic-claude-v1", **more}

    sealed = {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "index": 1, "format": "openai-responses-v1"}
    reply = whole(
        chunk({"reasoning": "let me ", "reasoning_details": [text("let me ")]}),
        chunk({"reasoning": "see", "reasoning_details": [text("see")]}),
        chunk({"reasoning_details": [text(None, signature="signed")]}),
        chunk({"reasoning_details": [sealed]}),
        chunk({"tool_calls": [CALL]}, "tool_calls"),
    )
    again = asked_again(reply)[0]

    assert again["reasoning_details"] == [text("let me see", signature="signed"), sealed]
    assert reply.reasoning == "let me see" and "reasoning" not in again
    assert "reasoning_details" not in asked_again(reply, "openai/another")[0]


def test_details_of_a_whole_message_go_back_as_they_came():
    details = [{"type": "reasoning.text", "text": words} for words in ("one", "two")]

    assert (
        asked_again(whole(said_of({"content": "x", "reasoning_details": details})))[0]["reasoning_details"] == details
    )


def test_thoughts_in_parts_of_content_go_back_there():
    def thinking(words: str) -> dict:
        return {"type": "thinking", "thinking": [{"type": "text", "text": words}]}

    reply = whole(
        chunk({"content": [thinking("so ")]}), chunk({"content": [thinking("so")]}),
        chunk({"content": "fo"}), chunk({"content": "ur"}, "stop"),
    )  # fmt: skip

    assert asked_again(reply)[0]["content"] == [thinking("so so"), {"type": "text", "text": "four"}]
    assert asked_again(reply, "openai/another")[0]["content"] == "four"


def test_googles_signatures_go_back_with_their_calls_and_long_ids_whole():
    signed = {"extra_content": {"google": {"thought_signature": "c2lnbmVk"}}}
    long = CALL | {"id": "call_" + "x" * 3_000} | signed
    reply = whole(chunk({"tool_calls": [long | {"index": 0}, CALL | {"index": 1}]}, "tool_calls"))
    assistant, *answers = asked_again(reply)

    assert assistant["tool_calls"] == [long, CALL]
    assert [answer["tool_call_id"] for answer in answers] == [long["id"], "c1"]
    assert len(reply.tool_calls[0].id) < 64
    other = asked_again(reply, "openai/another")
    assert other[0]["tool_calls"][0] == CALL | {"id": reply.tool_calls[0].id} and signed not in other


def test_one_id_for_all_calls_is_none_for_any():
    reply = whole(chunk({"tool_calls": [CALL | {"index": 0}, CALL | {"index": 1}]}, "tool_calls"))
    assistant, *answers = asked_again(reply)

    assert [call["id"] for call in assistant["tool_calls"]] == [answer["tool_call_id"] for answer in answers]
    assert len({call["id"] for call in assistant["tool_calls"]}) == 2


def test_a_reply_of_words_alone_is_kept_once():
    assert whole(chunk({"content": "4"}, "stop")).provider_items is None


# --- what a call costs


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        # thoughts beside what was completed, 290 of them: 48 times as much
        ({"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 308}, Usage(input_tokens=12, output_tokens=296)),
        ({"prompt_tokens": 9, "completion_tokens": 7}, Usage(input_tokens=9, output_tokens=7)),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "cached_tokens": 8},
            Usage(input_tokens=9, output_tokens=1, cached_tokens=8),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 8},
            Usage(input_tokens=9, output_tokens=1, cached_tokens=8),
        ),
    ],
    ids=["xai", "no total", "moonshot", "deepseek"],
)
def test_tokens_are_counted_as_each_server_writes_them(usage, counted):
    assert whole(chunk({"content": "x"}, "stop"), {"choices": [], "usage": usage}).usage == counted


@pytest.mark.parametrize("where", ["x_groq", "choice"])
def test_usage_may_stand_elsewhere(where):
    usage, end = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}, chunk({"content": "x"}, "stop")
    if where == "x_groq":
        end["x_groq"] = {"usage": usage}
    else:
        end["choices"][0]["usage"] = usage

    assert whole(end).usage == Usage(input_tokens=9, output_tokens=7)


@pytest.mark.parametrize(
    ("told", "microusd"),
    [
        ({"cost": 0.00019325}, 194),
        ({"cost": 0}, 0),
        ({"cost": 0.00001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.0003}}, 310),
        ({"cost": 0.00001, "is_byok": True}, None),  # what the user's own provider takes is not said
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}, None),
        ({"cost_in_usd_ticks": 1_466_250}, 147),
        ({"cost": -1}, None),
        ({"cost": 1e9}, None),
        ({"cost": "much"}, None),
        ({"cost": float("nan")}, None),
        ({}, None),
    ],
)
def test_a_provider_that_says_what_a_call_costs_is_believed_within_bounds(told, microusd):
    usage = {"prompt_tokens": 9, "completion_tokens": 7, **told}
    events = chunk({"content": "x"}, "stop"), {"choices": [], "usage": usage}

    assert whole(*events, asked=question(at_home=True)).cost_microusd == microusd
    assert whole(*events).cost_microusd is None  # anybody's server may say anything


def test_what_the_provider_says_is_charged_and_else_the_price():
    def charged(**told) -> int:
        account = Account(NO_TILL, lambda usage, rank: usage.output_tokens * 10, 0, 0)
        account.answered(Completed("", "", (), "stop", Usage(output_tokens=7), **told))
        return account.cost_microusd

    assert (charged(), charged(cost_microusd=3), charged(cost_microusd=0), charged(cost_microusd=-5)) == (70, 3, 0, 0)


@pytest.mark.parametrize(
    ("name", "url", "price"),
    [
        ("hosted_vllm/deepseek-chat", "https://models.example/v1", FREE),
        ("ollama/llama3", "", FREE),
        ("openai/my-own", "http://127.0.0.1:8000/v1", FREE),
        ("openai/my-own", "http://192.168.7.7/v1", FREE),
        ("openai/my-own", "https://models.example/v1", None),
        ("openai/my-own", "", None),
    ],
)
async def test_nothing_is_paid_for_a_model_that_runs_here(name, url, price, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    assert await Models(name, url).price(name) == price


async def test_a_model_of_the_list_behind_a_gateway_of_ones_own_has_its_price():
    assert await Models("openai/gpt-4o", "http://127.0.0.1:4000/v1").price("openai/gpt-4o") not in (FREE, None)


# --- what is asked


def body_for(name: str, url: str = "", **more) -> dict:
    where = endpoint(name, url, KEY, {})
    return where.wire.body(replace(question(name=name, rules=where.rules, **more), model=where.model))


@pytest.mark.parametrize(
    ("name", "url", "said", "not_said"),
    [
        ("xai/grok-4", "", {"max_completion_tokens": 9, "temperature": 0.5}, ["max_tokens"]),
        ("groq/m", "", {"max_completion_tokens": 9}, ["stream_options"]),
        ("mistral/m", "", {"max_tokens": 9}, ["stream_options"]),
        ("openai/llama", "https://api.groq.com/openai/v1", {"max_completion_tokens": 9}, ["stream_options"]),
        ("openai/gpt-4o", "", {"max_tokens": 9, "stream_options": {"include_usage": True}}, ["usage"]),
        ("openrouter/x/m", "", {"usage": {"include": True}}, []),
        ("moonshot/kimi-k2.6", "", {"max_tokens": 9}, ["temperature"]),
        ("zai/glm-5", "", {"thinking": {"type": "enabled", "clear_thinking": False}, "tool_stream": True}, []),
        ("fireworks_ai/glm-5", "", {"model": "accounts/fireworks/models/glm-5"}, []),
    ],
)
def test_each_server_is_asked_for_what_it_takes(name, url, said, not_said):
    body = body_for(name, url, temperature=0.5, max_output_tokens=9)

    assert {key: body[key] for key in said} == said
    assert not body.keys() & set(not_said)


def test_a_grok_that_thinks_is_sent_no_option_that_it_refuses():
    body = body_for("xai/grok-4", options={"stop": ["x"], "presencePenalty": 1, "seed": 7})

    assert body["seed"] == 7 and not {"stop", "presence_penalty"} & body.keys()
    assert body_for("xai/grok-3", options={"stop": ["x"]})["stop"] == ["x"]


@pytest.mark.parametrize(
    ("name", "url", "key", "said"),
    [
        ("openai/m", "http://me:secret@127.0.0.1/v1", KEY, "a user or a password beside the key"),
        ("ollama/m", "http://me:secret@127.0.0.1/v1", "", None),  # a gateway that wants just that
        ("openai/m", "http://[::1/v1", KEY, "no address of a model server"),
    ],
)
def test_an_address_that_cannot_be_asked_is_said_and_not_asked_again(name, url, key, said):
    where = endpoint(name, url, key, {})

    assert said is None or (isinstance(where, Failed) and where.failure is Failure.BAD_REQUEST)
    assert said is None or (said in where.message and "secret" not in where.message)
    assert said is not None or not isinstance(where, Failed)


def test_what_an_agent_says_of_thinking_goes_before_what_is_always_said():
    assert body_for("zai/glm-5", options={"thinking": {"type": "disabled"}})["thinking"] == {"type": "disabled"}


# provider/model, what is asked for, what is sent, in words of the model; None: nothing
EFFORTS = [
    ("deepseek/m", "max", "max"),
    ("deepseek/m", "low", "high"),
    ("moonshot/kimi-k3", "max", "max"),
    ("moonshot/kimi-k3", "medium", "low"),
    ("moonshot/kimi-k2.6", "high", None),
    ("mistral/mistral-small-latest", "max", "high"),
    ("mistral/mistral-medium-latest", "low", "none"),
    ("mistral/mistral-medium-2505", "high", None),
    ("mistral/magistral-medium-latest", "high", None),
    ("mistral/codestral-latest", "high", None),
    ("xai/grok-4", "low", None),
    ("xai/grok-4-1-fast-reasoning", "high", None),
    ("xai/grok-4.20-0309-reasoning", "high", None),
    ("xai/grok-4.20-multi-agent-0309", "high", None),
    ("xai/grok-code-fast-1", "high", None),
    ("xai/grok-3", "high", None),
    ("xai/grok-3-mini-latest", "medium", "low"),
    ("xai/grok-4.3-latest", "medium", "medium"),
    ("xai/grok-4.5", "max", "high"),
    ("xai/grok-4.6", "max", "xhigh"),
    ("xai/grok-5", "none", "low"),
    ("groq/openai/gpt-oss-120b", "max", "high"),
    ("groq/llama-3.3-70b-versatile", "high", None),
    ("minimax/MiniMax-M3", "high", None),
    ("openai/gpt-4.1", "high", None),
    ("openai/o3", "max", "high"),
    ("openrouter/openai/gpt-5.2", "max", "xhigh"),
    ("hosted_vllm/qwen3", "max", "high"),
]


@pytest.mark.parametrize(("name", "asked", "sent"), EFFORTS)
def test_effort_is_said_as_the_server_knows_it_and_what_becomes_of_it_is_told(name, asked, sent):
    own = "http://here/v1" if name.startswith(("hosted_vllm", "minimax")) else ""
    where = endpoint(name, own, KEY, {})
    question = Question(where.model, name, [], [], rules=where.rules, effort=asked)

    assert OPENAI.body(question).get("reasoning_effort") == sent
    told = {None: [f"effort {asked} is not sent: {name} takes none"], asked: []}
    changed = [f"effort {asked} is sent as {sent}, the nearest that {name} takes"]
    assert [*OPENAI.remarks(question)] == told.get(sent, changed)


def test_what_an_agent_writes_itself_goes_before_effort():
    where = endpoint("xai/grok-4", "", KEY, {})
    question = Question(where.model, "xai/grok-4", [], [], rules=where.rules, effort="low")
    question = replace(question, options={"reasoningEffort": "high"})

    assert OPENAI.body(question)["reasoning_effort"] == "high"
    assert [*OPENAI.remarks(question)] == []


def test_minimax_is_asked_in_anthropics_format_unless_its_address_says_otherwise():
    assert endpoint("minimax/m", "", KEY, {}).url == "https://api.minimax.io/anthropic/v1/messages"
    assert endpoint("minimax/m", "https://api.minimaxi.com/v1", KEY, {}).url.endswith("/v1/chat/completions")


def test_an_anthropic_model_behind_openrouter_gets_cache_marks_that_only_move():
    mark = {"cache_control": {"type": "ephemeral"}}
    call = whole(chunk({"tool_calls": [CALL]}, "tool_calls")).tool_calls
    history = [
        ChatMessage(role="system", content="You are brief."),
        ASKED,
        ChatMessage(role="assistant", tool_calls=call),
        ChatMessage(role="tool", tool_call_id="c1", content="x"),
        ChatMessage(role="assistant", content="hm"),
        ChatMessage(role="user", content="go on"),
    ]
    name = "openrouter/anthropic/claude-sonnet-4.6"
    before, after = (body_for(name, messages=history[:end])["messages"] for end in (4, 6))

    def bare(messages):
        return json.loads(json.dumps(messages).replace(json.dumps(mark)[1:-1], "").replace(", }", "}"))

    assert bare(before) == bare(after)[:4]
    assert [json.dumps(one).count("cache_control") for one in before] == [1, 1, 0, 1]
    assert [json.dumps(one).count("cache_control") for one in after] == [1, 0, 0, 1, 0, 1]
    assert after[3] == {"role": "tool", "tool_call_id": "c1", "content": "x", **mark}
    assert after[0]["content"] == [{"type": "text", "text": "You are brief.", **mark}]
    assert "cache_control" not in json.dumps(body_for("openrouter/openai/gpt-4o", messages=history))


def test_mistral_gets_ids_of_its_form_and_no_user_right_after_a_tool():
    call = whole(chunk({"tool_calls": [CALL]}, "tool_calls")).tool_calls
    history = [
        ASKED,
        ChatMessage(role="assistant", tool_calls=call),
        ChatMessage(role="tool", tool_call_id="c1", content="x"),
        ASKED,
    ]
    sent = body_for("mistral/m", messages=history)["messages"]

    assert [one["role"] for one in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]
    assert len(sent[2]["tool_call_id"]) == 9


# --- cuts

WORDS = st.text(min_size=1, max_size=6)
DELTAS = st.lists(
    st.builds(lambda words: {"content": words}, WORDS)
    | st.builds(lambda words: {"reasoning": words}, WORDS)
    | st.builds(lambda words: {"reasoning_details": [{"type": "reasoning.text", "text": words, "index": 0}]}, WORDS)
    | st.builds(lambda words: {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": words}]}]}, WORDS)
    | st.builds(lambda n, words: {"tool_calls": [
        {"index": n, "id": f"c{n}", "function": {"name": "read", "arguments": json.dumps({"path": words})}}
    ]}, st.integers(0, 3), WORDS),
    max_size=6,
)  # fmt: skip


@given(DELTAS, st.sampled_from(["stop", "tool_calls", "error", ""]), st.data())
def test_no_reply_differs_by_how_its_stream_is_cut(deltas, reason, data):
    body = stream(*map(chunk, deltas), chunk({}, reason))
    steps = data.draw(st.lists(st.integers(1, 40), max_size=60))
    at = tuple(place for place in accumulate(steps) if place < len(body))

    assert read(body, at=at) == read(body)
    assert read(body.replace(b"\n", b"\r\n"), at=at) == read(body)


@given(DELTAS)
def test_watchers_hear_what_the_reply_says(deltas):
    *heard, reply = read(stream(*map(chunk, deltas), chunk({"content": "."}, "stop")))

    assert "".join(event.text for event in heard if isinstance(event, Text)) == reply.text
    assert "".join(event.text for event in heard if isinstance(event, Reasoning)) == reply.reasoning


@pytest.mark.parametrize(
    "name",
    ["openai/openai/gpt-4o", "openai/GPT-4o", "openai/gpt-4o ", "openai//gpt-4o", "openai/anthropic/claude-opus-4-5"],
)
async def test_another_spelling_of_a_listed_model_is_not_free_behind_a_gateway_of_ones_own(name):
    assert await Models("openai/my-own", "http://10.0.0.5:4000/v1").price(name) not in (FREE, None)
