"""The pure parts of the loop, as tables."""

from __future__ import annotations

import pytest

from workers.agent.repeats import circling
from workers.llm.base import ChatMessage, ToolCall


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


def test_the_order_of_the_arguments_makes_no_difference():
    inputs = [{"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": 1, "y": 2}]
    calls = [ToolCall(id=str(n), name="t", arguments="…", input=value) for n, value in enumerate(inputs)]

    assert circling([ChatMessage(role="assistant", tool_calls=(call,)) for call in calls]) is not None
