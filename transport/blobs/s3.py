"""Blobs in a bucket of a service that speaks S3. The only file that names obstore.

Credentials are obstore's to find: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN), a web identity,
a container's role, an instance's role. They are no setting of ours, so no file and no envelope of ours holds them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from envelope.ids import blob_ref
from envelope.redaction import register_secret

from ..errors import BlobsUnreachable, Misconfigured, TransportError
from .content import MAX_BLOB_BYTES, check_size, checked, digest_of, missing
from .life import Clock, Generations, life_ms, wall_clock_ms

if TYPE_CHECKING:  # these stand in obstore's stubs alone
    from obstore.store import ClientConfig, RetryConfig, S3Config

T = TypeVar("T")

# The largest blob over a line of 1 MB/s; a service that does not even take the connection is reported soon.
REQUEST_TIMEOUT = timedelta(minutes=5)
CONNECT_TIMEOUT = timedelta(seconds=5)
# A throttled or restarting service is back within seconds; after that it is the caller's to decide.
RETRY_TIMEOUT = timedelta(seconds=20)
MAX_RETRIES = 6

# S3's word for it. obstore has no exception for this: it may be a missing object's, or a general one.
NO_BUCKET = "NoSuchBucket"

# S3's own limits: names in one listing, and in one order to delete.
NAMES_AT_ONCE = 1000


def open_bucket(
    bucket: str,
    prefix: str,
    *,
    endpoint: str | None,
    region: str | None,
    retention_ms: int,
    clock: Clock = wall_clock_ms,
) -> S3Blobs:
    """`Misconfigured` when the names cannot be right; nothing is asked of the service yet."""
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        register_secret(os.environ.get(name, ""))
    where: S3Config = {}
    if endpoint:
        where["endpoint"] = endpoint
    if region:
        where["region"] = region
    client: ClientConfig = {
        "allow_http": bool(endpoint and endpoint.startswith("http://")),
        "timeout": REQUEST_TIMEOUT,
        "connect_timeout": CONNECT_TIMEOUT,
    }
    retries: RetryConfig = {"max_retries": MAX_RETRIES, "retry_timeout": RETRY_TIMEOUT}
    try:
        store = S3Store(bucket, prefix=prefix or None, config=where, client_options=client, retry_config=retries)
    except (BaseError, ValueError) as e:
        raise Misconfigured(f"the bucket {bucket} cannot be used: {_words(e)}", hint="check MUSTER_BLOBS") from e
    return S3Blobs(store, Generations(life_ms(retention_ms)), clock)


class S3Blobs:
    """One object per blob: `<prefix>/<generation>/<64 digits>`. Large ones go in parts, several at a time.

    A renewed blob is copied inside the service, once per generation: an object cannot be copied onto itself, which
    would make it young. The bucket is listed by `collect` alone.
    """

    def __init__(self, store: S3Store, generations: Generations, clock: Clock = wall_clock_ms) -> None:
        self._store = store
        self._generations = generations
        self._clock = clock

    async def put(self, content: bytes) -> str:
        check_size(content)
        ref = await asyncio.to_thread(blob_ref, content)  # of the largest, 0.2 s that belong to others
        path = f"{self._generations.current(self._clock())}/{digest_of(ref)}"
        if await self._size_of(path) != len(content):
            with _translated():
                await obstore.put_async(self._store, path, content)
        return ref

    async def put_all(self, contents: Sequence[bytes]) -> list[str]:
        return [await self.put(content) for content in contents]

    async def get(self, ref: str) -> bytes:
        digest, now_ms = digest_of(ref), self._clock()
        current = self._generations.current(now_ms)
        for generation in self._generations.readable(now_ms):
            content = await self._read(f"{generation}/{digest}")
            if content is not None:
                await asyncio.to_thread(checked, ref, content)
                if generation < current:
                    await self._renew(f"{generation}/{digest}", f"{current}/{digest}", content)
                return content
        raise missing(ref)

    async def collect(self, *, now_ms: int) -> int:
        with _translated():
            # untyped where pyarrow is not installed, whose tables it could give instead
            listed = await obstore.list_with_delimiter_async(self._store)  # pyright: ignore[reportUnknownMemberType]
            folders = listed["common_prefixes"]
        over = [folder for folder in folders if self._generations.is_over(folder, now_ms)]
        return sum([await self._drop(folder) for folder in over])

    async def _drop(self, folder: str) -> int:
        gone = 0
        with _translated():
            pages = obstore.list(self._store, folder, chunk_size=NAMES_AT_ONCE)  # pyright: ignore[reportUnknownMemberType]
            async for page in pages:
                await obstore.delete_async(self._store, [entry["path"] for entry in page])
                gone += len(page)
        return gone

    async def _size_of(self, path: str) -> int | None:
        found = await _unless_missing(obstore.head_async(self._store, path))
        return found["size"] if found else None

    async def _read(self, path: str) -> bytes | None:
        found = await _unless_missing(obstore.get_async(self._store, path))
        if found is None:
            return None
        if found.meta["size"] > MAX_BLOB_BYTES:  # not of our making: it must not fill the memory
            raise TransportError(f"the object {path} is larger than any blob")
        with _translated():
            return (await found.bytes_async()).to_bytes()

    async def _renew(self, old: str, new: str, content: bytes) -> None:
        if await _unless_missing(_done(obstore.copy_async(self._store, old, new))) is None:
            with _translated():  # collected in this moment
                await obstore.put_async(self._store, new, content)


async def _done(work: Awaitable[None]) -> bool:
    await work
    return True


async def _unless_missing(answer: Awaitable[T]) -> T | None:
    with _translated():
        try:
            return await answer
        except FileNotFoundError as e:
            if NO_BUCKET in str(e):
                raise
            return None


@contextmanager
def _translated() -> Generator[None]:
    """obstore's exceptions as ours."""
    try:
        yield
    except (BaseError, OSError) as e:
        raise _as_ours(e) from e


def _as_ours(error: Exception) -> TransportError:
    if NO_BUCKET in str(error):
        return Misconfigured("the bucket of blobs does not exist", hint="create it, or correct MUSTER_BLOBS")
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return Misconfigured(
            f"the store of blobs refuses us: {_words(error)}", hint="check AWS_ACCESS_KEY_ID and what its owner may do"
        )
    return BlobsUnreachable(
        f"the store of blobs does not answer: {_words(error)}", hint="check that it runs, and MUSTER_BLOBS"
    )


def _words(error: Exception) -> str:
    """The first line: what follows is a dump of the client's inner state."""
    return str(error).split("\n", 1)[0]
