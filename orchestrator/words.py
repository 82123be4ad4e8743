"""What the queue and models say, as people read it. Pure."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo

from envelope.lifecycle import State

# Of `life.lua` and `write.lua`: both counts are always there.
_WAITS = re.compile(r"waits for (\d+) children, (\d+) asks")
_PLURALS = {
    "child": "children",
    "retry": "retries",
    "entry": "entries",
    "try": "tries",
    "delivery": "deliveries",
    "batch": "batches",
}
# A UUIDv7 begins with the time, so that neighbours differ at their ends only: 8 hex digits are 32 random bits.
SHORT_CHARS = 8


def short(task_id: str) -> str:
    """The end of an id, as lists show it."""
    return task_id[-SHORT_CHARS:]


# Fewer digits of an id are in many others.
MIN_ID_CHARS = 6


def finds(words: str, text: str, *ids: str) -> bool:
    """Is each word in the text, or enough of one of the ids?

    >>> finds("tidy UP", "Tidy up"), finds("42", "tidy", "a42"), finds("7f3a9c", "tidy", "00007f3a9c")
    (True, False, True)
    """
    lower = text.lower()
    return all(
        word in lower or (len(word) >= MIN_ID_CHARS and any(word in one for one in ids))
        for word in words.lower().split()
    )


def counted(count: int, noun: str) -> str:
    """
    >>> counted(1, "child"), counted(2, "child"), counted(0, "lost lease")
    ('1 child', '2 children', '0 lost leases')
    """
    return f"{count} {noun if count == 1 else _PLURALS.get(noun, noun + 's')}"


def reason_text(reason: str) -> str:
    """
    >>> reason_text("waits for 1 children, 0 asks"), reason_text("its worker was lost")
    ('waits for 1 child', 'its worker was lost')
    """
    waits = _WAITS.fullmatch(reason)
    if waits is None:
        return plain(reason)
    counts = [counted(int(count), noun) for count, noun in zip(waits.groups(), ("child", "answer"), strict=True)]
    return "waits for " + " and ".join(count for count in counts if not count.startswith("0 "))


def state_text(state: State, reason: str, worker: str = "") -> str:
    """
    >>> state_text(State.PENDING, "its worker was lost"), state_text(State.RUNNING, "", "w1")
    ('pending again: its worker was lost', 'running on w1')
    """
    if state is State.WAITING and reason:
        return reason_text(reason)
    again = " again" if state is State.PENDING and reason else ""
    where = f" on {plain(worker)}" if worker else ""
    return f"{state}{again}{where}{f': {reason_text(reason)}' if reason else ''}"


def clock(at_ms: int, *, zone: tzinfo | None = None, day: bool = False) -> str:
    """A moment by this machine's clock on the wall, or another zone's.

    >>> from datetime import UTC
    >>> clock(0, zone=UTC), clock(0, zone=UTC, day=True)
    ('00:00:00', '1970-01-01 00:00:00')
    """
    moment = datetime.fromtimestamp(at_ms / 1000, zone).astimezone(zone)
    return moment.strftime("%Y-%m-%d %H:%M:%S" if day else "%H:%M:%S")


def plain(text: str) -> str:
    """What a terminal shows as it stands: a title or a message of a model must not move the cursor or colour a line.

    >>> plain("a\\x1b[2Jb\\n")
    'a?[2Jb'
    """
    return shown(text).rstrip()


def shown(text: str) -> str:
    """As `plain`, sign for sign: what is between words stays, at their ends, too."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)
