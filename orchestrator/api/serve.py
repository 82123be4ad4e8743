"""The server process of the API."""

from __future__ import annotations

import asyncio
import signal
import socket

import uvicorn

from ..client import Muster
from .app import create_app
from .tokens import TokenFile

# Streams of events last as long as their readers: they are cut, and resume at another server.
GRACE_S = 5


async def serve(muster: Muster, tokens: TokenFile, listening: socket.socket) -> None:
    """Answer what comes in on a socket that listens already, until SIGTERM or SIGINT."""
    config = uvicorn.Config(
        create_app(muster, tokens),
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
    await server.serve(sockets=[listening])
