"""The four stores of blobs, each with the time that passes for it: nothing here waits for a clock."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import obstore
import pytest
import pytest_asyncio
import redis.asyncio
from moto.server import ThreadedMotoServer

from envelope.ids import new_trace_id
from transport.blobs import DirectoryBlobs, MemoryBlobs
from transport.blobs.base import Blobs
from transport.blobs.life import GENERATION_MS
from transport.blobs.s3 import open_bucket
from transport.limits import Limits

RETENTION_MS = Limits().retention_ms
# Stores that keep generations are begun where one of them ends: one millisecond later is the next.
BEGUN_MS = 7000 * GENERATION_MS - 1
BUCKET = "muster-test"


class Shelf(ABC):
    """A store as the contract's tests need it."""

    store: Any  # Blobs; the tests of one store also look inside it

    @abstractmethod
    async def pass_time(self, ms: int) -> int:
        """Let time go by, then collect; how many went, as the store says."""

    @abstractmethod
    async def tamper(self, ref: str, content: bytes) -> None: ...

    @abstractmethod
    async def size(self) -> int:
        """How many blobs lie there."""


class ClockedShelf(Shelf):
    def __init__(self, open_at: Callable[[Callable[[], int]], Blobs]) -> None:
        self.now_ms = BEGUN_MS
        self.store = open_at(lambda: self.now_ms)

    async def pass_time(self, ms: int) -> int:
        self.now_ms += ms
        return await self.store.collect(now_ms=self.now_ms)


class MemoryShelf(ClockedShelf):
    def __init__(self) -> None:
        super().__init__(lambda clock: MemoryBlobs(retention_ms=RETENTION_MS, clock=clock))

    async def tamper(self, ref: str, content: bytes) -> None:
        self.store._contents[ref] = content

    async def size(self) -> int:
        return len(self.store._contents)


class DirectoryShelf(ClockedShelf):
    def __init__(self, root: Path) -> None:
        super().__init__(lambda clock: DirectoryBlobs(root, retention_ms=RETENTION_MS, clock=clock))
        self.root = root

    async def tamper(self, ref: str, content: bytes) -> None:
        for path in self.files():
            if path.name == ref.removeprefix("sha256:"):
                path.write_bytes(content)

    async def size(self) -> int:
        return len({path.name for path in self.files()})

    def files(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file()]


class S3Shelf(ClockedShelf):
    def __init__(self, endpoint: str) -> None:
        super().__init__(
            lambda clock: open_bucket(
                BUCKET, new_trace_id(), endpoint=endpoint, region="eu-west-1", retention_ms=RETENTION_MS, clock=clock
            )
        )

    async def tamper(self, ref: str, content: bytes) -> None:
        for path in await self.paths():
            if path.endswith(ref.removeprefix("sha256:")):
                await obstore.put_async(self.store._store, path, content)

    async def size(self) -> int:
        return len({path.rpartition("/")[2] for path in await self.paths()})

    async def paths(self) -> list[str]:
        return [entry["path"] async for page in obstore.list(self.store._store) for entry in page]


class RedisShelf(Shelf):
    def __init__(self, store: Blobs, server: redis.asyncio.Redis, pattern: str) -> None:
        self.store = store
        self._server = server
        self._pattern = pattern

    async def pass_time(self, ms: int) -> int:
        """The server's own clock cannot be moved: instead, every key comes this much closer to its end."""
        async for key in self._server.scan_iter(self._pattern):
            await self._server.pexpire(key, await self._server.pttl(key) - ms)
        return await self.store.collect(now_ms=0)

    async def tamper(self, ref: str, content: bytes) -> None:
        await self._server.set(self._pattern.replace("*", ref), content, keepttl=True)

    async def size(self) -> int:
        """Without the marks of whose they are, which outlive them."""
        return len([key async for key in self._server.scan_iter(self._pattern.replace("*", "sha256:*"))])


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """A server that speaks S3 (moto's), with one bucket."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test-access-key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret-key")
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        make_bucket(endpoint, BUCKET)
        yield endpoint
        server.stop()


def make_bucket(endpoint: str, name: str) -> None:
    where = {"LocationConstraint": "eu-west-1"}
    boto3.client("s3", endpoint_url=endpoint, region_name="eu-west-1").create_bucket(
        Bucket=name, CreateBucketConfiguration=where
    )


@pytest_asyncio.fixture
async def redis_shelf(make_redis_fleet) -> AsyncIterator[RedisShelf]:
    fleet = await make_redis_fleet(Limits(retention_ms=RETENTION_MS))
    async with redis.asyncio.from_url(fleet.url) as server:
        yield RedisShelf(fleet.transport.blobs, server, f"muster:{fleet.name}:blob:*")


@pytest.fixture
def memory_shelf() -> MemoryShelf:
    return MemoryShelf()


@pytest.fixture
def directory_shelf(tmp_path) -> DirectoryShelf:
    return DirectoryShelf(tmp_path / "blobs")


@pytest.fixture
def s3_shelf(s3_endpoint) -> S3Shelf:
    return S3Shelf(s3_endpoint)


@pytest.fixture(params=["memory", "directory", "s3", pytest.param("redis", marks=pytest.mark.redis)])
def shelf(request: pytest.FixtureRequest) -> Shelf:
    return request.getfixturevalue(f"{request.param}_shelf")
