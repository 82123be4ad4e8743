"""Replies of a server that means harm: what must not hang a worker, end a task's limits, or speak for others."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager

import pytest

from workers.llm.base import ChatMessage, Completed, ToolSpec
from workers.llm.failures import ProviderError, failed, interrupted
from workers.llm.overflow import is_overflow
from workers.llm.providers import ANTHROPIC, OPENAI, RESPONSES
from workers.llm.wire import Question
from workers.llm.wire_openai import told_cost

READ = ToolSpec("read", "Reads.", {"type": "object"})
ASKED = (ChatMessage(role="system", content="You are brief."), ChatMessage(role="user", content="Hello?"))


@contextmanager
def at_once():
    began_s = time.process_time()
    yield
    assert time.process_time() - began_s < 2


def read(wire, *events: dict, messages=ASKED, at_home: bool = False) -> Completed:
    reader = wire.reader(Question("m", "openai/m", messages, (READ,), at_home=at_home))
    for event in events:
        assert all(type(one).__name__ != "Failed" for one in reader.read(json.dumps(event).encode()))
    reply = reader.completed()
    assert reply is not None
    return reply


def chat(delta: dict, **more) -> dict:
    return {"choices": [{"delta": delta}], **more}


CHAT_ENDS = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("text", ["400" + " " * 3990 + "x", "error code: 400 status code" + " " * 3900 + "x"])
def test_a_refusal_of_white_space_keeps_nobody_busy(text):
    with at_once():
        assert not is_overflow(text, 400)


@pytest.mark.parametrize("piece", ["bearer ", "http://", "eyJ"])
def test_the_error_of_megabytes_is_not_read_to_its_end(piece):
    message = "sk-" + "a" * 20 + " " + piece * 1_000_000

    with at_once():
        told = failed(ProviderError(message=message, status=500)).message

    assert told.startswith("the model provider says: [redacted] ") and len(told) < 400
    assert len(interrupted(message).message) < 400


def test_thousands_of_calls_in_one_reply_keep_nobody_busy():
    calls = [{"index": n, "id": f"c{n}", "function": {"name": "read", "arguments": "{}"}} for n in range(20_000)]

    with at_once():
        reply = read(OPENAI, chat({"tool_calls": calls}), CHAT_ENDS)

    assert len({call.id for call in reply.tool_calls}) == 20_000


def test_thousands_of_citations_keep_nobody_busy():
    cited = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"n": n}}}
        for n in range(30_000)
    ]
    start = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": "so", "citations": []},
    }
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 1}}

    with at_once():
        reply = read(ANTHROPIC, start, *cited, end, {"type": "message_stop"})

    assert reply.provider_items is not None
    assert [one["n"] for one in reply.provider_items.items[0]["citations"]] == [*range(30_000)]


def test_details_of_thousands_of_names_keep_nobody_busy():
    details = [chat({"reasoning_details": [{f"name-{n}": n}]}) for n in range(15_000)]

    with at_once():
        reply = read(OPENAI, *details, chat({"content": "hi"}), CHAT_ENDS)

    assert reply.provider_items is not None
    assert len(reply.provider_items.items[0]["message"]["reasoning_details"][0]) == 15_000


@pytest.mark.parametrize(
    "usage",
    [
        {"cost_in_usd_ticks": 10**400},
        {"cost": 10**400, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}},
        {"cost": float("nan")},
        {"cost": float("inf")},
        {"cost": -1},
    ],
    ids=["ticks", "sum", "nan", "endless", "negative"],
)
def test_a_told_cost_that_cannot_be_true_is_none(usage):
    assert told_cost(usage) is None


LONG = "word " * 2_000


def in_chat(usage: dict) -> Completed:
    names = {"input": "prompt_tokens", "output": "completion_tokens"}
    told = {"usage": {names[name]: number for name, number in usage.items()}} if usage else {}
    return read(OPENAI, chat({"content": LONG}), {**CHAT_ENDS, **told})


def in_responses(usage: dict) -> Completed:
    told = {"usage": {f"{name}_tokens": number for name, number in usage.items()}} if usage else {}
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": LONG}]}
    return read(
        RESPONSES, {"type": "response.completed", "response": {"status": "completed", "output": [item], **told}}
    )


def in_anthropic(usage: dict) -> Completed:
    told = {"usage": {f"{name}_tokens": number for name, number in usage.items()}} if usage else {}
    block = {"type": "text", "text": LONG}
    return read(ANTHROPIC, {"type": "message", "content": [block], "stop_reason": "end_turn", **told})


EACH_FORMAT = pytest.mark.parametrize("reply", [in_chat, in_responses, in_anthropic])


@EACH_FORMAT
@pytest.mark.parametrize(
    "usage",
    [{}, {"input": 0, "output": 0}, {"input": 2**53 - 1, "output": 1}, {"input": 7, "output": 10**12}, {"output": 0}],
    ids=["none", "zeros", "endless-input", "endless-output", "half"],
)
def test_a_count_that_cannot_be_true_is_estimated(reply, usage):
    found = reply(usage).usage

    assert found.output_tokens == len(LONG) // 4 + 1
    assert 5 < found.input_tokens < 100


@EACH_FORMAT
def test_what_a_server_does_not_count_is_estimated_and_what_it_counts_is_taken(reply):
    only_output, only_input = reply({"output": 77}).usage, reply({"input": 88}).usage

    assert only_output.output_tokens == 77 and only_output.input_tokens > 5
    assert only_input.input_tokens == 88 and only_input.output_tokens == len(LONG) // 4 + 1
