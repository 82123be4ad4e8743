"""Whose a blob is: who names its digest has it only where somebody of the same tenant has stored it.

Digests come out of requests, and requests out of callers and models. So a task reads blobs as its tenant, and so does
a caller of the API: what a tenant stored is marked as its own, and read again by it alone. The same content that two
have stored is both's, and neither is told of the other: what is another's is as what is not there, in the same words
and before the content is looked for. Who speaks for no tenant (a command on the fleet's own Redis, a job of the
orchestrators) reads all, and stores for everybody.

A mark is made before the content is stored, and outlives it. So a blob without marks was stored by a release that
made none, and is read as it was then: such blobs are gone one life after the last of its processes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from envelope.ids import blob_ref

from .base import Blobs
from .content import check_size, digest_of, missing
from .life import GENERATION_MS, LEEWAY_MS, life_ms

EVERYBODY = "*"

_tenant: ContextVar[str] = ContextVar("tenant", default=EVERYBODY)


@contextmanager
def acting_for(tenant: str) -> Generator[None]:
    """All that is stored and read meanwhile, by this task and those that it starts, is so for this tenant."""
    before = _tenant.set(tenant)
    try:
        yield
    finally:
        _tenant.reset(before)


def acting_tenant() -> str:
    """For who keeps what was read, and must not hand it to another's task."""
    return _tenant.get()


def marked_ms(retention_ms: int) -> int:
    """How long a mark stays after its blob was put or read: longer than the blob, wherever that is."""
    return life_ms(retention_ms) + GENERATION_MS + LEEWAY_MS


class Owners(Protocol):
    async def add(self, refs: Sequence[str], tenant: str) -> None: ...

    async def may_read(self, ref: str, tenant: str) -> bool:
        """Also where nobody owns it. Renews the marks."""
        ...


@dataclass(frozen=True, slots=True)
class OwnedBlobs:
    """A store in which each tenant finds its own."""

    blobs: Blobs
    owners: Owners

    async def put(self, content: bytes) -> str:
        return (await self.put_all([content]))[0]

    async def put_all(self, contents: Sequence[bytes]) -> list[str]:
        for content in contents:
            check_size(content)
        await self.owners.add([blob_ref(content) for content in contents], _tenant.get())
        return await self.blobs.put_all(contents)

    async def get(self, ref: str) -> bytes:
        digest_of(ref)
        if not await self.owners.may_read(ref, _tenant.get()):
            raise missing(ref)
        return await self.blobs.get(ref)

    async def collect(self, *, now_ms: int) -> int:
        return await self.blobs.collect(now_ms=now_ms)


class MemoryOwners:
    """The model for the others."""

    def __init__(self) -> None:
        self._owners: dict[str, set[str]] = {}

    async def add(self, refs: Sequence[str], tenant: str) -> None:
        for ref in refs:
            self._owners.setdefault(ref, set()).add(tenant)

    async def may_read(self, ref: str, tenant: str) -> bool:
        owners = self._owners.get(ref)
        return tenant == EVERYBODY or owners is None or not owners.isdisjoint((tenant, EVERYBODY))
