"""The repeat guard: does a model go round in circles? Pure; looks at the calls of the whole history.

The same call three times in a row is a circle, and so are two calls that take turns three times. Equal calls with
others between them are not: tests are run again after every edit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice

from ..llm.base import ChatMessage, ToolCall

ROUNDS = 3  # as in OpenCode; twice happens to honest models (a file read again after a failed edit)
PERIODS = (1, 2)  # longer circles look the same as work

WARNING = (
    f"You made the same call {ROUNDS} times with the same input; it will not tell you anything new. Try something"
    " else, or say what stops you. One more repetition ends this task."
)


def circling(messages: Sequence[ChatMessage]) -> ToolCall | None:
    """The call that closed a circle, when the latest calls form one.

    >>> again = ChatMessage(role="assistant", tool_calls=(ToolCall(id="1", name="read", arguments="{}", input={}),))
    >>> circling([again, again]), circling([again, again, again]).name
    (None, 'read')
    """
    latest = [*islice(_backwards(messages), ROUNDS * max(PERIODS))]
    found = any(_periodic(latest[: period * ROUNDS], period) for period in PERIODS)
    return latest[0] if found else None


def _backwards(messages: Sequence[ChatMessage]) -> Iterator[ToolCall]:
    return (call for message in reversed(messages) for call in reversed(message.tool_calls))


def _periodic(calls: Sequence[ToolCall], period: int) -> bool:
    pairs = zip(calls[period:], calls, strict=False)
    return len(calls) == period * ROUNDS and all(_same(later, earlier) for later, earlier in pairs)


def _same(one: ToolCall, other: ToolCall) -> bool:
    """Nearly all calls differ at first sight; what Python holds for equal (1 and true) need not be it."""
    return one.name == other.name and one.input == other.input and _written(one) == _written(other)


def _written(call: ToolCall) -> str:
    return call.arguments if call.input is None else json.dumps(call.input, sort_keys=True)
