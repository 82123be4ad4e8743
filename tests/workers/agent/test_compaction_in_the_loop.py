"""Compaction as a step of the loop, against a real model server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envelope.budget import Budget
from envelope.errors import ErrorCode
from workers.agent.compacting import compaction_requested, only_compacted
from workers.agent.compaction import SUMMARY_ASKED, ModelLimits
from workers.agent.history import reopen_session, with_prompts
from workers.agent.policy import WindowPolicy
from workers.agent.pruning import CLEARED
from workers.agent.session import Due, Session
from workers.agent.summary import CONTINUE
from workers.llm.base import ChatMessage, ToolCall

SMALL = WindowPolicy(ModelLimits(context=16_000, output=8_000))  # 8,000 can be used, of which 2,000 stay word by word
NOTES = "{when: {system_contains: You write the notes}, reply: {text: Two words were looked up.}}"
# 2,250 tokens, and no two pieces alike: litellm takes those for a model that is stuck
LONG = "Words " + " ".join(str(number) for number in range(10_000, 11_500))
FULL = "usage: {input_tokens: 8000, output_tokens: 10}"

LOOKS_UP = f"""
rules:
  - {NOTES}
  - {{when: {{user_contains: Go on with}}, reply: {{text: "Done, from the notes."}}}}
  - {{when: {{turn: 1}}, reply: {{text: Looking., tool_calls: [{{name: lookup, arguments: {{word: muster}}}}]}}}}
  - when: {{turn: 2}}
    reply: {{text: {LONG}, tool_calls: [{{name: lookup, arguments: {{word: fence}}}}], {FULL}}}
"""


def spelled(messages: list[dict]) -> list[str]:
    """A request as `role: the beginning of what it says`."""
    return [
        f"{m['role']}: {(m['content'] or '')[:24]}" + "".join(f" +{c['function']['name']}" for c in calls_in(m))
        for m in messages
    ]


def calls_in(message: dict) -> list[dict]:
    return message.get("tool_calls") or []


def server_overflow(times: int = 1) -> str:
    return f"{{times: {times}, fault: {{status: 400, message: 'prompt is too long: 9 tokens > 8 maximum'}}}}"


async def test_compaction_in_the_middle(kit, serve):
    server = await serve(LOOKS_UP)
    bench = kit.Bench(server.base_url, policy=SMALL)

    session = await bench.run(kit.opened())

    assert (session.outcome.text, session.turn, session.due) == ("Done, from the notes.", 4, None)
    assert [spelled(body["messages"]) for body in server.log.bodies] == [
        ["system: You look up.", "user: What is it?"],
        ["system: You look up.", "user: What is it?", "assistant: Looking. +lookup", "tool: to gather"],
        ["system: You write the notes that", "user: <record>\n[person]\n  What"],
        [
            "system: You look up.",
            "user: What has happened so far",
            "assistant: Two words were looked up",
            f"user: {CONTINUE.content[:24]}",
        ],
    ]
    assert [f"{m.role}{'*' if m.synthetic else ''}: {m.content[:24]}" for m in session.messages] == [
        "system: You look up.",
        "user: What is it?",
        "assistant: Looking.",
        "tool: to gather",
        f"assistant: {LONG[:24]}",
        "tool: a border",
        f"user*: {CONTINUE.content[:24]}",
        "assistant: Done, from the notes.",
    ]
    assert session.compaction.summary == "Two words were looked up."
    record = server.log.bodies[2]["messages"][1]["content"]
    assert "a border" in record and LONG in record
    assert server.log.bodies[2].get("tools") is None


async def test_what_is_newest_stays_word_by_word(kit, serve):
    small_reply = LOOKS_UP.replace(LONG, "Further.").replace("Looking.", LONG)
    server = await serve(small_reply)

    await kit.Bench(server.base_url, policy=SMALL).run(kit.opened())

    assert spelled(server.log.bodies[3]["messages"])[1:] == [
        "user: What has happened so far",
        "assistant: Two words were looked up",
        "assistant: Further. +lookup",
        "tool: a border",
        f"user: {CONTINUE.content[:24]}",
    ]


async def test_watchers_see_what_a_compaction_gained_and_what_it_cost(kit, serve):
    server = await serve(LOOKS_UP)
    bench = kit.Bench(server.base_url, policy=SMALL)

    session = await bench.run(kit.opened())

    (told,) = bench.told("compaction")
    assert told.tokens_before > 2_000 > 200 > told.tokens_after > 0
    assert len(bench.told("turn_finished")) == session.turn == 4
    assert session.cost_microusd == sum(event.cost_microusd for event in bench.told("turn_finished")) > 0
    assert "Two words" not in "".join(event.text for event in bench.told("text"))


def without_times(session):
    return [message.model_copy(update={"finish": None}) for message in session.messages]


async def test_a_compaction_that_was_interrupted_is_done_by_whoever_resumes(kit, serve):
    server = await serve(LOOKS_UP)
    bench = kit.Bench(server.base_url, policy=SMALL)
    whole = await bench.run(kit.opened())
    before = Session.load(bench.saved[1])
    assert before.due is Due.FULL and before.compaction is None

    resumed = await kit.Bench(server.base_url, policy=SMALL).run(before)

    assert without_times(resumed) == without_times(whole) and resumed.compaction == whole.compaction
    assert server.log.requests == 4 + 2


async def test_a_window_that_nobody_knows_is_never_full(kit, serve):
    server = await serve(LOOKS_UP.replace("8000,", "900000000,") + "  - {reply: {text: Done.}}\n")

    session = await kit.Bench(server.base_url).run(kit.opened())

    assert (session.outcome.text, session.compaction) == ("Done.", None)


@pytest.mark.parametrize("policy", [replace(SMALL, auto=False), replace(SMALL, limits=ModelLimits(90_000, 8_000))])
async def test_nothing_is_compacted_that_need_not_be(kit, serve, policy):
    server = await serve(LOOKS_UP + "  - {reply: {text: Done.}}\n")

    session = await kit.Bench(server.base_url, policy=policy).run(kit.opened())

    assert (session.outcome.text, session.compaction) == ("Done.", None)


async def test_a_window_too_small_for_anything_is_not_compacted_after_every_reply(kit, serve):
    looks_up = f"reply: {{text: {LONG}, tool_calls: [{{name: lookup, arguments: {{word: park}}}}], {FULL}}}"
    server = await serve(f"rules: [{NOTES}, {{{looks_up}}}]")
    bench = kit.Bench(server.base_url, policy=SMALL)

    await bench.run(kit.opened())  # until the guard finds that it goes round in circles

    kinds = [kind for kind in bench.kinds() if kind in ("turn_finished", "compaction")]
    assert kinds == [*["turn_finished"] * 2, "compaction", *["turn_finished"] * 3, "compaction", *["turn_finished"] * 3]


async def test_an_overflow_in_the_first_call_is_compacted_and_the_prompt_said_again(kit, serve):
    server = await serve(f"rules: [{NOTES}, {{when: {{turn: 1}}, {server_overflow()[1:]}, {{reply: {{text: Done.}}}}]")
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened())

    assert session.outcome.text == "Done."
    assert spelled(server.log.bodies[2]["messages"]) == [
        "system: You look up.",
        "user: What has happened so far",
        "assistant: Two words were looked up",
        "user: What is it?",
    ]
    assert session.messages[2].synthetic and bench.told("message")[0].text == "What is it?"


async def test_a_second_overflow_in_a_row_ends_as_an_error(kit, serve):
    server = await serve(f"rules: [{NOTES}, {server_overflow(9)}]")
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened())

    assert session.outcome.error is ErrorCode.MODEL_FAILED
    assert "even after a compaction" in session.outcome.detail and "larger window" in session.outcome.hint
    assert server.log.requests == 3


async def test_a_history_too_long_to_be_summarised_ends_as_an_error(kit, serve):
    server = await serve(f"rules: [{server_overflow(9)}]")

    session = await kit.Bench(server.base_url).run(kit.opened())

    assert session.outcome.error is ErrorCode.MODEL_FAILED and "not even to be summarised" in session.outcome.detail
    assert server.log.requests == 2


async def test_an_overflow_is_an_error_where_compaction_is_turned_off(kit, serve):
    server = await serve(f"rules: [{server_overflow(9)}]")

    session = await kit.Bench(server.base_url, policy=WindowPolicy(auto=False)).run(kit.opened())

    assert session.outcome.error is ErrorCode.MODEL_FAILED
    assert server.log.requests == 1


NO_SUMMARIES = [
    "reply: {text: ' '}",
    "reply: {tool_calls: [{name: lookup, arguments: {word: x}}]}",
    "reply: {text: Let me look., tool_calls: [{name: lookup, arguments: {word: x}}]}",
    "reply: {text: No., finish_reason: refusal}",
    "fault: {status: 400, message: no such parameter}",
    "fault: {status: 400, message: 'prompt is too long: 9 tokens > 8 maximum'}",
]


def without_summary(rule: str, others: str) -> str:
    return f"rules: [{{when: {{system_contains: You write the notes}}, {rule}}}, {others}]"


@pytest.mark.parametrize("rule", NO_SUMMARIES)
async def test_a_summary_that_fails_is_told_and_the_session_goes_on_with_its_whole_history(kit, serve, rule):
    server = await serve(without_summary(rule, "{reply: {text: The answer.}}"))
    bench = kit.Bench(server.base_url)
    bench.said.append("/compact")

    session = await bench.run(kit.opened())

    assert (session.outcome.text, session.outcome.error, session.compaction) == ("The answer.", None, None)
    [told] = bench.told("warning")
    assert told.code == "compaction_failed" and "was not summarised, and stays as it is" in told.message
    assert server.log.requests == 2  # and not again
    assert reopen_session(session, kit.AGENT, model="m", prompt="x", budget=Budget()).due is None


@pytest.mark.parametrize("rule", NO_SUMMARIES)
async def test_a_session_that_was_opened_for_a_summary_alone_fails_with_it_and_takes_the_next_prompt(kit, serve, rule):
    server = await serve(without_summary(rule, "{reply: {text: The answer.}}"))
    bench = kit.Bench(server.base_url)
    ended = await bench.run(kit.opened())
    opened = reopen_session(ended, kit.AGENT, model=ended.model, prompt="", budget=Budget())

    session = await bench.run(only_compacted(opened))

    assert session.outcome.error is ErrorCode.MODEL_FAILED and "could not be summarised" in session.outcome.detail
    again = await bench.run(reopen_session(session, kit.AGENT, model=ended.model, prompt="And?", budget=Budget()))
    assert (again.outcome.text, server.log.requests) == ("The answer.", 3)


@pytest.mark.parametrize("text", ["' '", "Once more."])
async def test_a_full_window_that_no_summary_empties_is_not_summarised_without_end(kit, serve, text):
    calls = f"text: {text}, tool_calls: [{{name: lookup, arguments: {{word: x}}}}]"
    turns = [
        f"{{when: {{turn: {n}}}, reply: {{{calls.replace('word: x', f'word: w{n}')}, {FULL}}}}}" for n in range(1, 9)
    ]
    server = await serve(without_summary(f"reply: {{{calls}}}", ", ".join(turns) + ", {reply: {text: Done.}}"))
    bench = kit.Bench(server.base_url, policy=SMALL)

    session = await bench.run(kit.opened())

    assert session.outcome.text.endswith("Done.") and session.compaction is None
    assert [warning.code for warning in bench.told("warning")] == ["compaction_failed"] * 3
    assert server.log.requests == 9 + 3


async def test_a_provider_that_is_not_there_for_a_summary_ends_the_session_and_it_can_be_opened_again(kit, serve):
    server = await serve(LOOKS_UP.replace("reply: {text: Two words were looked up.}", "fault: {status: 401}", 1))

    session = await kit.Bench(server.base_url, policy=SMALL).run(kit.opened())

    assert "could not be summarised" in session.outcome.detail and session.outcome.error is not None
    assert reopen_session(session, kit.AGENT, model="m", prompt="x", budget=Budget()).due is None


async def test_an_overflow_without_a_summary_ends_the_session_and_the_next_prompt_is_tried(kit, serve):
    rules = f"{{when: {{user_contains: What is it}}, {server_overflow(1)[1:]}, {{reply: {{text: The answer.}}}}"
    server = await serve(without_summary("reply: {text: ' '}", rules))
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened())

    assert session.outcome.error is ErrorCode.MODEL_FAILED and "gave no summary" in session.outcome.detail
    again = await bench.run(reopen_session(session, kit.AGENT, model=session.model, prompt="And?", budget=Budget()))
    assert (again.outcome.text, again.due) == ("The answer.", None)


async def test_an_answer_in_the_last_turn_outlives_a_compaction_that_nothing_pays_for(kit, serve):
    server = await serve(f"rules: [{NOTES}, {{reply: {{text: The answer.}}}}]")
    bench = kit.Bench(server.base_url)
    ended = await bench.run(kit.opened(max_turns=2))
    bench.said.append("/compact")

    session = await bench.run(ended.model_copy(update={"turn": 2}))

    assert (session.outcome.text, session.outcome.error, session.due) == ("The answer.", None, None)
    assert bench.told("warning")[0].code == "compaction_failed"


async def test_a_session_is_compacted_when_a_person_asks_and_keeps_its_answer(kit, serve):
    server = await serve(f"rules: [{NOTES}, {{reply: {{text: The answer.}}}}]")
    bench = kit.Bench(server.base_url)
    ended = await bench.run(kit.opened())
    bench.said.append(" /compact\n")

    session = await bench.run(ended)

    assert (session.outcome.text, session.compaction.summary) == ("The answer.", "Two words were looked up.")
    assert len(session.messages) == len(ended.messages)
    assert server.log.requests == 2
    assert await bench.run(only_compacted(session)) == session.model_copy(update={"due": None})  # nothing new in it
    assert server.log.requests == 2


async def test_a_request_to_compact_comes_before_the_next_turn(kit, serve):
    server = await serve(f"rules: [{NOTES}, {{reply: {{text: The answer.}}}}]")
    bench = kit.Bench(server.base_url)
    under_way = with_prompts(await bench.run(kit.opened()), ["And why?"])

    session = await bench.run(compaction_requested(under_way))

    assert spelled(server.log.bodies[2]["messages"])[1:] == [
        "user: What has happened so far",
        "assistant: Two words were looked up",
        "user: And why?",
    ]
    assert session.outcome.text == "The answer."


async def test_the_last_turn_is_for_closing_words_and_not_for_a_compaction(kit, serve):
    server = await serve(LOOKS_UP.replace("Go on with", "last turn"))

    session = await kit.Bench(server.base_url, policy=SMALL).run(kit.opened(max_turns=3))

    assert session.outcome.error is ErrorCode.TURN_LIMIT
    assert (session.outcome.text, session.compaction) == ("Done, from the notes.", None)


@pytest.mark.rewrites_history
async def test_old_outputs_are_cleared_where_that_is_wanted(kit, serve):
    server = await serve("rules: [{reply: {text: Done.}}]")
    long = "o" * 4 * 30_000
    call = ToolCall(id="c", name="lookup", arguments="{}", input={})
    asked = ChatMessage(role="assistant", tool_calls=(call,))
    old = [asked, ChatMessage(role="tool", tool_call_id="c", name="lookup", content=long)] * 3
    session = kit.opened()
    session = session.model_copy(update={"messages": (*session.messages, *old)})
    session = with_prompts(session, ["second"])
    kept = await kit.Bench(server.base_url).run(with_prompts(session, ["third"]))
    bench = kit.Bench(server.base_url, policy=WindowPolicy(prunes=True))

    cleared = await bench.run(with_prompts(session, ["third"]))

    sent = [[m["content"] for m in body["messages"] if m["role"] == "tool"] for body in server.log.bodies]
    assert sent == [[long, long, long], [CLEARED, CLEARED, long]]
    assert (kept.cleared, cleared.cleared) == ((), (3, 5))
    assert cleared.messages[:-1] == kept.messages[:-1]  # nothing is lost, only not shown


def test_the_question_before_a_summary_is_no_prompt_of_a_person():
    assert SUMMARY_ASKED.synthetic
