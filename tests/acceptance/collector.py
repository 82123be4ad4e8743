"""A collector of spans on loopback: OTLP over HTTP, decoded with OpenTelemetry's own protocol package."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Wire
from opentelemetry.proto.trace.v1.trace_pb2 import Status

PATIENCE_S = 60  # bounds a hang, and nothing else


@dataclass(frozen=True)
class Seen:
    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    failed: bool
    attributes: dict[str, Any]
    links: list[tuple[str, str]]

    @property
    def took_ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6


@dataclass
class Collector:
    """`answer` is called for each request, and says the status of the reply."""

    answer: Callable[[], int] = lambda: 200
    spans: list[Seen] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)
    url: str = ""

    def until(self, met: Callable[[list[Seen]], Any]) -> list[Seen]:
        with self.news:
            assert self.news.wait_for(lambda: met(self.spans), PATIENCE_S), sorted(span.name for span in self.spans)
            return list(self.spans)

    def until_asked(self, times: int = 1) -> None:
        with self.news:
            assert self.news.wait_for(lambda: len(self.bodies) >= times, PATIENCE_S)

    @property
    def environment(self) -> dict[str, str]:
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def take(self, body: bytes, headers: dict[str, str]) -> int:
        with self.news:
            self.bodies.append(body)
            self.headers.append(headers)
            self.news.notify_all()
        status = self.answer()
        if status == 200:
            with self.news:
                self.spans += _decoded(body)
                self.news.notify_all()
        return status


@contextmanager
def collector(answer: Callable[[], int] = lambda: 200) -> Iterator[Collector]:
    one = Collector(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status = one.take(self.rfile.read(int(self.headers["Content-Length"])), dict(self.headers))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    one.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield one
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _decoded(body: bytes) -> list[Seen]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        _seen(span, _values(resource.resource.attributes)["service.name"])
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _seen(span: Wire, service: str) -> Seen:
    return Seen(
        service=service,
        name=span.name,
        kind=Wire.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        attributes=_values(span.attributes),
        links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(inner) for inner in value.array_value.values]
    return getattr(value, kind)
