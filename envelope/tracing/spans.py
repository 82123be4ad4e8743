"""Where we are in a trace, and spans below that. `tracing()` tells which tracer makes them; by default none does."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from .context import TraceContext, attempt_span_id, variables_of
from .names import SpanKind

Value = str | int | float | bool | Sequence[str]
Attributes = Mapping[str, Value]
NONE: Attributes = {}


class Span(Protocol):
    """Something that is under way. What is said of it is without secrets: whoever exports it sees to that."""

    @property
    def context(self) -> TraceContext | None:
        """What others name it by; None where nobody traces."""
        ...

    def set(self, attributes: Attributes) -> None: ...

    def content(self, name: str, text: Callable[[], str]) -> None:
        """What people and models said, which is kept only where an operator has asked for it."""
        ...

    def link(self, to: TraceContext) -> None:
        """It goes on from what `to` came to."""
        ...

    def fail(self, error_type: str) -> None:
        """By a code: what was said of the error may hold what nobody should see."""
        ...


@dataclass(frozen=True, slots=True)
class Passed:
    """A span of somebody else's, or none at all: nothing can be said of it, and what is below it is below that."""

    context: TraceContext | None = None

    def set(self, attributes: Attributes) -> None:
        pass

    def content(self, name: str, text: Callable[[], str]) -> None:
        pass

    def link(self, to: TraceContext) -> None:
        pass

    def fail(self, error_type: str) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Place:
    """The span that is open here, and the trace of Muster's whose task is worked on, if one is."""

    span: Span
    trace_id: str = ""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What differs from a span that begins now, below the one that is open. `span_id`, `trace_id`: its own, if they
    are not for the tracer to choose; `trace_id` begins a new trace."""

    parent: TraceContext | None = None
    trace_id: str = ""
    span_id: str = ""
    links: tuple[TraceContext, ...] = ()
    began_at_ms: int | None = None
    ended_at_ms: int | None = None


class Tracer(Protocol):
    def open(
        self, kind: SpanKind, name: str, attributes: Attributes, beginning: Beginning
    ) -> AbstractContextManager[Span]: ...


_NOWHERE = Place(Passed())
_place: ContextVar[Place] = ContextVar("muster_trace", default=_NOWHERE)


class NoTracer:
    """A span opens and closes nothing, and where we are stays the caller's."""

    def open(
        self, kind: SpanKind, name: str, attributes: Attributes, beginning: Beginning
    ) -> AbstractContextManager[Span]:
        return _NOTHING


class _Nothing:
    def __enter__(self) -> Span:
        return _PASSED

    def __exit__(self, *_: object) -> None:
        pass


_PASSED = Passed()
_NOTHING = _Nothing()
_NO_TRACER = NoTracer()
_tracer: list[Tracer] = [_NO_TRACER]


@contextmanager
def tracing(tracer: Tracer) -> Generator[None]:
    """All spans of this process are `tracer`'s meanwhile."""
    _tracer.append(tracer)
    try:
        yield
    finally:
        _tracer.remove(tracer)


def span(kind: SpanKind, attributes: Attributes = NONE, /, **name: object) -> AbstractContextManager[Span]:
    """A span below the one that is open here, while the context is. `name`: what the kind's name has gaps for."""
    tracer = _tracer[-1]
    if tracer is _NO_TRACER:  # most processes, and some spans are as many as tool calls
        return _NOTHING
    here = _place.get().span.context
    return tracer.open(kind, kind.called(**name), attributes, Beginning(parent=here))


def open_span(kind: SpanKind, name: str, attributes: Attributes, beginning: Beginning) -> AbstractContextManager[Span]:
    """A span that does not begin here and now."""
    return _tracer[-1].open(kind, name, attributes, beginning)


def here() -> Place:
    return _place.get()


def variables() -> dict[str, str]:
    """What a program that is started now finds of its trace in its environment."""
    return variables_of(_place.get().span.context)


@contextmanager
def placed(place: Place) -> Generator[None]:
    """Whatever is opened meanwhile is below `place`."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


def continued(context: TraceContext | None) -> AbstractContextManager[None]:
    """What is opened meanwhile goes on with a caller's trace, if there is one."""
    return placed(Place(Passed(context)))


def link_attempt(task_id: str, attempt: int, trace_id: str) -> None:
    """The open span takes in what an attempt came to. `trace_id`: Muster's, of that task."""
    place = _place.get()
    if (context := place.span.context) is not None:
        theirs = context.trace_id if trace_id == place.trace_id else trace_id
        place.span.link(TraceContext(theirs, attempt_span_id(task_id, attempt), context.sampled))
