"""Bounds of what a caller may pass, the same for every implementation: a value out of them fails its caller alone.

Scripts are not rolled back, and many tasks' writes share one: what is checked here can fail no neighbour's write.
"""

from __future__ import annotations

import json
import math

from envelope.messages import MAX_DEADLINE_MS

from .base import Allotment, Wait
from .errors import Refused

# A million dollars: far beyond any budget, far below what a double holds exactly.
MAX_AMOUNT_MICROUSD = 10**12
# A reason is one line in a record, in an event and in every descendant's result. As it is stored, like all words here.
MAX_REASON_BYTES = 1_000
# A prompt or an answer that is longer belongs into a blob.
MAX_WORDS_BYTES = 256 * 1024
# An inbox is read whole at each checkpoint, and kept by the server for as long as its task waits for a worker.
MAX_PROMPTS = 100
MAX_INBOX_BYTES = 1024 * 1024
# Of a tenant's weight: beyond this one start would be no step in virtual time, or a step that nobody waits for.
WEIGHTS = (0.001, 1_000.0)
MAX_RUNNING = 1_000_000
# In line, or in one tree: no server holds so many.
MAX_TASKS = 1_000_000_000
# What one script accepts, or puts on one waiting list, without holding the server for a second.
MAX_REQUESTS = 10_000
MAX_REQUESTS_BYTES = 64 * 1024 * 1024


def amount(field: str, value: int) -> int:
    if not _is_whole(value) or not 0 <= value <= MAX_AMOUNT_MICROUSD:
        raise Refused(field, f"{value!r} is no amount from 0 to {MAX_AMOUNT_MICROUSD}")
    return value


def cap(value: int | None) -> int | None:
    return None if value is None else amount("cap_microusd", value)


def count(field: str, value: int, most: int = MAX_RUNNING) -> int:
    if not _is_whole(value) or not 0 <= value <= most:
        raise Refused(field, f"{value!r} is no number from 0 to {most}")
    return value


def delay(field: str, value_ms: int) -> int:
    if not _is_whole(value_ms) or not 0 <= value_ms <= MAX_DEADLINE_MS:
        raise Refused(field, f"{value_ms!r} is no time from 0 to {MAX_DEADLINE_MS} ms")
    return value_ms


def reason(text: str) -> str:
    """Cut where it is too long: why a task ends must not keep it from ending."""
    clean = text[: MAX_REASON_BYTES + 1].encode(errors="replace").decode()
    if stored_bytes(clean) <= MAX_REASON_BYTES:
        return clean
    room = MAX_REASON_BYTES - stored_bytes("…")
    for at, char in enumerate(clean):
        room -= stored_bytes(char) - stored_bytes("")
        if room < 0:
            return clean[:at] + "…"
    return clean


def words(field: str, text: str) -> str:
    clean = text.encode(errors="replace").decode()
    if (size := stored_bytes(clean)) > MAX_WORDS_BYTES:
        raise Refused(field, f"{size} bytes are over the limit of {MAX_WORDS_BYTES}", hint="say it shorter")
    return clean


def stored_bytes(text: str) -> int:
    """What a text takes as the scripts store it, which is JSON: up to six bytes for a character.

    >>> [stored_bytes(text) for text in ("", "ab", "\x01", "é", "/", "\x7f")]
    [2, 4, 8, 4, 4, 8]
    """
    json_bytes = len(json.dumps(text, ensure_ascii=False).encode(errors="replace"))
    return json_bytes + text.count("/") + 5 * text.count("\x7f")  # which the server's JSON writes as `\/` and `\u007f`


def blob(field: str, ref: str) -> str:
    if not isinstance(ref, str) or not ref.isascii() or len(ref) > MAX_REASON_BYTES:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Refused(field, "that is no name of a blob")
    return ref


def wait(value: Wait) -> Wait:
    if len(value.children) + len(value.asks) > MAX_REQUESTS:
        raise Refused("wait", f"nobody waits for more than {MAX_REQUESTS} things")
    if value.until_ms is not None and not (_is_whole(value.until_ms) and 0 <= value.until_ms < 2**53):
        raise Refused("until_ms", f"{value.until_ms!r} is no moment")
    return Wait(value.children, frozenset(words("asks", ask) for ask in value.asks), value.until_ms, value.first)


def allotment(value: Allotment) -> Allotment:
    lowest, highest = WEIGHTS
    if not math.isfinite(value.weight) or not lowest <= value.weight <= highest:
        raise Refused("weight", f"{value.weight!r} is not between {lowest} and {highest}")
    if value.max_running is not None:
        count("max_running", value.max_running)
    for field, most in (("max_queued", value.max_queued), ("max_tree", value.max_tree)):
        if most is not None:
            count(field, most, MAX_TASKS)
    return value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
