"""The three pages of a process, put together: what it counts, whether it lives, whether it is ready."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus

from ..settings import FleetSettings
from .health import Alive, Ready
from .pulse import Pulse
from .server import Page, probe, serve_pages
from .shown import Shown


@contextmanager
def serve_process(shown: Shown, settings: FleetSettings, pulse: Pulse, ready: Ready) -> Generator[int]:
    """Show them over HTTP until the end of the context; the port."""
    shown.read("worker_claim_loop_age_seconds", lambda: pulse.age_s)
    shown.read("worker_draining", lambda: float(ready.draining()))

    def metrics(accept: str) -> Page:
        return Page(HTTPStatus.OK, *shown.text(accept))

    alive = Alive(pulse, settings.liveness_s)
    pages = {"/metrics": metrics, "/healthz": probe(alive.fault), "/readyz": probe(ready.fault)}
    with serve_pages(pages, settings.metrics_port, settings.metrics_host) as port:
        yield port
