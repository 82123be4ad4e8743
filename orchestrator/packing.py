"""A local repository, as what workers can fetch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from envelope.messages import Workspace
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
