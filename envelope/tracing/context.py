"""W3C Trace Context: where in a trace something happens, as it travels in headers, variables and envelopes. Pure.

What does not read is dropped, never repaired and never an error: nobody's work depends on it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

MAX_TRACESTATE_CHARS = 512  # what everybody has to pass on, says the standard; a longer one may be dropped
TRACEPARENT, TRACESTATE = "TRACEPARENT", "TRACESTATE"  # as programs that are started find them

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]*)?", re.ASCII)
_STATE = re.compile(
    r"[a-z0-9][a-z0-9_*/@-]{0,255}=[!-+\--<>-~ ]{1,256}(,[a-z0-9][a-z0-9_*/@-]{0,255}=[!-+\--<>-~ ]{1,256})*"
)
_SAMPLED = 1
_VERSION = "00"


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span of some trace, which may be another system's."""

    trace_id: str
    span_id: str
    sampled: bool = True
    state: str = ""

    @property
    def traceparent(self) -> str:
        return f"{_VERSION}-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"


def context_of(traceparent: str, tracestate: str = "") -> TraceContext | None:
    """
    >>> context_of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").span_id
    '00f067aa0ba902b7'
    >>> context_of("00-00000000000000000000000000000000-00f067aa0ba902b7-01") is None
    True
    """
    found = _PARENT.fullmatch(traceparent)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    reads = more is None if version == _VERSION else version != "ff"  # a later version may say more behind it
    if not (reads and int(trace_id, 16) and int(span_id, 16)):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED), tidy_state(tracestate))


def tidy_parent(traceparent: str) -> str:
    """The same, as we write it; empty for what is none."""
    context = context_of(traceparent)
    return context.traceparent if context else ""


def tidy_state(tracestate: str) -> str:
    """The same without the spaces between its members; empty for what is none."""
    state = ",".join(member for part in tracestate.split(",") if (member := part.strip(" \t")))
    return state if len(state) <= MAX_TRACESTATE_CHARS and _STATE.fullmatch(state) else ""


def context_in(environ: Mapping[str, str]) -> TraceContext | None:
    """What started this process, as its environment tells."""
    return context_of(environ.get(TRACEPARENT, ""), environ.get(TRACESTATE, ""))


def variables_of(context: TraceContext | None) -> dict[str, str]:
    """The same for a program that is started from here."""
    if context is None:
        return {}
    return {TRACEPARENT: context.traceparent} | ({TRACESTATE: context.state} if context.state else {})


def attempt_span_id(task_id: str, attempt: int) -> str:
    """Known to whoever knows the attempt: who takes in its result can link to it, and nobody has to be told.

    >>> attempt_span_id("0197a1b0-0000-7000-8000-000000000001", 2)
    'c09a3e26418fa5eb'
    """
    return hashlib.sha256(f"{task_id}/{attempt}".encode()).hexdigest()[:16]
