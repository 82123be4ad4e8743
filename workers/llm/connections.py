"""The HTTP connections to model providers: one pool for all models of a process, kept open between calls.

Beside `direct.py` the only file of the direct engine that names aiohttp.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

CONNECT_TIMEOUT_S = 30.0

# A session belongs to a loop. The generator that holds it open is in the value: as long as it lives, the loop closes it
# at its own end (`shutdown_asyncgens`), so nobody else has to.
_open: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, AsyncGenerator[aiohttp.ClientSession]]] = {}


async def http_session() -> aiohttp.ClientSession:
    """This loop's session."""
    loop = asyncio.get_running_loop()
    if loop not in _open:
        holding = _held(loop)
        _open[loop] = (await anext(holding), holding)
    return _open[loop][0]


@cache
def proxy_for(url: str) -> str | None:
    """The environment's proxy for an address, as every client of these providers honours it.

    aiohttp would look it up anew for each request, in a thread, which takes longer than the rest of the request.
    """
    address = urlsplit(url)
    proxies = getproxies()
    if not address.hostname or proxy_bypass(address.netloc):
        return None
    return proxies.get(address.scheme)


async def _held(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0)  # how many calls run at once is the limiter's to say
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            yield session
    finally:
        del _open[loop]
