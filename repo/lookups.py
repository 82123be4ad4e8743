"""Addresses of hosts. A stranger's name servers may say nothing: who asks them waits in threads that are for this
alone, and of which nobody has all.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial

from .fairness import Threads

LOOKUP_S = 10.0  # two questions of the system's resolver to a server that is silent
AT_ONCE = 16
OF_ONE = 4

_threads = Threads(AT_ONCE, OF_ONE)


async def addresses_of(host: str, port: int, who: str, of: str = "") -> list[str]:
    """In the order in which they are to be tried; `of` is the piece of work that `who` does (see `FairSemaphore`).
    `OSError`, of which `TimeoutError` is one, where there are none; `UnicodeError` for what is no name."""
    async with asyncio.timeout(LOOKUP_S):
        found = await _threads.run(who, partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM), of)
    return [str(entry[4][0]) for entry in found]
