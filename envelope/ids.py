"""Identifiers: sortable by time where people list them, W3C where other systems read them."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Annotated

from pydantic import StringConstraints

TaskId = Annotated[
    str, StringConstraints(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
]
TraceId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
BlobRef = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]


def new_task_id(*, now_ms: int | None = None) -> str:
    """A UUIDv7 (RFC 9562): 48 bits of milliseconds, then 74 random bits; sorts by time of creation."""
    stamp = (time.time_ns() // 1_000_000 if now_ms is None else now_ms) & ((1 << 48) - 1)
    noise = int.from_bytes(os.urandom(10))
    value = stamp << 80 | 0x7 << 76 | (noise >> 62 & 0xFFF) << 64 | 0b10 << 62 | noise & ((1 << 62) - 1)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# The last digits of a trace's id say in which cell of a fleet it lives.
HOME_DIGITS = 8


def new_trace_id(*, near: str = "", key: str = "") -> str:
    """32 hex digits, as in W3C Trace Context.

    A fleet of several cells keeps a trace where its id says. What must be found beside each other in one step gets the
    same home: a session goes on `near` its first trace, and whatever is submitted under one idempotency `key`.
    """
    home = near or (digest_of(key) if key else "")
    return os.urandom(16).hex() if not home else os.urandom(12).hex() + home[-HOME_DIGITS:]


def shares_home(trace_id: str, *, near: str = "", key: str = "") -> bool:
    """Was the trace's id made with the same `near` or `key`?"""
    return trace_id[-HOME_DIGITS:] == (near or digest_of(key))[-HOME_DIGITS:]


def blob_ref(content: bytes) -> str:
    """The name of a blob: its content's SHA-256."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def digest_of(*parts: str | bytes) -> str:
    """SHA-256 of texts in their order. Parts are length-prefixed: ("ab", "c") and ("a", "bc") differ."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8))
        digest.update(raw)
    return digest.hexdigest()


# A key that begins so is the fleet's own: it cannot stand for other work, so nobody compares.
CONTENT = "content:"


def content_key(*parts: str | bytes) -> str:
    """An idempotency key of the fleet's own. The queue compares the work of all other keys.

    It is made of the whole of the work (`work.key_of_work`), or of the task that starts it and the place there, so that
    nobody else comes to it.
    """
    return CONTENT + digest_of(*parts)


def require_own_key(key: str) -> str:
    """A caller's idempotency key; `ValueError` for one that could be mistaken for a program's."""
    if key.startswith(CONTENT):
        raise ValueError(f"keys that begin with `{CONTENT}` are the fleet's own: choose another")
    return key
