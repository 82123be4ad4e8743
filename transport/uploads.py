"""How many bytes callers from outside may store for a tenant: within an hour, and in all of a blob's life.

It is counted where they come in, by the fleet's clock, so that several servers of the API hold one limit. What was
stored counts for as long as it may be kept, whether or not it was stored before: an answer that told so would tell
what others have. What tasks store is bounded by their budgets and deadlines, and is not counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from .blobs import life_ms
from .errors import AllowanceSpent, Refused
from .limits import Limits

HOUR_MS = 3600 * 1000
# What those who only look have of each limit, in a count of their own: what strangers cause must not use up what the
# tenant itself may store.
LOOKING_SHARE = 8
MIB = 1024 * 1024


class Uploads(Protocol):
    async def take(self, tenant: str, size_bytes: int, *, looks: bool = False) -> None:
        """Count so many bytes, before they are stored. `AllowanceSpent` when they are over a limit of the tenant's,
        and then none is counted; `Refused` when no wait would help."""
        ...


@dataclass(frozen=True, slots=True)
class Allowed:
    """The limits of one count, and how they are refused; 0 is no limit."""

    hour_bytes: int
    all_bytes: int
    kept_hours: int

    @classmethod
    def of(cls, limits: Limits, *, looks: bool) -> Allowed:
        share = LOOKING_SHARE if looks else 1
        hour, in_all = limits.upload_hour_bytes // share, limits.upload_bytes // share
        return cls(hour, in_all, math.ceil(life_ms(limits.retention_ms) / HOUR_MS))

    def check_one(self, size_bytes: int) -> None:
        limit = min((limit for limit in (self.hour_bytes, self.all_bytes) if limit), default=size_bytes)
        if size_bytes > limit:
            said = f"{_mib(size_bytes)} are more than the {_mib(limit)} that may be stored at all"
            raise Refused("size", said, hint="send less, or have an operator raise MUSTER_UPLOAD_HOUR_BYTES")

    def spent(self, tenant: str, size_bytes: int, *, in_all: bool, left_bytes: int, wait_ms: int) -> AllowanceSpent:
        limit, when, setting = (
            (self.all_bytes, f"{self.kept_hours // 24} days", "MUSTER_UPLOAD_BYTES")
            if in_all
            else (self.hour_bytes, "an hour", "MUSTER_UPLOAD_HOUR_BYTES")
        )
        said = f"of the {_mib(limit)} that {tenant} may store within {when} {_mib(left_bytes)} are left"
        hint = f"come again in {_told(wait_ms)}, or have an operator raise {setting}"
        return AllowanceSpent(f"{said}, and this has {_mib(size_bytes)}", retry_after_s=wait_ms / 1000, hint=hint)


def count_of(tenant: str, *, looks: bool) -> str:
    """The name of a count: no tenant has a colon in its name."""
    return f"{tenant}:looks" if looks else tenant


def _mib(size_bytes: int) -> str:
    """
    >>> _mib(64 * MIB), _mib(100_000)
    ('64 MiB', '0.1 MiB')
    """
    return f"{math.ceil(10 * size_bytes / MIB) / 10:g} MiB"


def _told(wait_ms: int) -> str:
    minutes = math.ceil(wait_ms / 60_000)
    return f"{minutes} min" if minutes <= 120 else f"{math.ceil(minutes / 60)} h"
