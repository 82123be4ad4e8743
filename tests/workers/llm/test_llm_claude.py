"""What each of Anthropic's models is asked with, and what of its replies goes back."""

from __future__ import annotations

import json

import pytest

from workers.llm.base import ChatMessage, Failed, Failure, ToolSpec
from workers.llm.claude import BINDING, INTERLEAVED
from workers.llm.direct import DirectModel
from workers.llm.providers import ANTHROPIC
from workers.llm.wire import Question

READ = ToolSpec("read", "Reads.", {"type": "object"})
SAID = [ChatMessage(role="user", content="Hello?")]
DROPS = {"prefix_mismatch_behavior": "drop_block"}


def asking(model: str, **fields) -> Question:
    told = {"tools": (READ,), "at_home": True, "max_output_tokens": 64_000}
    return Question(model, f"anthropic/{model}", SAID, **{**told, **fields})


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "level"),
    [
        ("claude-opus-5-5", "", {"type": "adaptive", "display": "summarized", "block_binding": DROPS}, "high"),
        ("claude-haiku-5-5", "low", {"type": "adaptive", "display": "summarized", "block_binding": DROPS}, "low"),
        ("claude-fable-5-1", "max", {"type": "adaptive", "display": "summarized", "block_binding": DROPS}, "max"),
        ("claude-opus-5", "xhigh", {"type": "adaptive", "display": "summarized"}, "xhigh"),
        ("claude-sonnet-4-6", "xhigh", {"type": "adaptive"}, "high"),
        ("claude-opus-4-6", "", {"type": "adaptive"}, "high"),
        ("claude-opus-4-5-20251101", "max", {"type": "enabled", "budget_tokens": 55_808}, "high"),
        ("claude-sonnet-4-5", "", {"type": "enabled", "budget_tokens": 31_999}, None),
        ("claude-haiku-4-5-20251001", "low", {"type": "enabled", "budget_tokens": 4_000}, None),
        ("claude-3-7-sonnet-20250219", "medium", {"type": "enabled", "budget_tokens": 10_000}, None),
        ("claude-3-5-haiku-20241022", "high", None, None),
        ("what-a-compatible-server-has", "high", None, None),
        ("claude-of-next-year-9-9", "", None, None),  # no version that can be read: nothing is asked for
        ("claude-opus-6", "", {"type": "adaptive", "display": "summarized", "block_binding": DROPS}, "high"),
    ],
)
def test_thinking_and_effort_by_version(model, effort, thinking, level):
    body = ANTHROPIC.body(asking(model, effort=effort))

    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == level


def test_betas_are_named_where_they_are_needed():
    def betas(model: str, **fields) -> str | None:
        return ANTHROPIC.headers("key", asking(model, **fields)).get("anthropic-beta")

    assert betas("claude-opus-5-5") == BINDING
    assert betas("claude-sonnet-4-5") == INTERLEAVED
    assert betas("claude-opus-4-6") is betas("claude-3-7-sonnet-20250219") is None
    # who only speaks like Anthropic may know neither the beta nor its field
    assert betas("claude-opus-5-5", at_home=False) is None
    assert "block_binding" not in ANTHROPIC.body(asking("claude-opus-5-5", at_home=False))["thinking"]


def test_temperature_only_where_the_model_takes_it():
    def sent(model: str, **fields):
        question = asking(model, temperature=0.5, **fields)
        body = ANTHROPIC.body(question)
        told = [remark.partition(" is not sent")[0] for remark in ANTHROPIC.remarks(question)]
        return body.get("temperature"), "thinking" in body, told

    assert sent("claude-opus-5") == (None, True, ["temperature 0.5"])
    assert sent("claude-opus-4-7") == (None, True, ["temperature 0.5"])
    assert sent("claude-sonnet-4-5") == (0.5, False, [])  # it takes one of the two
    assert sent("claude-sonnet-4-5", effort="low") == (0.5, False, ["effort low"])
    assert sent("claude-sonnet-4-5", effort="high") == (None, True, ["temperature 0.5"])
    assert sent("claude-3-5-haiku-20241022") == (0.5, False, [])


@pytest.mark.parametrize(
    ("model", "effort", "told"),
    [
        ("claude-opus-5", "max", []),
        ("claude-sonnet-4-6", "xhigh", ["is sent as high, the nearest that anthropic/claude-sonnet-4-6 takes"]),
        ("claude-opus-4-5", "max", ["is sent as high, the nearest that anthropic/claude-opus-4-5 takes"]),
        ("claude-sonnet-4-5", "max", []),  # a budget of thoughts
        ("claude-opus-5", "none", ["is sent as low, the nearest that anthropic/claude-opus-5 takes"]),
        ("claude-3-5-haiku-20241022", "high", ["is not sent: anthropic/claude-3-5-haiku-20241022 takes none"]),
        ("MiniMax-M3", "high", ["is not sent: anthropic/MiniMax-M3 takes none"]),
    ],
)
def test_what_becomes_of_effort_is_told(model, effort, told):
    assert [*ANTHROPIC.remarks(asking(model, effort=effort))] == [f"effort {effort} {how}" for how in told]


def test_options_of_other_providers_are_told_and_not_sent():
    question = asking("claude-opus-5", options={"seed": 7, "serviceTier": "priority", "api_base": "http://x"})

    assert [*ANTHROPIC.remarks(question)] == ["seed 7 is not sent: anthropic/claude-opus-5 takes none"]
    assert ANTHROPIC.body(question)["service_tier"] == "priority"


async def test_what_is_not_sent_is_told_once_for_a_session(serve):
    server = await serve("rules: [{reply: {text: it}}]")
    model = DirectModel("anthropic/claude-opus-5", server.url, "sk-nobody-0123456789", temperature=0.5)

    remarks = [[event async for event in model.stream(SAID, [READ])][-1].remarks for _ in range(2)]

    assert remarks == [("temperature 0.5 is not sent: anthropic/claude-opus-5 takes none",), ()]


def test_an_agents_own_thinking_goes_before_ours():
    body = ANTHROPIC.body(asking("claude-opus-5-5", options={"thinking": {"type": "disabled"}}))

    assert body["thinking"] == {"type": "disabled"} and "output_config" not in body


def test_the_limit_of_a_reply_leaves_the_window_what_is_sent():
    long = [ChatMessage(role="user", content="x" * 640_000)]  # 160,000 tokens, about

    roomy = ANTHROPIC.body(asking("claude-sonnet-4-5", context_tokens=200_000))["max_tokens"]
    tight = ANTHROPIC.body(
        Question("claude-sonnet-4-5", "a", long, (), max_output_tokens=64_000, context_tokens=200_000)
    )["max_tokens"]

    assert roomy == 64_000 and 39_000 < tight <= 40_000
    assert ANTHROPIC.body(asking("claude-opus-9", max_output_tokens=None))["max_tokens"] == 32_000
    assert ANTHROPIC.body(asking("glm-5", max_output_tokens=None))["max_tokens"] == 8_192


# --- what is read -----------------------------------------------------------------------------------------------------


def read(*events: dict, model: str = "claude-opus-5-5") -> list:
    reader = ANTHROPIC.reader(asking(model))
    found = []
    for event in events:
        found += reader.read(json.dumps(event).encode())
    return [*found, reader.completed()]


def block(index: int, start: dict, *deltas: dict) -> list[dict]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def relocated(events: list[dict], index: int) -> list[dict]:
    return [event | {"index": index} for event in events]


def reply(*blocks: list[dict], reason: str = "end_turn", **delta) -> list[dict]:
    return [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
        *(event for each in blocks for event in each),
        {"type": "message_delta", "delta": {"stop_reason": reason, **delta}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]


SEARCHES = block(
    0,
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
    {"type": "input_json_delta", "partial_json": '{"query": '},
    {"type": "input_json_delta", "partial_json": '"muster"}'},
)
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result"}]}
CITED = block(
    2,
    {"type": "text", "text": ""},
    {"type": "text_delta", "text": "It gathers."},
    {"type": "citations_delta", "citation": {"cited_text": "gathers"}},
)
THINKS = block(
    3,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "so"},
    {"type": "signature_delta", "signature": "s"},
)
USES = block(
    4,
    {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
    {"type": "input_json_delta", "partial_json": '{"path": "a"}'},
)


def test_the_providers_own_tools_are_no_calls_of_ours_and_all_goes_back_in_its_order():
    completed = read(*reply(SEARCHES, block(1, FOUND), CITED, THINKS, USES, reason="tool_use"))[-1]

    assert [call.name for call in completed.tool_calls] == ["read"]
    assert list(completed.provider_items.items) == [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "muster"}},
        FOUND,
        {"type": "text", "text": "It gathers.", "citations": [{"cited_text": "gathers"}]},
        {"type": "thinking", "thinking": "so", "signature": "s"},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
    ]


def test_blocks_that_nobody_knows_are_kept_with_all_their_deltas():
    news = block(
        0,
        {"type": "news", "text": "a", "n": 1},
        {"type": "news_delta", "text": "b"},
        {"type": "x", "n": 2, "more": "c"},
    )

    completed = read(*reply(news, CITED))[-1]

    assert completed.provider_items.items[0] == {"type": "news", "text": "ab", "n": 2, "more": "c"}
    assert completed.text == "It gathers."


def test_words_and_calls_alone_are_not_kept_twice():
    said = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "I look."})

    assert (
        read(*reply(said, block(1, {"type": "tool_use", "id": "t", "name": "read", "input": {}})))[-1].provider_items
        is None
    )


def test_a_thought_that_was_cut_off_has_no_signature_and_does_not_go_back():
    cut = block(0, {"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "so"})

    completed = read(*reply(CITED, relocated(cut, 5), reason="max_tokens"))[-1]

    assert completed.finish_reason == "length" and completed.reasoning == "so"
    assert [one["type"] for one in completed.provider_items.items] == ["text"]


def test_a_reply_without_a_stream_is_read_alike():
    blocks = [FOUND, {"type": "thinking", "thinking": "so", "signature": "s"}, {"type": "text", "text": "It is."}]
    whole = {
        "type": "message",
        "content": blocks,
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }

    completed = read(whole)[-1]

    assert (completed.text, completed.reasoning, completed.finish_reason) == ("It is.", "so", "stop")
    assert list(completed.provider_items.items) == blocks
    assert (completed.usage.input_tokens, completed.usage.output_tokens) == (5, 7)


@pytest.mark.parametrize(
    ("reason", "finish"), [("pause_turn", "pause"), ("stop_sequence", "stop"), ("refusal", "refusal")]
)
def test_why_a_reply_ended(reason, finish):
    assert read(*reply(CITED, reason=reason))[-1].finish_reason == finish


def test_a_refusal_says_why():
    completed = read(*reply(reason="refusal", stop_details={"type": "refusal", "explanation": "Not this."}))[-1]

    assert (completed.finish_reason, completed.text) == ("refusal", "Not this.")


def test_an_end_that_is_none_is_an_interrupted_reply():
    failed = read(*reply(reason="cosmic_rays"))[0]

    assert isinstance(failed, Failed) and failed.failure is Failure.UNAVAILABLE
    assert "cosmic_rays" in failed.message


def test_a_reply_that_begins_anew_is_an_interrupted_one():
    begun = {"type": "message_start", "message": {"usage": {}}}

    twice, *_ = read(begun, *reply(CITED))[:1]
    failed = next(one for one in read(*reply(CITED)[:4], begun) if isinstance(one, Failed))

    assert not isinstance(twice, Failed), "before its first word it may"
    assert failed.failure is Failure.UNAVAILABLE and "began anew" in failed.message


def test_thoughts_that_the_provider_left_out_are_told():
    dropped = [{"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}]
    begun = {"type": "message_start", "message": {"usage": {}, "input_transformations": dropped}}

    completed = read(begun, *reply(CITED)[1:])[-1]

    assert completed.remarks == (
        "the provider left out 1 earlier thoughts of the model, which no longer fit what stands before them",
    )
