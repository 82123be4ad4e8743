"""Spans as OpenTelemetry makes and sends them: the only file that names its libraries, imported where they are used.

What is sent is bounded and without secrets. Sampling, batches and the collector are the standard `OTEL_*` variables'.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, cast

from opentelemetry import trace as api
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace.status import StatusCode

from ..redaction import redact, redact_head, redact_value
from .context import TraceContext
from .names import ERROR_TYPE, SCHEMA_URL, SCOPE, SpanKind
from .spans import Attributes, Beginning, Place, Span, here, placed

MAX_NAME_CHARS = 100
MAX_VALUE_CHARS = 500
# A queue of spans, which is 2048 long unless an operator says otherwise, has to fit into memory with them.
MAX_CONTENT_CHARS = 16 * 1024
NS_PER_MS = 1_000_000


class OtelTracer:
    """Ends with `stop`: until then nothing waits for a collector, and spans that it does not take are dropped."""

    def __init__(self, service: str, *, captures: bool) -> None:
        """`captures`: what people and models say is sent, too. `ValueError` for a variable that cannot be used."""
        ids = _Ids()
        self._chosen, self._captures = ids.chosen, captures
        self._provider = TracerProvider(resource=_resource(service), id_generator=ids, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(SCOPE, version("muster"), SCHEMA_URL)

    def open(
        self, kind: SpanKind, name: str, attributes: Attributes, beginning: Beginning
    ) -> AbstractContextManager[Span]:
        token = self._chosen.set((beginning.trace_id, beginning.span_id))
        parent = None if beginning.parent is None else api.NonRecordingSpan(_native(beginning.parent))
        try:
            span = self._tracer.start_span(
                redact(name)[:MAX_NAME_CHARS],
                # never what a library has left in the context: our spans hang on what tasks carry along
                context=api.set_span_in_context(parent or api.INVALID_SPAN),
                kind=api.SpanKind[kind.otel],
                attributes=_bounded(attributes),
                links=[api.Link(_native(link)) for link in beginning.links],
                start_time=_ns(beginning.began_at_ms),
            )
        finally:
            self._chosen.reset(token)
        return _Open(OtelSpan(span, self._captures), _ns(beginning.ended_at_ms))

    def stop(self, timeout_s: float) -> None:
        """Send what is left, as far as the collector takes it within this time."""
        stopping = threading.Thread(target=self._provider.shutdown, daemon=True)
        stopping.start()
        stopping.join(timeout_s)


class OtelSpan:
    def __init__(self, span: Any, captures: bool) -> None:
        self.native = span
        self._captures = captures and span.is_recording()

    @property
    def context(self) -> TraceContext:
        found = self.native.get_span_context()
        state = found.trace_state.to_header()
        return TraceContext(f"{found.trace_id:032x}", f"{found.span_id:016x}", found.trace_flags.sampled, state)

    def set(self, attributes: Attributes) -> None:
        self.native.set_attributes(_bounded(attributes))

    def content(self, name: str, text: Callable[[], str]) -> None:
        if self._captures:
            self.native.set_attribute(name, redact_head(text(), MAX_CONTENT_CHARS))

    def link(self, to: TraceContext) -> None:
        self.native.add_link(_native(to))

    def fail(self, error_type: str) -> None:
        self.set({ERROR_TYPE: error_type})
        self.native.set_status(StatusCode.ERROR)


class _Open:
    """A span while it is open. It ends with its context, or has ended at a moment that is known."""

    def __init__(self, span: OtelSpan, ended_at_ns: int | None) -> None:
        self._span = span
        self._ended_at_ns = ended_at_ns
        self._placed = placed(Place(span, here().trace_id))

    def __enter__(self) -> Span:
        self._placed.__enter__()
        return self._span

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._placed.__exit__(kind, error, trace)
        if kind is not None:
            self._span.fail(kind.__name__)
        self._span.native.end(self._ended_at_ns)


class _Ids(IdGenerator):
    """Random ids, but for those that Muster has chosen itself."""

    def __init__(self) -> None:
        self.chosen: ContextVar[tuple[str, str]] = ContextVar("muster_chosen_ids", default=("", ""))
        self._random = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        return int(self.chosen.get()[0] or "0", 16) or self._random.generate_trace_id()

    def generate_span_id(self) -> int:
        return int(self.chosen.get()[1] or "0", 16) or self._random.generate_span_id()


def _resource(service: str) -> Resource:
    """The operator's names for this process come before ours."""
    said = Resource.create()
    ours: dict[str, str] = {SERVICE_VERSION: version("muster")}
    if str(said.attributes[SERVICE_NAME]).startswith("unknown_service"):
        ours[SERVICE_NAME] = service
    return said.merge(Resource(ours))


def _native(context: TraceContext) -> api.SpanContext:
    flags = api.TraceFlags(api.TraceFlags.SAMPLED if context.sampled else api.TraceFlags.DEFAULT)
    state = api.TraceState.from_header([context.state])
    return api.SpanContext(int(context.trace_id, 16), int(context.span_id, 16), True, flags, state)


def _bounded(attributes: Attributes) -> Mapping[str, Any]:
    return {name: _short(redact_value(value)) for name, value in attributes.items() if value != ""}


def _short(value: Any) -> Any:
    match value:
        case str():
            return value[:MAX_VALUE_CHARS]
        case list() | tuple():
            return [_short(inner) for inner in cast("list[Any]", value)]
        case _:
            return value


def _ns(at_ms: int | None) -> int | None:
    return None if at_ms is None else at_ms * NS_PER_MS
