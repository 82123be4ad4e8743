"""The pure parts of the loop, as tables."""

from __future__ import annotations

import pytest

from envelope.budget import Budget
from workers.agent.calls import Answered
from workers.agent.history import INTERRUPTED, final_text, reopen_session, resumed, say, with_prompts
from workers.agent.repeats import circling
from workers.agent.session import Session
from workers.agents.registry import builtin
from workers.llm.base import ChatMessage, ToolCall
from workers.tools.base import Delegated, ToolResult


def turns(spelled: str) -> list[ChatMessage]:
    """`ab c`: a turn with two calls, then a turn with one; a letter is a call's input."""
    return [
        ChatMessage(
            role="assistant",
            tool_calls=tuple(ToolCall(id=x, name="t", arguments=x, input={"x": x, "y": 1}) for x in word),
        )
        for word in spelled.split()
    ]


@pytest.mark.parametrize(
    ("spelled", "circles"),
    [
        ("a", False),
        ("a a", False),
        ("a a a", True),
        ("aaa", True),
        ("b a a a", True),
        ("a a b a", False),
        ("a b a b a", False),
        ("a b a b a b", True),
        ("ab ab ab", True),
        ("a t b t c t d t", False),  # tests are run after every edit
        ("a b c a b c a b c", False),
    ],
)
def test_circles_are_told_from_work(spelled, circles):
    assert (circling(turns(spelled)) is not None) is circles


@pytest.mark.parametrize(
    ("results", "circles"),
    [
        ("1 1 1", True),
        ("1 2 3", False),  # a poll that shows progress
        ("1 1 2", False),
        ("1 2 2", False),
        ("1 1", True),  # the last is still to come
        ("1 2", False),
        ("5 1 1 1", True),
    ],
)
def test_calls_whose_results_differ_are_no_circle(results, circles):
    told: list[ChatMessage] = []
    for number, result in enumerate([*results.split(), None][: max(3, len(results.split()))]):
        call = ToolCall(id=f"c{number}", name="t", arguments="{}", input={})
        told.append(ChatMessage(role="assistant", tool_calls=(call,)))
        output = f"(up to 1 MiB of the output is in /tmp/tool-output/c{number}.txt)\n{result}"
        told += [ChatMessage(role="tool", tool_call_id=f"c{number}", name="t", content=output)] if result else []

    assert (circling(told) is not None) is circles


def test_two_calls_that_take_turns_are_a_circle_while_both_give_the_same():
    def told(last: str) -> list[ChatMessage]:
        found: list[ChatMessage] = []
        for number, word in enumerate("ababab"):
            call = ToolCall(id=f"c{number}", name="t", arguments=word, input={"x": word})
            result = ChatMessage(role="tool", tool_call_id=call.id, name="t", content=last if number == 4 else word)
            found += [ChatMessage(role="assistant", tool_calls=(call,)), result]
        return found

    assert circling(told("a")) is not None
    assert circling(told("new")) is None


def test_the_order_of_the_arguments_makes_no_difference():
    inputs = [{"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": 1, "y": 2}]
    calls = [ToolCall(id=str(n), name="t", arguments="…", input=value) for n, value in enumerate(inputs)]

    assert circling([ChatMessage(role="assistant", tool_calls=(call,)) for call in calls]) is not None


def test_an_open_turn_that_nobody_finishes_is_answered_before_the_next_word():
    calls = tuple(ToolCall(id=name, name="task", arguments="{}", input={}) for name in ("a", "b"))
    asked = ChatMessage(role="assistant", tool_calls=calls)
    answers = (Answered(calls[0], Delegated("child")), Answered(calls[1], ToolResult("found it")))
    stopped = Session(agent="build", model="m", messages=(asked,), open_turn=answers)

    session = reopen_session(stopped, builtin()["build"], model="m", prompt="Go on.", budget=Budget())

    told = [(message.role, message.tool_call_id, message.content) for message in session.messages[1:]]
    assert told == [("tool", "a", INTERRUPTED), ("tool", "b", "found it"), ("user", "", "Go on.")]
    assert session.open_turn == ()


def test_a_call_that_was_under_way_is_answered_though_an_earlier_one_had_its_id():
    """Some servers number the calls of each reply anew."""
    call = ToolCall(id="call_0", name="t", arguments="{}", input={})
    asks = ChatMessage(role="assistant", tool_calls=(call,))
    answer = ChatMessage(role="tool", tool_call_id="call_0", name="t", content="done")

    mended = resumed(Session(agent="a", model="m", messages=(asks, answer, asks)))

    assert [one.content for one in mended.messages] == ["", "done", "", INTERRUPTED]
    assert resumed(mended) == mended


def test_the_answer_to_an_earlier_prompt_is_none_to_a_later_one(kit):
    answered = say(kit.opened(), "so")
    answered = answered.model_copy(
        update={"messages": (*answered.messages, ChatMessage(role="assistant", content="It is a border."))}
    )

    assert final_text(answered) == "It is a border."
    assert final_text(with_prompts(answered, ["And the park?"])) == ""
