"""What orchestrators alone keep in the store: small tables under names that a worker's user may neither read nor write.

Who may call the API stands here, who has signed out, and how far the audit log was seen: a worker's stolen password
must not reach any of it. Every process of the fleet sees a change at its next look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Registry(Protocol):
    """Tables of fields, which stay until they are removed. `NotPermitted` where the store's user is a worker's."""

    async def get(self, table: str, field: str) -> bytes | None: ...

    async def rows(self, table: str) -> Mapping[str, bytes]: ...

    async def add(self, table: str, field: str, value: bytes) -> bool:
        """False, and nothing happens, where the field holds another value already."""
        ...

    async def put(self, table: str, field: str, value: bytes) -> None: ...

    async def remove(self, table: str, *fields: str) -> None: ...


class MemoryRegistry:
    def __init__(self) -> None:
        self._tables: dict[str, dict[str, bytes]] = {}

    async def get(self, table: str, field: str) -> bytes | None:
        return self._table(table).get(field)

    async def rows(self, table: str) -> Mapping[str, bytes]:
        return dict(self._table(table))

    async def add(self, table: str, field: str, value: bytes) -> bool:
        return self._table(table).setdefault(field, value) == value

    async def put(self, table: str, field: str, value: bytes) -> None:
        self._table(table)[field] = value

    async def remove(self, table: str, *fields: str) -> None:
        for field in fields:
            self._table(table).pop(field, None)

    def _table(self, table: str) -> dict[str, bytes]:
        return self._tables.setdefault(table, {})
