"""Whether this process traces: told by the variables that every program with OpenTelemetry reads."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ..logs import get_logger
from ..redaction import register_secret
from .spans import tracing

if TYPE_CHECKING:
    from .otel import OtelTracer

# A process that ends waits as long for a collector, and no longer: what it has not taken by then is lost.
STOP_TIMEOUT_S = 3.0
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
# As OpenTelemetry's own libraries write it, beside true and false: where the content goes to.
CAPTURES = ("true", "span_only", "span_and_event")

log = get_logger("tracing")


@contextmanager
def traced(service: str, environ: Mapping[str, str] = os.environ) -> Generator[None]:
    """Trace this process while the context is open, if its environment names a collector.

    Nothing about tracing stops a process: what cannot be used is a warning, and there are no spans.
    """
    tracer = _tracer(service, environ) if is_wanted(environ) else None
    if tracer is None:
        yield
        return
    try:
        with tracing(tracer):
            yield
    finally:
        tracer.stop(STOP_TIMEOUT_S)


def _tracer(service: str, environ: Mapping[str, str]) -> OtelTracer | None:
    _register_headers(environ)
    try:
        from .otel import OtelTracer

        return OtelTracer(service, captures=environ.get(CAPTURE, "").strip().lower() in CAPTURES)
    except ImportError as e:
        log.warning("not_traced", error=f"{e.name} is not installed", hint="pip install 'muster[otel]'")
    except Exception as e:  # a library of others reads what an operator wrote
        log.warning("not_traced", error=str(e), hint="look at the OTEL_* variables")
    return None


def is_wanted(environ: Mapping[str, str]) -> bool:
    """
    >>> is_wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}), is_wanted({})
    (True, False)
    """
    is_off = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    return not is_off and exporter == "otlp" and any(environ.get(name, "").strip() for name in ENDPOINTS)


def _register_headers(environ: Mapping[str, str]) -> None:
    """What a collector knows us by must not be seen in what is sent to it, or logged."""
    for name in HEADERS:
        for header in environ.get(name, "").split(","):
            value = unquote(header.partition("=")[2].strip())
            register_secret(value)
            register_secret(value.rpartition(" ")[2])  # without its "Bearer"
