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
from transport.blobs import MAX_BLOB_BYTES
from transport.blobs.base import Blobs

from .errors import BadInput
from .trust import TrustStore, trusted_digest

MIB = 1024 * 1024
TOO_MUCH_HISTORY = (
    "work in a clone without what is older (git clone --depth 1), keep large files in git LFS, or name the repository's"
    " address instead: `url` in a batch file"
)
TOO_LARGE = "send the part that matters"


async def packed(
    repository: Path | Place, blobs: Blobs, *, state_dir: Path, commit: str | None, setup: Sequence[str]
) -> Workspace:
    """The history of `commit` (None: of what is checked out) in one blob, with the trust that its user has in it."""
    place = repository if isinstance(repository, Place) else await locate(repository)
    base = commit or (await describe(place.root)).head
    with temporary_folder("pack") as folder:
        file = folder / "repository.bundle"
        await bundle(place, base, file)
        _require_fits(file.stat().st_size, f"the history of {place.root}", TOO_MUCH_HISTORY)
        return Workspace(
            bundle=await blobs.put(await asyncio.to_thread(file.read_bytes)),
            base=base,
            setup=tuple(setup),
            trusted=await trusted_digest(TrustStore(state_dir), place.root, place.git_dir, base),
        )


async def attached(content: bytes | Path, blobs: Blobs, *, name: str, media_type: str) -> Attachment:
    """A file, or bytes, in a blob. Without a name a file has its own, from which the kind is guessed, too."""
    size_bytes = (await asyncio.to_thread(content.stat)).st_size if isinstance(content, Path) else len(content)
    _require_fits(size_bytes, str(content) if isinstance(content, Path) else name or "the attachment", TOO_LARGE)
    data = await asyncio.to_thread(content.read_bytes) if isinstance(content, Path) else content
    name = name or (content.name if isinstance(content, Path) else "attachment")
    kind = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Attachment(blob=await blobs.put(data), name=name, media_type=kind, size_bytes=len(data))


def _require_fits(size_bytes: int, what: str, hint: str) -> None:
    """Before it is read: who holds a blob holds all of it in memory."""
    if size_bytes > MAX_BLOB_BYTES:
        size = f"{-(-size_bytes // MIB)} MiB, and a blob has {MAX_BLOB_BYTES // MIB} at most"
        raise BadInput(f"{what} takes {size}", hint=hint)
