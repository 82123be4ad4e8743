"""The harness of `benchmarks.recordings`, on bodies of our own in the image of what providers send.

Whether our codecs read the recorded exchanges is shown by running it; they are no part of the repository.
"""

from __future__ import annotations

import ast
import base64
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.recordings import back, bedrock, oracle, restream
from benchmarks.recordings.__main__ import compared, exclusions, judge_all, loaded, report
from benchmarks.recordings.server import DRESSES, dressed, pieces
from benchmarks.recordings.truth import ANSWER, CALLS, ERROR, INTERRUPTED, LENGTH, PAUSED, REFUSED, Truth

FOLDER = Path(oracle.__file__).parent
STREAM, JSON = "text/event-stream; charset=utf-8", "application/json"


def sse(*events: dict, done: bool = False) -> bytes:
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([*lines, *(["data: [DONE]\n\n"] if done else [])]).encode()


def chunk(delta: dict, reason: str | None = None, **more) -> dict:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}


def piece(arguments: str, **more) -> dict:
    return {"tool_calls": [{"index": 0, "function": {"arguments": arguments, **more.pop("function", {})}, **more}]}


CHAT = sse(
    chunk({"role": "assistant", "content": "Füße"}),
    chunk({"content": " go."}),
    chunk({}, "stop"),
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 41}},
    done=True,
)
CHAT_CALL = sse(
    chunk({"reasoning": "I look."}),
    chunk(piece("", id="call_1", type="function", function={"name": "read"})),
    chunk(piece('{"path": ')),
    chunk(piece('"a.py"}')),
    chunk({}, "tool_calls"),
    done=True,
)


def block(index: int, start: dict, *deltas: dict) -> list[dict]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def claude(*blocks: list[dict], reason: str = "end_turn") -> bytes:
    usage = {"input_tokens": 4, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 6, "output_tokens": 1}
    events = [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": usage}},
        *(event for one in blocks for event in one),
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 12}},
        {"type": "message_stop"},
    ]
    return sse(*events)


THOUGHT = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Search"},
    {"type": "thinking_delta", "thinking": " first."},
    {"type": "signature_delta", "signature": "c2lnbmVk"},
)
SEARCH = block(
    1,
    {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
    {"type": "input_json_delta", "partial_json": '{"query": "x"}'},
)
FOUND = block(2, {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"encrypted_content": "e"}]})
SAID = block(3, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Found it."})
READ = block(
    4,
    {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
    {"type": "input_json_delta", "partial_json": '{"path": "a.py"}'},
)
SEARCHED = claude(THOUGHT, SEARCH, FOUND, SAID, READ, reason="tool_use")

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"}
SEARCH_CALL = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
FUNCTION = {"type": "function_call", "id": "fc_1", "call_id": "call_9", "name": "read", "arguments": '{"path": "b"}'}
RESPONSE_USAGE = {
    "input_tokens": 50,
    "input_tokens_details": {"cached_tokens": 32},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 57,
}


def response(*items: dict, status: str = "completed", **more) -> bytes:
    return json.dumps(
        {"object": "response", "status": status, "output": items, "usage": RESPONSE_USAGE, **more}
    ).encode()


def refused_by(status: int, **error) -> tuple[str, int, str, bytes]:
    return ("openai", status, JSON, json.dumps({"error": error}).encode())


def truth_of(wire: str, status: int, content_type: str, body: bytes) -> Truth:
    return oracle.read(wire, "example.org", status, content_type, body)


def test_the_oracle_knows_nothing_of_our_codecs():
    for name in ("oracle.py", "truth.py", "back.py", "bedrock.py", "restream.py", "server.py"):
        named = {
            module.split(".")[0]
            for node in ast.walk(ast.parse((FOLDER / name).read_text()))
            for module in (
                [a.name for a in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "") or ""]
            )
        }
        assert not named & {"workers", "envelope", "transport", "orchestrator"}, name


def test_a_chat_stream_counts_what_is_in_the_total_alone():
    truth = truth_of("openai", 200, STREAM, CHAT)

    assert (truth.kind, truth.text) == (ANSWER, "Füße go.")
    assert truth.usage == {"input": 9, "output": 32, "cached": 0, "cache_write": 0, "reasoning": 0}


def test_a_server_tool_is_no_call_of_ours():
    truth = truth_of("anthropic", 200, STREAM, SEARCHED)

    assert (truth.kind, truth.text, truth.reasoning) == (CALLS, "Found it.", "Search first.")
    assert [(call.id, call.name, call.arguments) for call in truth.calls] == [("toolu_1", "read", {"path": "a.py"})]
    assert [one["type"] for one in truth.back] == [
        "thinking",
        "server_tool_use",
        "web_search_tool_result",
        "text",
        "tool_use",
    ]
    assert truth.usage == {"input": 40, "output": 12, "cached": 30, "cache_write": 6, "reasoning": 0}

    truth = truth_of("responses", 200, JSON, response(REASONING, SEARCH_CALL, FUNCTION))
    assert [(call.id, call.name) for call in truth.calls] == [("call_9", "read")]


@pytest.mark.parametrize(
    ("exchange", "kind", "error"),
    [
        (("openai", 200, STREAM, sse(chunk({"content": "x"}), done=True)), ANSWER, ""),
        (("openai", 200, STREAM, sse(chunk({"content": "x"}))), INTERRUPTED, ""),
        (("openai", 200, STREAM, sse(chunk({"content": "x"}, "error"), done=True)), INTERRUPTED, ""),
        (("openai", 200, STREAM, sse(chunk({"content": "x"}, "length"), done=True)), LENGTH, ""),
        (("openai", 200, STREAM, sse(chunk({"refusal": "No."}, "stop"), done=True)), REFUSED, ""),
        (("openai", 200, STREAM, sse({"error": {"code": 429, "message": "slow"}})), ERROR, "rate_limit"),
        (("anthropic", 200, STREAM, claude(SAID, reason="refusal")), REFUSED, ""),
        (("anthropic", 200, STREAM, claude(SAID).replace(b"message_stop", b"ping")), INTERRUPTED, ""),
        (("responses", 200, JSON, response(status="queued")), INTERRUPTED, ""),
        (
            ("responses", 200, JSON, response(status="incomplete", incomplete_details={"reason": "max_output_tokens"})),
            LENGTH,
            "",
        ),
        (("openai", 200, JSON, b"<html>"), INTERRUPTED, ""),
        (refused_by(400, code="tool_use_failed", message="no such tool"), ERROR, "tool_use_failed"),
        (refused_by(400, message="input length and `max_tokens` exceed context limit: 1 + 2 > 2"), ERROR, "overflow"),
        (refused_by(404, code="model_not_found", message="none"), ERROR, "unknown_model"),
        (refused_by(429, code="insufficient_quota", message="no money"), ERROR, "auth"),
        (refused_by(529, type="overloaded_error", message="busy"), ERROR, "unavailable"),
    ],
)
def test_how_a_reply_ended(exchange: tuple, kind: str, error: str):
    truth = truth_of(*exchange)

    assert (truth.kind, truth.error) == (kind, error)


def test_what_differs_is_named():
    truth = truth_of("openai", 200, STREAM, CHAT_CALL)
    truth.usage = {"input": 9, "output": 3}

    assert compared(truth, replace(truth)) == []
    assert compared(truth, Truth(ERROR, error="unavailable")) == ["tool_calls read as error (unavailable)"]
    other = replace(
        truth, text="x", reasoning="", calls=[oracle.Call("c", "read", "{}")], usage={"input": 9, "output": 4}
    )
    assert compared(truth, other) == ["text", "reasoning", "calls: arguments", "usage: output"]
    assert compared(truth, replace(truth, calls=truth.calls * 2)) == ["calls: too many"]
    uncounted = replace(truth, usage={"output": 3})  # which the server did not say is estimated, and never nothing
    assert compared(uncounted, replace(truth, usage={"input": 0, "output": 3})) == ["usage: no input"]
    assert compared(uncounted, truth) == []


def test_a_request_must_hold_the_turn_as_it_came():
    truth = truth_of("anthropic", 200, STREAM, SEARCHED)

    def lost(content: list[dict]) -> list[str]:
        messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": content}]
        return back.lost("anthropic", "example.org", truth, {"messages": messages})

    marked = [*truth.back[:-1], truth.back[-1] | {"cache_control": {"type": "ephemeral"}}]
    assert lost(marked) == []
    assert lost([truth.back[3], *truth.back[:3], truth.back[4]]) == ["back: order"]
    assert lost([truth.back[0] | {"signature": "other"}, *truth.back[1:]]) == ["back: thinking changed"]
    assert lost(truth.back[3:]) == [
        "back: thinking lost",
        "back: server_tool_use lost",
        "back: web_search_tool_result lost",
    ]


def test_a_request_must_hold_encrypted_thoughts_but_no_ids():
    truth = truth_of("responses", 200, JSON, response(REASONING, FUNCTION))
    answer = {"type": "function_call_output", "call_id": "call_9", "output": "done"}
    bare = [{name: value for name, value in item.items() if name != "id"} for item in (REASONING, FUNCTION)]

    assert back.lost("responses", "example.org", truth, {"input": [*bare, answer]}) == []
    assert back.lost("responses", "example.org", truth, {"input": [bare[1], answer]}) == ["back: reasoning lost"]


def test_a_request_must_hold_thoughts_under_the_name_that_they_had():
    truth = truth_of("openai", 200, STREAM, CHAT_CALL)
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}

    def lost(**message) -> list[str]:
        return back.lost("openai", "api.groq.com", truth, {"messages": [{"role": "assistant", **message}]})

    assert lost(tool_calls=[call], reasoning="I look.") == []
    assert lost(tool_calls=[call]) == ["back: reasoning lost"]
    assert lost(tool_calls=[call | {"id": "x"}], reasoning="I look.") == ["back: call id changed"]


@pytest.mark.parametrize("way", DRESSES)
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_dress_keeps_what_a_stream_says(wire: str, way: str):
    body = CHAT if wire == "openai" else SEARCHED
    other = dressed(body, way)

    assert b"".join(pieces(other, way)) == other
    assert truth_of(wire, 200, STREAM, other) == truth_of(wire, 200, STREAM, body)


MESSAGE = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Füße."}]}
SUMMED = REASONING | {"summary": [{"type": "summary_text", "text": "I look."}]}
WHOLE_CHAT = {
    "choices": [
        {
            "finish_reason": "tool_calls",
            "message": {
                "content": "Füße.",
                "reasoning": "I look.",
                "reasoning_details": [{"type": "reasoning.encrypted", "index": 0, "data": "c2VhbGVk"}],
                "tool_calls": [{"id": "call_1", "function": {"name": "read", "arguments": '{"path": "a"}'}}],
            },
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4},
}
WHOLE_MESSAGE = {
    "type": "message",
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 4},
    "content": [
        {"type": "thinking", "thinking": "I look.", "signature": "c2ln"},
        {"type": "text", "text": "Füße.", "citations": [{"cited_text": "x"}]},
        {"type": "server_tool_use", "id": "srv", "name": "search", "input": {"q": "x"}},
        {"type": "tool_use", "id": "toolu", "name": "read", "input": {"path": "a"}},
    ],
}


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        ("openai", json.dumps(WHOLE_CHAT).encode()),
        ("anthropic", json.dumps(WHOLE_MESSAGE).encode()),
        ("responses", response(SUMMED, MESSAGE, SEARCH_CALL, FUNCTION)),
    ],
)
def test_a_whole_reply_is_the_same_as_a_stream(wire: str, body: bytes):
    truth = truth_of(wire, 200, JSON, body)

    assert (truth.kind, truth.text, truth.reasoning) == (CALLS, "Füße.", "I look.")
    assert truth_of(wire, 200, STREAM, restream.streamed(wire, body)) == truth


def test_a_whole_reply_of_bedrock_is_the_same_as_a_stream():
    content = [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
        {"text": "Füße."},
        {"toolUse": {"toolUseId": "t1", "name": "read", "input": {"path": "a"}}},
    ]
    usage = {"inputTokens": 3, "outputTokens": 4, "cacheReadInputTokens": 5}
    whole = {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use", "usage": usage}
    body = json.dumps(whole).encode()

    truth = truth_of("bedrock", 200, JSON, body)
    streamed = truth_of("bedrock", 200, bedrock.STREAM, bedrock.streamed(body))

    assert (truth.kind, truth.text, truth.reasoning) == (CALLS, "Füße.", "Hm.")
    assert truth.usage == {"input": 8, "output": 4, "cached": 5, "cache_write": 0}
    assert [call.arguments for call in streamed.calls] == [call.arguments for call in truth.calls] == [{"path": "a"}]
    assert (streamed.kind, streamed.text, streamed.reasoning) == (truth.kind, truth.text, truth.reasoning)
    assert streamed.usage == truth.usage


async def test_our_codecs_are_asked_over_http_and_judged(tmp_path: Path):
    wrong = CHAT.replace(b'"total_tokens": 41', b'"total_tokens": 11').replace(b'"stop"', b'"unheard_of"')
    rows = [
        ("plain", "openai", CHAT.replace(b'"total_tokens": 41', b'"total_tokens": 11'), STREAM, 200),
        ("called", "anthropic", claude(THOUGHT, SAID, READ, reason="tool_use"), STREAM, 200),
        ("paused", "anthropic", claude(SAID, reason="pause_turn"), STREAM, 200),
        ("refused", "anthropic", b'{"type": "error", "error": {"type": "rate_limit_error"}}', JSON, 429),
        ("strange", "openai", wrong, STREAM, 200),
        (next(iter(exclusions())), "openai", CHAT, STREAM, 200),
    ]
    file = tmp_path / "own.jsonl.gz"
    with gzip.open(file, "wt") as lines:
        for name, wire, body, kind, status in rows:
            row = {"id": name, "wire": wire, "host": "own", "status": status, "headers": {"Content-Type": kind}}
            lines.write(json.dumps(row | {"body": base64.b64encode(body).decode(), "request": {"model": "m"}}) + "\n")

    verdicts = await judge_all(loaded(file), "full")

    assert [(v.exchange.id, v.kind, v.wrong) for v in verdicts[:4]] == [
        ("plain", ANSWER, ()),
        ("called", CALLS, ()),
        ("paused", PAUSED, ()),
        ("refused", ERROR, ()),
    ]
    assert verdicts[4].kind == INTERRUPTED
    assert verdicts[5].excluded
    table = report(verdicts).splitlines()
    assert table[1].split() == ["anthropic", "own", "3", "0", "0"]
    assert any("none of them reads otherwise in any piece or dress" in line for line in table)
