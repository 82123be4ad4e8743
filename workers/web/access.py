"""What the web tools of a worker may reach, by its operator's settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .addresses import PUBLIC, AddressPolicy
from .searching import SearchProvider


@dataclass(frozen=True, slots=True)
class WithOwn:
    """Public addresses, and those of the operator's own network that are named: `10.0.0.5:8080`, `[fd00::5]:443`."""

    own: frozenset[str]

    def allows(self, address: str, port: int) -> bool:
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        return place in self.own or PUBLIC.allows(address, port)


@dataclass(frozen=True, slots=True)
class WebAccess:
    """`search` is None where no service is configured: the tool is not offered then. `tenants`: whose tasks
    reach more than public addresses (`*`: everybody's)."""

    policy: AddressPolicy = PUBLIC
    search: SearchProvider | None = None
    tenants: tuple[str, ...] = ()

    def of(self, tenant: str) -> WebAccess:
        return self if {tenant, "*"} & set(self.tenants) else replace(self, policy=PUBLIC)
