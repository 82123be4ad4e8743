"""What a scope lets a sandbox reach: `network:HOST`, `network:HOST:PORT` and `credential:NAME`. Pure.

These open something to the outside, so a wildcard never does: not one in the host or the name, and not one in the place
of the tool (`*:**` is no network).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

NETWORK, CREDENTIAL = "network", "credential"

# What stands behind the colon, by the tool. As the name service knows hosts; a last dot would be another spelling.
_NAMED = {
    NETWORK: re.compile(r"(?=[^:]{1,253}(?::|\Z))[a-z0-9_-]+(?:\.[a-z0-9_-]+)*(?::[1-9][0-9]{0,4})?"),
    CREDENTIAL: re.compile(r"[A-Za-z0-9_.-]{1,100}"),
}
_WRITTEN = {
    NETWORK: "name one host in lower case, and a port if it is not the web's: network:pypi.org, network:host:8443",
    CREDENTIAL: "name one credential, as the worker's operator called it: credential:forge",
}


def is_named(tool: str) -> bool:
    """Does this tool count only where a grant names it, and all of what it opens?"""
    return tool in _NAMED


def fault_of(grant: str) -> str:
    """What is wrong with a grant of these, as a sentence for whoever wrote it; empty for any other.

    >>> fault_of("network:pypi.org"), fault_of("edit:src/**"), bool(fault_of("network:*.org"))
    ('', '', True)
    """
    tool, _, name = grant.partition(":")
    wanted = _NAMED.get(tool)
    return "" if wanted is None or wanted.fullmatch(name) else f"{grant!r} is no grant: {_WRITTEN[tool]}"


def hosts_of(scope: Iterable[str]) -> frozenset[str]:
    """
    >>> sorted(hosts_of(["network:pypi.org", "network:git.example:8443", "*:**"]))
    ['git.example:8443', 'pypi.org']
    """
    return _names(scope, NETWORK)


def credentials_of(scope: Iterable[str]) -> frozenset[str]:
    return _names(scope, CREDENTIAL)


def _names(scope: Iterable[str], tool: str) -> frozenset[str]:
    return frozenset(grant.removeprefix(f"{tool}:") for grant in scope if grant.startswith(f"{tool}:"))
