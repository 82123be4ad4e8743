"""The server process of the API."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from envelope.errors import MusterError
from transport.metrics.common import start_process
from transport.metrics.health import Ready
from transport.metrics.process import serve_process
from transport.metrics.pulse import Pulse
from transport.metrics.shown import Shown
from transport.watchdog import allow_most_files, bound_memory, watch_steps, watched_steps

from ..client import Muster
from .app import create_app

# Streams of events last as long as their readers: they are cut, and resume at another server.
GRACE_S = 5


async def serve(muster: Muster, listening: socket.socket, shown: Shown, say_where: Callable[[str], None]) -> None:
    """Answer what comes in on a socket that listens already, until SIGTERM or SIGINT.

    `shown` is on a port of its own, which is said as `host:port`.
    """
    watch_steps()
    bound_memory()
    allow_most_files()
    config = uvicorn.Config(
        _watched(create_app(muster)),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = uvicorn.Server(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn stops, and then raises the signal once more, for whoever was to hear it: nobody, the stop was clean
        loop.add_signal_handler(number, lambda: None)
    pulse, settings = Pulse(), muster.settings
    ready = Ready(loop, lambda: server.should_exit, {"redis": muster.transport.now_ms}, (MusterError, OSError))
    start_process(shown)
    beating = asyncio.create_task(pulse.beat())
    try:
        with serve_process(shown, settings, pulse, ready) as port:
            say_where(f"{settings.metrics_host}:{port}")
            await server.serve(sockets=[listening])
    finally:
        beating.cancel()


def _watched(app: ASGIApp) -> ASGIApp:
    """A call whose one step holds up all others fails."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        with watched_steps():
            await app(scope, receive, send)

    return call
