"""Blobs as Redis strings, outside the cells' hash tags: in a cluster each lives where its own name says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from envelope.ids import blob_ref

from ..blobs import check_size, checked, life_ms
from ..blobs.content import digest_of, missing
from ..blobs.owners import EVERYBODY, marked_ms
from ..errors import NotPermitted, QueueFull
from .client import Client
from .exchange import Command

# The largest, over a slow line: 256 MiB at 2 MiB/s.
TRANSFER_TIMEOUT_S = 128.0


class RedisBlobs:
    """Redis forgets them by itself, each exactly at the end of its life. Reading is a write here: it renews."""

    def __init__(
        self,
        client_of: Callable[[str], Client],
        fleet: str,
        retention_ms: int,
        make_room: Callable[[], Awaitable[int]],
    ) -> None:
        """`make_room` is asked for when a server's memory is full; 0 when there is nothing to let go."""
        self._client_of = client_of
        self._make_room = make_room
        self._prefix = f"muster:{fleet}:blob:"
        self._life_ms = life_ms(retention_ms)

    async def put(self, content: bytes) -> str:
        return (await self.put_all([content]))[0]

    async def put_all(self, contents: Sequence[bytes]) -> list[str]:
        for content in contents:
            check_size(content)
        refs = [blob_ref(content) for content in contents]
        places: dict[Client, list[Command]] = {}  # in a cluster each name has its own
        for ref, content in zip(refs, contents, strict=True):
            name = self._prefix + ref
            places.setdefault(self._client_of(name), []).append(("SET", name, content, "PX", self._life_ms))
        await _put_at(places, self._make_room)
        return refs

    async def get(self, ref: str) -> bytes:
        digest_of(ref)
        content = await self._renewed(ref)
        if content is None:
            raise missing(ref)
        return checked(ref, content)

    async def collect(self, *, now_ms: int) -> int:
        return 0

    async def _renewed(self, ref: str) -> bytes | None:
        try:
            return await self._call("GETEX", ref, "PX", self._life_ms)
        except NotPermitted:  # a role that only reads renews nothing
            return await self._call("GET", ref)

    async def _call(self, command: str, ref: str, *rest: str | bytes | int) -> bytes | None:
        name = self._prefix + ref
        return await self._client_of(name).call(command, name, *rest, timeout_s=TRANSFER_TIMEOUT_S)


class RedisOwners:
    """A hash for each blob, beside it, whichever store has its content."""

    def __init__(
        self,
        client_of: Callable[[str], Client],
        fleet: str,
        retention_ms: int,
        make_room: Callable[[], Awaitable[int]],
    ) -> None:
        self._client_of = client_of
        self._make_room = make_room
        self._prefix = f"muster:{fleet}:blob:of:"
        self._life_ms = marked_ms(retention_ms)

    async def add(self, refs: Sequence[str], tenant: str) -> None:
        places: dict[Client, list[Command]] = {}
        for name in (self._prefix + ref for ref in refs):
            marks: list[Command] = [("HSET", name, tenant, 1), ("PEXPIRE", name, self._life_ms)]
            places.setdefault(self._client_of(name), []).extend(marks)
        await _put_at(places, self._make_room)

    async def may_read(self, ref: str, tenant: str) -> bool:
        name = self._prefix + ref
        look: Command = ("HMGET", name, tenant, EVERYBODY)
        try:
            owned, is_marked = await self._client_of(name).read_many([look, ("PEXPIRE", name, self._life_ms)])
        except NotPermitted:  # a role that only reads renews nothing, and speaks for nobody
            return tenant == EVERYBODY
        return tenant == EVERYBODY or not is_marked or any(owned)


async def _put_at(places: Mapping[Client, Sequence[Command]], make_room: Callable[[], Awaitable[int]]) -> None:
    """Again and again on a full server, as long as there is something to let go."""
    for client, commands in places.items():
        while True:
            try:
                await client.read_many(commands, timeout_s=TRANSFER_TIMEOUT_S)
            except QueueFull:
                if not await make_room():
                    raise
            else:
                break
