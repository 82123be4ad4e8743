"""Repositories of the internet alone, for those to whom nothing of this machine's own network is lent."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from .addresses import is_host, is_public
from .errors import RemoteDown, SourceRefused
from .lookups import addresses_of
from .remotes import pinned_environment

HTTPS_PORT = 443
NO_SUCH_HOST = (socket.EAI_NONAME, socket.EAI_NODATA)


async def pinned_to_public(url: str, who: str = "") -> dict[str, str]:
    """git's environment for an https address all of whose host's addresses are public: git goes to one that was looked
    at, and nowhere else by any redirect. `who` asks: names are looked up in turns that are fair between these.

    `SourceRefused` for any other, `RemoteDown` when nobody could tell. A host of an inner network and one that is none
    are the same sentence: else a stranger would learn by names that it guesses what is in there.
    """
    host, port = _place(url)
    return pinned_environment(host, port, await _public_address(host, who))


def _place(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", HTTPS_PORT if parts.port is None else parts.port
    except ValueError:  # a bracket that is not closed, a port that is none
        host, port = "", 0
    if not url.startswith("https://") or not port or not is_host(host):
        raise SourceRefused(f"{url} is not an https address with a host and a port that can be")
    return host, port


async def _public_address(host: str, who: str) -> str:
    try:
        addresses = await addresses_of(host, HTTPS_PORT, who)
    except (OSError, UnicodeError) as e:
        if isinstance(e, UnicodeError) or (isinstance(e, socket.gaierror) and e.errno in NO_SUCH_HOST):
            raise _no_public_host(host) from e
        raise RemoteDown(f"the address of {host} could not be looked up", hint="try again") from e
    if not addresses or not all(map(is_public, addresses)):
        raise _no_public_host(host)
    return addresses[0]


def _no_public_host(host: str) -> SourceRefused:
    return SourceRefused(f"there is no public host {host}", hint="check the address")
