"""The registry on Redis: a hash for each table. Its names are outside of what the ACL gives to workers and readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .client import Client

# A server whose memory is full looks at a script's first write alone, and this one needs none: to revoke a token, or to
# sign out, waits for no room.
_PUT = "redis.call('HDEL', KEYS[1], '') return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])"
PLACE = "muster:{fleet}:registry:{table}"  # as `users.acl` has it


class RedisRegistry:
    def __init__(self, client_of: Callable[[str], Client], fleet: str) -> None:
        self._client_of = client_of
        self._fleet = fleet

    async def get(self, table: str, field: str) -> bytes | None:
        client, name = self._at(table)
        return await client.call("HGET", name, field)

    async def rows(self, table: str) -> Mapping[str, bytes]:
        client, name = self._at(table)
        found: list[bytes] = await client.call("HGETALL", name)
        return {field.decode(): value for field, value in zip(found[::2], found[1::2], strict=True)}

    async def add(self, table: str, field: str, value: bytes) -> bool:
        """A repeated command, whose first answer was lost, finds its own value."""
        client, name = self._at(table)
        return bool(await client.call("HSETNX", name, field, value)) or await self.get(table, field) == value

    async def put(self, table: str, field: str, value: bytes) -> None:
        client, name = self._at(table)
        await client.call("EVAL", _PUT, 1, name, field, value)

    async def remove(self, table: str, *fields: str) -> None:
        client, name = self._at(table)
        if fields:
            await client.call("HDEL", name, *fields)

    def _at(self, table: str) -> tuple[Client, str]:
        name = PLACE.format(fleet=self._fleet, table=table)
        return self._client_of(name), name
