"""What a log line says, before it is rendered: repeats are counted, and a line stays one line. Plain functions on
fields, in the order in which `logs.py` calls them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, MutableMapping
from typing import Any

Fields = MutableMapping[str, Any]

# A store that is away, or a collector, is told of by everybody who misses it: ten lines say as much as ten thousand.
MAX_REPEATS = 10
WINDOW_S = 60.0
MAX_KINDS = 1_000  # of repeats, that are counted at once
REPEATING = frozenset({"warning", "error", "critical"})

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Repeats:
    """Of one warning or error at most `MAX_REPEATS` a minute; the next one says how many were left out.

    The same is what has the same part, event and task. What a task's life consists of is never left out.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._seen: dict[tuple[Any, ...], tuple[float, int]] = {}  # since when, and how many

    def __call__(self, fields: Fields) -> bool:
        """May it be written? Adds `left_out` to the fields where others were not."""
        if fields.get("level") not in REPEATING:
            return True
        what = fields.pop("repeats_of", fields.get("event"))
        key, now_s = (fields.get("part"), what, fields.get("task_id")), self._clock_s()
        since_s, count = self._seen.get(key, (now_s, 0))
        if now_s - since_s >= WINDOW_S:
            if count > MAX_REPEATS:
                fields["left_out"] = count - MAX_REPEATS
            since_s, count = now_s, 0
        if len(self._seen) >= MAX_KINDS and key not in self._seen:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = (since_s, count + 1)
        return count < MAX_REPEATS


def error_in_short(fields: Fields) -> Fields:
    """For people: an exception's kind and words in the line, and no traceback."""
    error = fields.pop("exc_info", None)
    if isinstance(error, BaseException):
        fields.setdefault("error", f"{type(error).__name__}: {error}")
    return fields


def on_one_line(fields: Fields) -> Fields:
    """What others have said cannot look like another line, nor move a terminal's cursor."""
    return {name: _tame(value) if name != "exception" else value for name, value in fields.items()}


def _tame(value: Any) -> Any:
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], value) if isinstance(value, str) else value
