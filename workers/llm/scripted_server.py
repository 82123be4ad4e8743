"""The one loopback model server: real HTTP, real streaming, answers from a script, faults on request.

    python -m workers.llm.scripted_server --script FILE --port 0

prints `{"url": …}` when it listens. Nothing is kept between requests but the counts of used rules, so a conversation
that another process continues is answered as if nothing had happened. `GET /requests` tells what was asked, and
`POST /go/WORD` lets go what a fault holds `until` that word, now and from then on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, cast

from aiohttp import web

from ..errors import BadScript
from .dialect_parts import Json
from .dialects import DIALECTS, Dialect
from .script import Fault, Player, Rule, Script, load_script

LOOPBACK = "127.0.0.1"  # a server that answers everybody without a key must not be reachable
KEPT_REQUESTS = 1000  # more than any script has rules for; a demo that runs all day must not grow
SHUTDOWN_TIMEOUT_S = 1.0  # a stalled reply must not hold up the end
MAX_REQUEST_BYTES = 64 * 1024 * 1024  # the longest window (1M tokens) as text, many times over


@dataclass(slots=True)
class Log:
    """What was asked: bodies as they came (keys are in headers, and are not kept), and how many at once."""

    bodies: deque[Json] = field(default_factory=lambda: deque[Json](maxlen=KEPT_REQUESTS))
    requests: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    aborted: int = 0  # the client went away before the end

    def as_json(self) -> Json:
        counts = {name: getattr(self, name) for name in ("requests", "in_flight", "peak_in_flight", "aborted")}
        return counts | {"bodies": list(self.bodies)}


class ScriptedServer:
    """`async with ScriptedServer(script) as server:` listens on a free port of the loopback.

    `url` is the server's root, which Anthropic's clients want, `base_url` what OpenAI's want. All formats are spoken
    at once, by the path that is asked.
    """

    def __init__(self, script: Script, *, port: int = 0) -> None:
        self.log = Log()
        self.url = ""
        self._player = Player(script)
        self._port = port
        self._idle = asyncio.Event()
        self._idle.set()
        self._said = defaultdict[str, asyncio.Event](asyncio.Event)
        application = web.Application(client_max_size=MAX_REQUEST_BYTES)
        application.router.add_get("/requests", self._tell)
        application.router.add_post("/go/{word}", self._let_go)
        for path, dialect in DIALECTS.items():
            application.router.add_post(path, self._speaker(dialect))
        # A client that goes away must free its conversation at once, stalled or not.
        self._runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=SHUTDOWN_TIMEOUT_S)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, self._port).start()
        self.url = f"http://{LOOPBACK}:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    async def idle(self) -> None:
        """Wait until no request is under way."""
        await self._idle.wait()

    async def _tell(self, request: web.Request) -> web.Response:
        return web.json_response(self.log.as_json())

    async def _let_go(self, request: web.Request) -> web.Response:
        self._said[request.match_info["word"]].set()
        return web.json_response({})

    def _speaker(self, dialect: Dialect) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await self._answer(request, dialect)

        return answer

    async def _answer(self, request: web.Request, dialect: Dialect) -> web.StreamResponse:
        body = cast(Json, await request.json())
        self.log.bodies.append(body)
        self.log.requests += 1
        self.log.in_flight += 1
        self._idle.clear()
        self.log.peak_in_flight = max(self.log.peak_in_flight, self.log.in_flight)
        try:
            return await self._play(request, dialect, body)
        except asyncio.CancelledError:
            self.log.aborted += 1
            raise
        finally:
            self.log.in_flight -= 1
            if self.log.in_flight == 0:
                self._idle.set()

    async def _play(self, request: web.Request, dialect: Dialect, body: Json) -> web.StreamResponse:
        if reason := dialect.refused(body):
            return web.json_response(dialect.error(400, reason, ""), status=400)
        now = dialect.read(body)
        try:
            rule = self._player.play(now)
        except BadScript as e:
            return web.json_response(dialect.error(400, f"script: {e.message}", "script"), status=400)
        fault = rule.fault or Fault()
        if fault.status is not None and not fault.in_stream:
            return web.json_response(
                dialect.error(fault.status, fault.message, fault.code), status=fault.status, headers=_headers(fault)
            )
        if not body.get("stream"):
            return web.json_response(dialect.whole(rule.reply, now))
        pieces = dialect.stream(rule.reply, now, body)
        if fault.in_stream:
            pieces = _broken_off(pieces, fault, dialect)
        return await self._stream(request, rule, pieces)

    async def _stream(self, request: web.Request, rule: Rule, pieces: Iterator[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        if rule.fault is None or rule.fault.in_stream:
            for piece in pieces:
                await response.write(piece)
            return response
        data = b"".join(pieces)
        await response.write(data[: rule.fault.after_bytes])
        if rule.fault.until:
            await self._said[rule.fault.until].wait()
        if rule.fault.stall_s is not None:
            await asyncio.sleep(rule.fault.stall_s)  # the fault itself; ends early when the client goes away
        if rule.fault.cut and request.transport is not None:
            request.transport.abort()
        elif rule.fault.bad_json:
            await response.write(b'data: {"choices": [{"delta\n\n')
        elif not rule.fault.end_early:
            await response.write(data[rule.fault.after_bytes :])
        return response


def _broken_off(pieces: Iterator[bytes], fault: Fault, dialect: Dialect) -> Iterator[bytes]:
    """The events that fit into `after_bytes`, then the error as an event of its own."""
    sent = 0
    for piece in pieces:
        sent += len(piece)
        if sent > fault.after_bytes:
            break
        yield piece
    yield (
        b"event: error\ndata: "
        + json.dumps(dialect.error(fault.status or 500, fault.message, fault.code)).encode()
        + b"\n\n"
    )


def _headers(fault: Fault) -> dict[str, str]:
    retry = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    return retry | fault.headers


async def _serve(script: Script, port: int) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with ScriptedServer(script, port=port) as server:
        sys.stdout.write(json.dumps({"url": server.url}) + "\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m workers.llm.scripted_server", description=__doc__)
    parser.add_argument("--script", type=Path, required=True, help="a YAML or JSON file of rules")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    arguments = parser.parse_args()
    try:
        script = load_script(arguments.script.read_text("utf-8"))
    except (OSError, BadScript) as e:
        parser.error(str(e))
    asyncio.run(_serve(script, arguments.port))


if __name__ == "__main__":
    main()
