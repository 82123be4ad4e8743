"""Which addresses a fetch may connect to. Pure.

The addresses come from a model that reads what strangers write: only what is public is reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from repo.addresses import is_public, is_web_port


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
