"""Identifiers: sortable by time where people list them, W3C where other systems read them."""

from __future__ import annotations

import hashlib
import os
import re
import time
from typing import Annotated

from pydantic import StringConstraints

TaskId = Annotated[
    str, StringConstraints(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
]
TraceId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
BlobRef = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]

_TRACEPARENT = re.compile(r"^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$")


def new_task_id(*, now_ms: int | None = None) -> str:
    """A UUIDv7 (RFC 9562): 48 bits of milliseconds, then 74 random bits; sorts by time of creation."""
    stamp = (time.time_ns() // 1_000_000 if now_ms is None else now_ms) & ((1 << 48) - 1)
    noise = int.from_bytes(os.urandom(10))
    value = stamp << 80 | 0x7 << 76 | (noise >> 62 & 0xFFF) << 64 | 0b10 << 62 | noise & ((1 << 62) - 1)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def new_trace_id() -> str:
    """32 hex digits, as in W3C Trace Context."""
    return os.urandom(16).hex()


def trace_id_of(traceparent: str) -> str | None:
    """The trace id inside a `traceparent` header; None when it is not one (a bad header never stops a task)."""
    found = _TRACEPARENT.match(traceparent)
    return found[1] if found and found[1] != "0" * 32 else None


def blob_ref(content: bytes) -> str:
    """The name of a blob: its content's SHA-256."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def content_key(*parts: str | bytes) -> str:
    """An idempotency key made of what the work is, so that the same work has the same key everywhere.

    Parts are length-prefixed: ("ab", "c") and ("a", "bc") differ.
    """
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8))
        digest.update(raw)
    return digest.hexdigest()
