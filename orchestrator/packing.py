"""Local repositories and files, as what workers can fetch."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Sequence
from pathlib import Path

from envelope.messages import Attachment, Workspace
from repo.bundle import bundle
from repo.local import Place, describe, locate
from repo.temporary import temporary_folder
from transport.blobs.base import Blobs

from .trust import TrustStore, trusted_digest


async def packed(
    repository: Path | Place, blobs: Blobs, *, state_dir: Path, commit: str | None, setup: Sequence[str]
) -> Workspace:
    """The history of `commit` (None: of what is checked out) in one blob, with the trust that its user has in it."""
    place = repository if isinstance(repository, Place) else await locate(repository)
    base = commit or (await describe(place.root)).head
    with temporary_folder("pack") as folder:
        file = folder / "repository.bundle"
        await bundle(place, base, file)
        return Workspace(
            bundle=await blobs.put(await asyncio.to_thread(file.read_bytes)),
            base=base,
            setup=tuple(setup),
            trusted=await trusted_digest(TrustStore(state_dir), place.root, place.git_dir, base),
        )


async def attached(content: bytes | Path, blobs: Blobs, *, name: str, media_type: str) -> Attachment:
    """A file, or bytes, in a blob. Without a name a file has its own, from which the kind is guessed, too."""
    data = await asyncio.to_thread(content.read_bytes) if isinstance(content, Path) else content
    name = name or (content.name if isinstance(content, Path) else "attachment")
    kind = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Attachment(blob=await blobs.put(data), name=name, media_type=kind, size_bytes=len(data))
