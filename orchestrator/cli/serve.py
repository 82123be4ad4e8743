"""`muster serve`: the console and the HTTP API."""

from __future__ import annotations

import asyncio
import socket
from typing import Annotated

import typer

from transport.state_folder import keep_files_private

from ..errors import BadInput
from ..settings import load_settings
from .console import note
from .fleet import open_fleet, open_records
from .token import tokens_of


def serve(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="The port; 0 for a free one.")] = 8420,
) -> None:
    """Serve the console and the HTTP API until you stop it. Make tokens for them with `muster token create`.

    It speaks plain HTTP: put a proxy with TLS before it for anything but this machine.
    """
    keep_files_private()
    asyncio.run(_serve(host, port))


async def _serve(host: str, port: int) -> None:
    from transport.metrics.common import PROCESS, StoreCounts
    from transport.metrics.shown import Shown

    from ..api.serve import serve as run  # FastAPI and what it brings take longer to load than a command may

    settings = load_settings()
    with _listening(host, port) as listening:
        # of a fleet elsewhere workers come and go, and what is submitted meanwhile waits for them
        opened = open_records if settings.redis_url else open_fleet
        shown = Shown(PROCESS)
        async with opened(settings, watch=StoreCounts(shown)) as muster:
            if not await (await tokens_of(muster)).all():
                note("nobody has a token yet; make one with: muster token create NAME")
            bound = listening.getsockname()[1]
            note(f"listening on http://{host}:{bound} (the console; the API is described at /openapi.json)")
            await run(muster, listening, shown, lambda at: note(f"its metrics are at http://{at}/metrics"))


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as e:
        raise BadInput(f"{host}:{port} cannot be listened on: {e.strerror}", hint="name another --port") from e
