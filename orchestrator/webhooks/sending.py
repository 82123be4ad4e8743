"""One try to deliver: a POST to an address that was looked at last, which follows nowhere."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from dataclasses import dataclass
from typing import Any

import aiohttp

from envelope.redaction import redact_head
from repo.addresses import is_public

from ..errors import BadInput
from .config import Webhook
from .signing import headers_of

GONE = 410
MAX_ERROR_CHARS = 300
MAX_RETRY_AFTER_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Arrived:
    status: int


@dataclass(frozen=True, slots=True)
class Failed:
    """`for_good`: the receiver wants no more of it. `retry_after_s`: as long as it asks to be left alone."""

    why: str
    for_good: bool = False
    retry_after_s: float = 0.0


async def send(hook: Webhook, notice_id: str, body: str, *, timeout_s: float) -> Arrived | Failed:
    """All of it, from looking the name up on, within the time. Only a status of 2xx is an arrival."""
    content = body.encode()
    try:
        headers = headers_of(notice_id, content, await asyncio.to_thread(hook.secrets), at_s=int(time.time()))
        async with (
            asyncio.timeout(timeout_s),
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(socket_factory=_Sockets(hook.allow_private), force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            ) as session,
            session.post(hook.url, data=content, headers=headers, allow_redirects=False) as response,
        ):
            return _outcome(response)
    except TimeoutError:
        return Failed(f"no answer within {timeout_s:g} s")
    except BadInput as e:
        return Failed(e.message)
    except (aiohttp.ClientError, OSError, ValueError) as e:
        return Failed(redact_head(str(e) or type(e).__name__, MAX_ERROR_CHARS))


def _outcome(response: aiohttp.ClientResponse) -> Arrived | Failed:
    if 200 <= response.status < 300:
        return Arrived(response.status)
    wait = response.headers.get("Retry-After", "")
    retry_after_s = min(float(wait), MAX_RETRY_AFTER_S) if wait.isascii() and wait.isdigit() else 0.0
    return Failed(f"it answered {response.status}", response.status == GONE, retry_after_s)


@dataclass(frozen=True, slots=True)
class _Sockets:
    """Looks at each address right before it is connected to, however it was written or looked up."""

    allow_private: bool

    def __call__(self, address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, where = address
        if not self.allow_private and not is_public(str(where[0])):
            raise OSError(errno.EACCES, f"{where[0]} is not public, and the webhook does not say `allow_private`")
        return socket.socket(family, kind, protocol)
