"""The repeat guard: does a model go round in circles? Pure; looks at the calls of the whole history.

The same call three times in a row with the same result is a circle, and so are two calls that take turns three times.
Equal calls with others between them are not: tests are run again after every edit. Nor are calls whose results differ:
who looks at something that goes on sees it go on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from ..llm.base import ChatMessage, ToolCall
from ..tools.spill import SPILL_FOLDER

ROUNDS = 3  # as in OpenCode; twice happens to honest models (a file read again after a failed edit)
PERIODS = (1, 2)  # longer circles look the same as work

WARNING = (
    f"You made the same call {ROUNDS} times with the same input; it will not tell you anything new. Try something"
    " else, or say what stops you. One more repetition ends this task."
)
# The file that a long output is put into is named after its call.
_SPILLED = re.compile(re.escape(SPILL_FOLDER) + r"/[\w-]+")

# A call and what came of it, None while that is still to come.
_Made = tuple[ToolCall, str | None]


def circling(messages: Sequence[ChatMessage]) -> ToolCall | None:
    """The call that closed a circle, when the latest calls form one.

    >>> again = ChatMessage(role="assistant", tool_calls=(ToolCall(id="1", name="read", arguments="{}", input={}),))
    >>> circling([again, again]), circling([again, again, again]).name
    (None, 'read')
    """
    latest = [*islice(_backwards(messages), ROUNDS * max(PERIODS))]
    found = any(_periodic(latest[: period * ROUNDS], period) for period in PERIODS)
    return latest[0][0] if found else None


def _backwards(messages: Sequence[ChatMessage]) -> Iterator[_Made]:
    results: dict[str, str] = {}
    for message in reversed(messages):
        if message.role == "tool":
            results[message.tool_call_id or ""] = _SPILLED.sub("", message.content)
        yield from ((call, results.pop(call.id, None)) for call in reversed(message.tool_calls))


def _periodic(made: Sequence[_Made], period: int) -> bool:
    pairs = zip(made, made[period:], strict=False)
    return len(made) == period * ROUNDS and all(_same(later, earlier) for later, earlier in pairs)


def _same(later: _Made, earlier: _Made) -> bool:
    """Nearly all calls differ at first sight; what Python holds for equal (1 and true) need not be it."""
    (one, result), (other, before) = later, earlier
    same_call = one.name == other.name and one.input == other.input and _written(one) == _written(other)
    return same_call and result in (None, before)


def _written(call: ToolCall) -> str:
    return call.arguments if call.input is None else json.dumps(call.input, sort_keys=True)
