"""Repositories of the internet alone, for those to whom nothing of this machine's own network is lent."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

from .addresses import is_public
from .errors import RepositoryMissing, SourceRefused
from .remotes import pinned_environment

HTTPS_PORT = 443
LOOKUP_S = 10.0


async def pinned_to_public(url: str) -> dict[str, str]:
    """git's environment for an https address all of whose host's addresses are public: git goes to one that was looked
    at, and nowhere else by any redirect. `SourceRefused` for any other, `RepositoryMissing` for no host at all."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise SourceRefused(f"{url} is not an https address")
    return pinned_environment(parts.hostname, parts.port or HTTPS_PORT, await _public_address(parts.hostname))


async def _public_address(host: str) -> str:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOKUP_S):
            found = await loop.getaddrinfo(host, HTTPS_PORT, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as e:
        raise RepositoryMissing(f"there is no host {host}", hint="check the address") from e
    addresses = [str(each[4][0]) for each in found]
    if not addresses or not all(map(is_public, addresses)):
        raise SourceRefused(f"{host} is not a public address")
    return addresses[0]
