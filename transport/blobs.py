"""Large things, by the SHA-256 of their content: written once, checked whenever they are read."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from envelope.ids import blob_ref

from .base import Blobs
from .errors import NotFound, Refused, TransportError

# A bundle of a big repository; beyond this a store with parts (S3) is the right place.
MAX_BLOB_BYTES = 256 * 1024 * 1024
# The size above which values travel as blobs at all: what is smaller costs Redis no more than its own envelope.
SMALL_BYTES = 32 * 1024

_REF = re.compile(r"sha256:[0-9a-f]{64}")


def check_size(content: bytes) -> None:
    if len(content) > MAX_BLOB_BYTES:
        raise Refused("blob", f"{len(content)} bytes are over the limit of {MAX_BLOB_BYTES}")


def checked(ref: str, content: bytes) -> bytes:
    """The content, when it is what its name says."""
    if blob_ref(content) != ref:
        raise TransportError(f"the blob {ref} was changed in its store", hint="restore it, or run the task again")
    return content


class MemoryBlobs:
    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    async def put(self, content: bytes) -> str:
        check_size(content)
        ref = blob_ref(content)
        self._contents[ref] = content
        return ref

    async def get(self, ref: str) -> bytes:
        if ref not in self._contents:
            raise NotFound(f"there is no blob {ref}")
        return checked(ref, self._contents[ref])


@dataclass(frozen=True, slots=True)
class DirectoryBlobs:
    """One file per blob, in 256 folders. Files appear whole: they are written beside, then renamed."""

    root: Path

    async def put(self, content: bytes) -> str:
        check_size(content)
        return await asyncio.to_thread(self._put, content)

    async def get(self, ref: str) -> bytes:
        return await asyncio.to_thread(self._get, ref)

    def _put(self, content: bytes) -> str:
        ref = blob_ref(content)
        path = self._path(ref)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".draft-")
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(draft).replace(path)
        return ref

    def _get(self, ref: str) -> bytes:
        try:
            return checked(ref, self._path(ref).read_bytes())
        except FileNotFoundError as error:
            raise NotFound(f"there is no blob {ref}") from error

    def _path(self, ref: str) -> Path:
        # refs come out of envelopes: one that is not a digest must not become a path
        if not _REF.fullmatch(ref):
            raise NotFound(f"there is no blob {ref}")
        digest = ref.removeprefix("sha256:")
        return self.root / digest[:2] / digest


@dataclass(frozen=True, slots=True)
class TieredBlobs:
    """Small ones where every machine of the fleet reaches them fast, large ones where they do not cost memory."""

    small: Blobs
    large: Blobs
    limit_bytes: int = SMALL_BYTES

    async def put(self, content: bytes) -> str:
        return await (self.small if len(content) <= self.limit_bytes else self.large).put(content)

    async def get(self, ref: str) -> bytes:
        try:
            return await self.small.get(ref)
        except NotFound:
            return await self.large.get(ref)
