"""Which addresses a fetch may connect to. Pure.

A worker stands in its operator's network, and the addresses come from a model that reads what strangers write. So
only what is public is reached: not this machine, its neighbours, or its cloud's metadata service.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sandbox.addresses import is_public

WEB_PORTS = frozenset({80, 443})
FIRST_UNPRIVILEGED_PORT = 1024
# Above it: services that take a line of an HTTP request for a command, or that browsers refuse, too.
NEVER_PORTS = frozenset({2049, 2375, 3659, 4045, 5060, 5061, 6000, 6379, 6566, *range(6665, 6670), 6697, 10080, 11211})


class AddressPolicy(Protocol):
    """Every address of a fetch is asked for, after its name was resolved and before it is connected to."""

    def allows(self, address: str, port: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class Public:
    """Public addresses, at the web's ports or an unprivileged one that is written in the URL."""

    def allows(self, address: str, port: int) -> bool:
        return is_public(address) and is_web_port(port)


PUBLIC = Public()


@dataclass(frozen=True, slots=True)
class Any:
    """For hosts that the operator named."""

    def allows(self, address: str, port: int) -> bool:
        return True


ANY = Any()


def is_web_port(port: int) -> bool:
    return port in WEB_PORTS or (port >= FIRST_UNPRIVILEGED_PORT and port not in NEVER_PORTS)
