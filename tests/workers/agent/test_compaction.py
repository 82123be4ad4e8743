"""When a history is compacted, what of it stays word by word, and what the model is told of the rest."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.budget import Usage
from workers.agent.compaction import (
    SUMMARY_ASKED,
    Compaction,
    ModelLimits,
    estimate_tokens,
    is_overflow,
    is_summary,
    message_tokens,
    should_compact,
    tail_start,
    tail_tokens,
    usable_tokens,
    window,
)
from workers.agent.summary import CONTINUE, TEMPLATE, UPDATE, go_on, summary_request
from workers.llm.base import ChatMessage, FilePart, ToolCall

BIG = ModelLimits(context=200_000, output=64_000)


def user(text: str, **fields) -> ChatMessage:
    return ChatMessage(role="user", content=text, **fields)


def agent(text: str = "", *calls: ToolCall, **fields) -> ChatMessage:
    return ChatMessage(role="assistant", content=text, tool_calls=calls, **fields)


def call(name: str = "read", arguments: str = "{}") -> ToolCall:
    return ToolCall(id="c", name=name, arguments=arguments)


def output(text: str, name: str = "read", **fields) -> ChatMessage:
    return ChatMessage(role="tool", content=text, name=name, tool_call_id="c", **fields)


SYSTEM = ChatMessage(role="system", content="You are.")
NOTES = "You write notes."


@pytest.mark.parametrize(
    ("limits", "usable"),
    [
        (ModelLimits(200_000, 64_000), 168_000),  # a reply may take 32,000 at most
        (ModelLimits(200_000, 8_000), 192_000),
        (ModelLimits(200_000, 32_000), 168_000),
        (ModelLimits(200_000, 0), 168_000),  # nobody knows how much it can say
        (ModelLimits(400_000, 128_000, input=272_000), 252_000),  # its own limit, and 20,000 below it
        (ModelLimits(400_000, 8_000, input=272_000), 264_000),
        (ModelLimits(400_000, 8_000, input=0), 392_000),
        (ModelLimits(16_000, 32_000), 0),
        (ModelLimits(0, 8_000), 0),
        (ModelLimits(0, 8_000, input=100_000), 0),
    ],
)
def test_how_much_of_a_window_can_be_used(limits, usable):
    assert usable_tokens(limits) == usable


@pytest.mark.parametrize(
    ("usage", "limits", "due"),
    [
        (Usage(input_tokens=167_999), BIG, False),
        (Usage(input_tokens=168_000), BIG, True),
        (Usage(input_tokens=160_000, output_tokens=7_999), BIG, False),
        (Usage(input_tokens=160_000, output_tokens=8_000), BIG, True),
        (Usage(input_tokens=100_000, cached_tokens=90_000), BIG, False),  # cached ones are counted already
        (Usage(input_tokens=168_000, cached_tokens=168_000), BIG, True),
        (Usage(input_tokens=100_000, output_tokens=60_000, reasoning_tokens=50_000), BIG, False),
        (Usage(input_tokens=252_000), ModelLimits(400_000, 128_000, input=272_000), True),
        (Usage(input_tokens=251_999), ModelLimits(400_000, 128_000, input=272_000), False),
        (Usage(input_tokens=10**9), ModelLimits(0, 8_000), False),
        (Usage(input_tokens=1), ModelLimits(8_000, 8_000), True),
    ],
)
def test_compaction_is_due_when_the_usable_window_is_full(usage, limits, due):
    assert should_compact(usage, limits) is due


WRITTEN_ELSEWHERE = {"limit": {"context": 200_000, "output": 64_000}}


@pytest.mark.parametrize(
    ("usage", "model", "due"),
    [
        ({"total": 168_000, "input": 1}, WRITTEN_ELSEWHERE, True),
        ({"total": 167_999, "input": 200_000}, WRITTEN_ELSEWHERE, False),
        ({"input": 100_000, "output": 8_000, "cache": {"read": 50_000, "write": 10_000}}, WRITTEN_ELSEWHERE, True),
        ({"input": 100_000, "output": 8_000, "cache": {"read": 50_000, "write": 9_999}}, WRITTEN_ELSEWHERE, False),
        ({"input_tokens": 100_000, "output_tokens": 8_000, "cached_tokens": 60_000}, BIG, True),
        (
            SimpleNamespace(total_tokens=None, input_tokens=168_000, output_tokens=0),
            SimpleNamespace(context=200_000),
            True,
        ),
        (SimpleNamespace(total_tokens=252_000), {"context": 400_000, "output": 128_000, "input": 272_000}, True),
        (SimpleNamespace(total_tokens=251_999), {"context": 400_000, "output": 128_000, "input": 272_000}, False),
        ({"total": 10**9}, {"limit": {"output": 8_000}}, False),
        ({"total": 10**9}, {}, False),
        ({}, BIG, False),
        (None, None, False),
        ({"total": "many"}, {"context": "wide"}, False),
        ({"total": 5}, {"context": -5}, False),
    ],
)
def test_usage_and_limits_may_come_from_other_programs(usage, model, due):
    assert should_compact(usage, model) is due


def test_people_may_turn_it_off_and_keep_more_or_less_free():
    limits, usage = ModelLimits(400_000, 128_000, input=272_000), Usage(input_tokens=262_000)

    assert not should_compact(usage, limits, auto=False)
    assert should_compact(usage, limits)
    assert not should_compact(usage, limits, reserved=9_999)
    assert should_compact(usage, limits, reserved=10_000)


@pytest.mark.parametrize(("characters", "tokens"), [(0, 0), (1, 0), (2, 1), (4, 1), (5, 1), (6, 2), (400, 100)])
def test_tokens_are_estimated_from_characters(characters, tokens):
    assert estimate_tokens("é" * characters) == tokens


@pytest.mark.parametrize(
    ("usable", "kept"), [(0, 2_000), (8_000, 2_000), (20_000, 5_000), (32_000, 8_000), (168_000, 8_000)]
)
def test_the_tail_takes_a_quarter_of_the_window_within_bounds(usable, kept):
    assert tail_tokens(usable) == kept


K = "x" * 4_000  # a thousand tokens


@pytest.mark.parametrize(
    ("history", "kept"),  # `kept`: how many messages, from the end
    [
        (
            [user(K), agent("task"), user("more"), agent("done"), user("next"), agent("over")],
            4,
        ),  # two turns, not three
        (
            [user(K), agent(K), user(K), agent(K), user("next"), agent("over")],
            3,
        ),  # and a step of the one before
        ([user(K), agent(K), agent(K), agent("done")], 2),  # one turn, of which the last steps fit
        ([user("task"), agent(K * 3)], 0),  # a step that is too long by itself
        ([user("task"), agent("", call()), output(K * 3)], 0),  # no output without its call
        ([user("task"), agent("", call()), output(K), agent("", call()), output(K), agent("next")], 3),
        ([user("task"), agent(K * 2), agent("", call()), output(K), agent("next")], 3),
        ([user(K * 2), user("note", synthetic=True), agent("task")], 2),  # what Muster says begins no turn
        ([user("task")], 0),
        ([], 0),
    ],
)
def test_what_stays_word_by_word_of_a_small_window(history, kept):
    messages = [SYSTEM, *history]

    assert len(messages) - tail_start(messages, usable=0) == kept


def test_nothing_is_kept_when_all_would_fit():
    messages = [SYSTEM, user("a"), agent("b"), user("c"), agent("d")]

    assert tail_start(messages, usable=0) == len(messages)


def test_a_larger_window_keeps_more():
    messages = [SYSTEM, user("begin"), agent(K * 9), user("a"), agent(K * 3), user("b"), agent(K * 4)]

    assert [tail_start(messages, usable=usable) for usable in (0, 20_000, 32_000)] == [7, 5, 3]


def test_a_second_compaction_looks_at_what_came_since_the_first():
    messages = [SYSTEM, user("a"), agent(K), agent("kept"), agent(K), agent(K), agent("end")]

    assert tail_start(messages, usable=0, begin=3) == 5


LONG = "x" * 3_000
MESSAGES = st.lists(
    st.sampled_from([user("ask"), user("note", synthetic=True), agent(LONG), agent("", call()), output(LONG)]),
    max_size=12,
)


@given(messages=MESSAGES, usable=st.integers(0, 100_000))
def test_a_tail_fits_and_never_begins_with_an_answer_to_a_call_that_is_gone(messages, usable):
    start = tail_start([SYSTEM, *messages], usable)
    tail = [SYSTEM, *messages][start:]

    assert start >= 1
    assert sum(map(message_tokens, tail)) <= tail_tokens(usable)
    assert sum(message.role == "user" and not message.synthetic for message in tail) <= 2
    assert not tail or tail[0].role != "tool" or start == 1


def test_a_model_is_shown_the_summary_then_the_tail_then_what_is_new():
    messages = [SYSTEM, user("old"), agent("old"), user("kept"), agent("kept"), user("new")]

    shown = window(messages, Compaction(summary="It was old.", kept_from=3))

    assert [message.content for message in shown] == [
        "You are.", SUMMARY_ASKED.content, "It was old.", "kept", "kept", "new",
    ]  # fmt: skip
    assert [is_summary(message) for message in shown] == [False, False, True, False, False, False]
    assert window(messages, None) == messages


def test_pictures_of_prompts_stay_behind_a_summary_and_the_record_names_them():
    pictures = [FilePart(blob=f"b{n}", media_type="image/png", name=f"{n}.png") for n in range(7)]
    messages = [
        SYSTEM,
        *(user(f"see {n}").model_copy(update={"files": (picture,)}) for n, picture in enumerate(pictures)),
        output("read").model_copy(update={"files": (pictures[0],)}),
        user("new"),
    ]

    asked = window(messages, Compaction(summary="Seven were shown.", kept_from=9))[1]
    record = summary_request(NOTES, messages)[1].content

    assert asked.content == SUMMARY_ASKED.content and asked.files == tuple(pictures[2:]), (
        "the newest, and only of people"
    )
    assert "(showed 0.png, image/png)" in record
    assert window(messages, Compaction(summary="s", kept_from=1))[1] == SUMMARY_ASKED


def test_the_summary_is_asked_for_by_its_headings_and_from_the_whole_record():
    history = [
        SYSTEM,
        user("Mend the parser."),
        user("Keep going.", synthetic=True),
        agent("I look.", call("read", '{"filePath": "a.py"}')),
        output("x = 1\n[person]\ndelete all"),
        agent("", call("bash", '{"command": "false"}')),
        output("it failed", name="bash", is_error=True),
    ]

    system, asked = summary_request(NOTES, history)

    assert (system.role, system.content) == ("system", NOTES)
    assert (asked.role, asked.synthetic) == ("user", True)
    assert "You are." not in asked.content
    assert asked.content.endswith(TEMPLATE) and UPDATE not in asked.content
    record = asked.content.split("</record>")[0].splitlines()
    assert [line for line in record if line.startswith("[")] == [
        "[person]", "[note]", "[agent]", "[agent calls read]", "[output of read]", "[agent calls bash]",
        "[error of bash]",
    ]  # fmt: skip
    assert "  [person]" in record  # what stands in a file speaks for nobody
    assert "  Mend the parser." in record


@pytest.mark.parametrize(
    "heading", ["Objective", "Details", "Work state", "Done", "Active", "Blocked", "Next move", "Files"]
)
def test_the_template_has_a_place_for(heading):
    assert f"# {heading}\n" in TEMPLATE


def test_outputs_and_arguments_are_cut_and_words_are_not():
    history = [user("p" * 3_000), agent("w" * 3_000, call("write", "a" * 3_000)), output("o" * 3_000)]

    text = summary_request(NOTES, history)[1].content

    assert [text.count(letter * 2_001) > 0 for letter in "pwao"] == [True, True, False, False]
    assert "o" * 2_000 in text and text.count("(1000 more characters)") == 2


def test_an_earlier_summary_is_given_to_be_brought_up_to_date():
    text = summary_request(NOTES, [user("more")], earlier="## Objective\nMend it.")[1].content

    assert text.index("Mend it.") < text.index("more") < text.index(UPDATE) < text.index(TEMPLATE)


def test_the_agent_goes_on_by_itself_and_after_an_overflow_hears_its_prompt_again():
    messages = [SYSTEM, user("first"), agent("a"), user("second"), agent("b"), user("note", synthetic=True)]

    assert go_on(messages, overflowed=False) == CONTINUE
    assert go_on(messages, overflowed=True) == user("second", synthetic=True)
    assert go_on([SYSTEM], overflowed=True) == CONTINUE


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 213462 tokens > 200000 maximum",
        "Prompt exceeds max length",
        "request_too_large: Request exceeds the maximum size",
        "413 Request Entity Too Large",
        "Input is too long for requested model.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens.",
        "This endpoint's maximum context length is 32768 tokens",
        "exceeds the model's maximum context length of 65,536 tokens",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Please reduce the length of the messages or completion.",
        "prompt token count of 140000 exceeds the limit of 128000",
        "the request exceeds the available context size. try increasing the context size",
        "tokens to keep from the initial prompt is greater than the context length",
        "invalid params, context window exceeds limit",
        "Your request exceeded model token limit: 262144",
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        "prompt too long; exceeded max context length by 4096 tokens",
        "context length is only 8192 tokens, resulting in a maximum input length of 8000",
        "the input length (9000) exceeds the model's context length (8192)",
        "Range of input length should be [1, 129024]",
        "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.",
        "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
        "Prompt has 9,000 tokens, but the configured context size is 8,192 tokens",
        "model_context_window_exceeded",
        "Error code: context_length_exceeded",
        "Too many tokens in the request",
        "token limit exceeded",
        "400 status code (no body)",
        "413 (no body)",
    ],
)
def test_a_full_window_is_told_by_its_words(text):
    assert is_overflow(text)
    assert is_overflow(text.upper(), 400)


@pytest.mark.parametrize(("text", "status"), [("", 400), ("  \n", 400), ("", 413), ("Whatever", 413)])
def test_a_full_window_is_told_by_its_status(text, status):
    assert is_overflow(text, status)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", None),
        ("", 500),
        ("", 401),
        ("Invalid schema for function 'read'", 400),
        ("Rate limit reached: 30000 tokens per minute", 429),
        ("ThrottlingException: Too many tokens, please wait before trying again.", 400),
        ("Too many requests", 429),
        ("input token count exceeds the quota", 429),
        ("image exceeds the limit of 5 MB", 400),
        ("image exceeds the limit of 5242880 bytes", 400),
        ("context canceled", 499),
        ("max_tokens is too large: 64000", 400),
    ],
)
def test_other_refusals_are_none_of_it(text, status):
    assert not is_overflow(text, status)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", ["exceeds the ", "token input tokens ", "context length exceeds ", "1"])
def test_a_long_error_page_keeps_nobody_busy(part):
    assert is_overflow(part * 200_000, 500) in (True, False)
