"""OpenAI's Responses API: what is sent, and what of a stream is read."""

from __future__ import annotations

import json
import random

import pytest

from workers.llm.base import ChatMessage, Completed, Failed, Failure, FilePart, ProviderItems, ToolCall, ToolSpec
from workers.llm.direct import ODD
from workers.llm.providers import OPENAI, RESPONSES, endpoint
from workers.llm.sse import EventParser
from workers.llm.wire import Question

READ = ToolSpec("read", "Reads.", {"type": "object"})
CALL = ToolCall(id="c1", name="read", arguments='{"path": "a"}', input={"path": "a"})
HISTORY = [
    ChatMessage(role="system", content="You are brief."),
    ChatMessage(role="user", content="Hello?"),
    ChatMessage(role="assistant", content="I look.", reasoning="hm", tool_calls=(CALL,)),
    ChatMessage(role="tool", tool_call_id="c1", name="read", content="text"),
]


def asking(messages=HISTORY, model: str = "gpt-5.5", **options) -> Question:
    return Question(model, f"openai/{model}", messages, **{"tools": (READ,), "at_home": True, **options})


def test_a_request_keeps_nothing_at_the_provider_and_wants_its_thoughts_sealed():
    body = RESPONSES.body(asking())

    assert (body["store"], body["stream"], body["include"]) == (False, True, ["reasoning.encrypted_content"])
    assert (body["instructions"], body["reasoning"]) == ("You are brief.", {"summary": "auto"})
    assert body["text"] == {"verbosity": "low"}
    assert body["tools"] == [
        {"type": "function", "name": "read", "description": "Reads.", "parameters": READ.parameters, "strict": False}
    ]
    assert body["input"] == [
        {"role": "user", "content": "Hello?"},
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path": "a"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "text"},
    ]
    assert not {"max_output_tokens", "temperature", "tool_choice", "previous_response_id"} & body.keys()


def test_a_session_has_one_cache_key_as_long_as_it_lives():
    first, later, other = asking(HISTORY[:2]), asking(), asking([HISTORY[0], ChatMessage(role="user", content="Ho!")])

    keys = [RESPONSES.body(one)["prompt_cache_key"] for one in (first, later, other)]

    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("gpt-5.5", "", None),
        ("gpt-5.5", "low", "low"),
        ("gpt-5.5", "max", "xhigh"),
        ("gpt-6-sol", "max", "max"),
        ("gpt-5", "max", "high"),
    ],
)
def test_effort_is_said_as_the_model_knows_it(model, effort, sent):
    assert RESPONSES.body(asking(model=model, effort=effort))["reasoning"].get("effort") == sent


def test_what_a_model_does_not_take_is_not_sent_and_is_told():
    thinking, plain = asking(temperature=0.5), asking(model="gpt-4.1", temperature=0.5)

    assert "temperature" not in RESPONSES.body(thinking)
    assert [*RESPONSES.remarks(thinking)] == [f"temperature 0.5 is not sent: {thinking.full_name} takes none"]
    assert RESPONSES.body(plain)["temperature"] == 0.5 and "include" not in RESPONSES.body(plain)
    assert [*RESPONSES.remarks(plain)] == []


def test_the_last_turn_forbids_calls_and_offers_the_same_tools():
    body = RESPONSES.body(asking(tool_choice="none"))

    assert (body["tool_choice"], body["tools"]) == ("none", RESPONSES.body(asking())["tools"])


def test_files_are_sent_as_parts():
    image = FilePart(blob="b", media_type="image/png", name="a.png", data="QQ==")
    pdf = FilePart(blob="b", media_type="application/pdf", name="a.pdf", data="QQ==")

    (item,) = RESPONSES.body(asking([ChatMessage(role="user", content="See", files=(image, pdf))]))["input"]

    assert [part["type"] for part in item["content"]] == ["input_text", "input_image", "input_file"]
    assert item["content"][1]["image_url"] == "data:image/png;base64,QQ=="


@pytest.mark.parametrize(
    ("name", "url", "wire"),
    [
        ("openai/gpt-5.5", "", RESPONSES),
        ("openai/gpt-5-codex", "", RESPONSES),
        ("openai/gpt-6-sol", "", RESPONSES),
        ("openai/gpt-4.1", "", OPENAI),
        ("openai/gpt-5.5", "http://here/v1", OPENAI),  # who speaks like OpenAI speaks chat completions
        ("openai/anything", "http://here/v1/responses", RESPONSES),
        ("xai/grok-5", "http://here/v1/responses/", RESPONSES),
    ],
)
def test_who_is_asked_in_this_format(name, url, wire):
    where = endpoint(name, url, "sk-nobody-0123456789", {})

    assert where.wire is wire
    assert where.url.endswith("/v1/responses" if wire is RESPONSES else "/v1/chat/completions")


# --- what is read -----------------------------------------------------------------------------------------------------

THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "so"}],
    "encrypted_content": "x",
}
WORDS = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary",
    "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}],
}  # fmt: skip
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
READS = {
    "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read",
    "arguments": '{"path":"a"}', "status": "completed",
}  # fmt: skip
USAGE = {
    "input_tokens": 30, "input_tokens_details": {"cached_tokens": 20}, "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 39,
}  # fmt: skip


def ended(*output: dict, kind: str = "completed", **fields) -> dict:
    whole = {"object": "response", "status": kind, "output": list(output), "usage": USAGE, "error": None}
    return {"type": f"response.{kind}", "response": {**whole, **fields}}


def done(place: int, item: dict) -> dict:
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def added(place: int, item: dict) -> dict:
    return {"type": "response.output_item.added", "output_index": place, "item": item | {"status": "in_progress"}}


def delta(kind: str, place: int, text: str, **fields) -> dict:
    return {"type": f"response.{kind}.delta", "output_index": place, "delta": text, **fields}


STREAM = [
    {"type": "response.created", "response": {"status": "in_progress", "output": []}},
    added(0, THOUGHT | {"summary": []}),
    delta("reasoning_summary_text", 0, "s", summary_index=0),
    delta("reasoning_summary_text", 0, "o", summary_index=0),
    done(0, THOUGHT),
    added(1, WORDS | {"content": []}),
    delta("output_text", 1, "I "),
    delta("output_text", 1, "look."),
    done(1, WORDS),
    done(2, SEARCH),
    added(3, READS | {"arguments": ""}),
    delta("function_call_arguments", 3, '{"path"'),
    delta("function_call_arguments", 3, ':"a"}'),
    {"type": "response.function_call_arguments.done", "output_index": 3, "arguments": '{"path":"a"}'},
    done(3, READS),
    ended(THOUGHT, WORDS, SEARCH, READS),
]


def read(*events: dict | str, question: Question | None = None) -> list:
    reader = RESPONSES.reader(question or asking())
    found = []
    for event in events:
        found += reader.read(event.encode() if isinstance(event, str) else json.dumps(event).encode())
    return [*found, reader.completed()]


def test_a_reply_is_read_in_pieces_and_kept_as_it_came():
    *events, completed = read(*STREAM)

    assert "".join(one.text for one in events if type(one).__name__ == "Text") == completed.text == "I look."
    assert completed.reasoning == "so" and completed.finish_reason == "tool_calls"
    assert completed.tool_calls == (ToolCall(id="call_1", name="read", arguments='{"path":"a"}', input={"path": "a"}),)
    assert completed.provider_items == ProviderItems(model="openai/gpt-5.5", items=(THOUGHT, WORDS, SEARCH, READS))
    usage = completed.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens) == (30, 20, 9, 4)


def test_its_items_go_back_in_place_to_the_same_model():
    completed = read(*STREAM)[-1]
    reply = ChatMessage(
        role="assistant", content="I look.", tool_calls=completed.tool_calls, provider_items=completed.provider_items
    )
    answer = ChatMessage(role="tool", tool_call_id="call_1", content="text")

    same = RESPONSES.body(asking([*HISTORY[:2], reply, answer]))["input"]
    other = RESPONSES.body(asking([*HISTORY[:2], reply, answer], model="gpt-6-sol"))["input"]

    assert same[1:5] == [THOUGHT, WORDS, SEARCH, READS] and same[5]["call_id"] == "call_1"
    assert [item.get("type") for item in other[1:]] == [None, "function_call", "function_call_output"]


@pytest.mark.parametrize(
    "events",
    [
        [done(0, THOUGHT), done(1, WORDS), done(2, SEARCH), done(3, READS), ended()],
        [ended(THOUGHT, WORDS, SEARCH, READS)],
        [ended(THOUGHT, WORDS, SEARCH, READS)["response"]],  # a server that does not stream
        [*STREAM, "[DONE]"],
    ],
)
def test_items_may_come_whole_or_with_the_reply_alone(events):
    completed = read(*events)[-1]

    assert completed == read(*STREAM)[-1]


def test_no_reply_differs_by_how_its_stream_is_cut():
    stream = b"".join(b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n" for event in STREAM)
    wanted = read(*STREAM)
    places = [*range(min(len(stream), 4096)), *random.Random(7).sample(range(len(stream)), 200)]
    for at in places:
        parser, reader, found = EventParser(), RESPONSES.reader(asking()), []
        for data in (*parser.feed(stream[:at]), *parser.feed(stream[at:]), *parser.end()):
            found += reader.read(data)
        assert [*found, reader.completed()] == wanted, at


def test_a_refusal_is_told_as_one():
    refusal = WORDS | {"content": [{"type": "refusal", "refusal": "I will not."}]}

    streamed = read(delta("refusal", 0, "I will not."), done(0, refusal), ended(refusal))[-1]
    whole = read(ended(refusal))[-1]

    assert (streamed.finish_reason, streamed.text) == (whole.finish_reason, whole.text) == ("refusal", "I will not.")


@pytest.mark.parametrize(("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")])
def test_why_a_reply_is_incomplete(reason, finish):
    half = READS | {"arguments": '{"pa', "status": "incomplete"}
    thought = THOUGHT | {"encrypted_content": None}

    completed = read(
        done(0, thought), done(1, half), ended(thought, half, kind="incomplete", incomplete_details={"reason": reason})
    )[-1]

    assert completed.finish_reason == finish
    # a thought without its content cannot be found again, and half a call cannot be parsed
    assert [item["type"] for item in completed.provider_items.items] == ["function_call"]
    assert completed.provider_items.items[0]["arguments"] == "{}"


@pytest.mark.parametrize(
    ("event", "failure"),
    [
        (ended(kind="failed", error={"code": "rate_limit_exceeded", "message": "Slow down"}), Failure.RATE_LIMIT),
        (ended(kind="failed", error={"code": "server_error", "message": "Oh"}), Failure.UNAVAILABLE),
        (ended(kind="failed", error={"code": "context_length_exceeded", "message": "Too much"}), Failure.OVERFLOW),
        (ended(kind="failed"), Failure.UNAVAILABLE),
        ({"type": "error", "code": "server_error", "message": "Oh", "param": None}, Failure.UNAVAILABLE),
        (
            {"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "x"}},
            Failure.RATE_LIMIT,
        ),
        (ended(kind="incomplete", incomplete_details={"reason": "something_new"}), Failure.UNAVAILABLE),
        (ended(kind="incomplete", incomplete_details=None), Failure.UNAVAILABLE),
        (ended(kind="completed", status="queued"), Failure.UNAVAILABLE),
    ],
)
def test_errors_in_a_stream_are_no_replies(event, failure):
    found, completed = read(event)

    assert isinstance(found, Failed) and found.failure is failure
    assert completed is None


def test_a_stream_that_ends_before_its_reply_is_no_reply():
    assert read(*STREAM[:-1])[-1] is None
    assert read(*STREAM[:-1], "[DONE]")[-1] is None


def test_tokens_that_are_billed_beside_the_output_are_counted():
    usage = USAGE | {"output_tokens": 9, "total_tokens": 130}

    assert read(ended(WORDS, usage=usage))[-1].usage.output_tokens == 100
    assert isinstance(read(ended(WORDS, usage=None))[-1], Completed)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.output_item.done"},
        {"type": "response.completed"},
        "[1]",
        "null",
        '{"type": "response.output_text.delta"}',
    ],
)
def test_what_is_no_event_of_the_format_is_an_odd_one(event):
    with pytest.raises(ODD):
        read(event)
