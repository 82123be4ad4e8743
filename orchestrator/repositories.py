"""From blobs and messages to repositories and patches, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from envelope.messages import Attachment, FileStat, PatchRef
from envelope.scope import Scope, allows
from repo.bundle import bundle
from repo.cache import Use
from repo.changes import FileChange
from repo.merge_sides import Changeset
from repo.mirror import Mirror, mirror_of
from repo.patch import patch_between
from repo.temporary import temporary_folder
from transport.blobs.base import Blobs

# A result is at most 1 MiB; a file's line is about 80 bytes. The diff itself, in its blob, is always whole.
MAX_LISTED_FILES = 2_000
BUNDLE_TYPE = "application/x-git-bundle"


async def fetch_mirror(blobs: Blobs, cache_dir: Path, *, bundle_ref: str, base: str, use: Use | None = None) -> Mirror:
    """The repository in a bundle blob, unpacked once: whoever has the blob's name may have what is in it. It stays for
    as long as `use` does."""
    with temporary_folder("bundle") as folder:
        packed = folder / "repository.bundle"
        content = await blobs.get(bundle_ref)
        await asyncio.to_thread(packed.write_bytes, content)
        return await mirror_of(cache_dir, bundle=packed, commit=base, shared_by=[bundle_ref], use=use)


async def reference(
    mirror: Mirror, blobs: Blobs, base: str, commit: str, *, max_files: int | None = MAX_LISTED_FILES
) -> PatchRef:
    """The change from `base` to `commit` as it travels; its diff is stored as a blob.

    Whoever merges it needs all of its files: None for what stays in this process.
    """
    patch = await patch_between(mirror, base, commit)
    return PatchRef(
        base=base,
        diff=await blobs.put(patch.diff),
        files=tuple(_stat(change) for change in patch.files[:max_files]),
        added=sum(change.added or 0 for change in patch.files),
        removed=sum(change.removed or 0 for change in patch.files),
        tree=patch.tree,
    )


async def attach_bundle(mirror: Mirror, blobs: Blobs, commit: str, name: str) -> Attachment:
    """The commit with its history as an attachment, from which anybody can set a branch."""
    with temporary_folder("bundle") as folder:
        packed = folder / "merged.bundle"
        await bundle(mirror.git_dir, commit, packed)
        content = await asyncio.to_thread(packed.read_bytes)
    return Attachment(blob=await blobs.put(content), name=name, media_type=BUNDLE_TYPE, size_bytes=len(content))


async def as_changeset(blobs: Blobs, key: str, title: str, patch: PatchRef, scope: Scope | None = None) -> Changeset:
    """`scope`: of whoever made it, which holds for what a merge makes of it, too."""
    files = tuple(FileChange(f.path, f.status, f.old_path, f.added, f.removed, mode="") for f in patch.files)
    return Changeset(key, await blobs.get(patch.diff), title, files, None if scope is None else editable(scope))


def editable(scope: Scope) -> Callable[[str], bool]:
    """Whether a path may be edited within it."""
    return partial(allows, scope, "edit")


def paths_of(patch: PatchRef) -> list[str]:
    """Every path that a patch says it touches, both sides of a rename."""
    return [path for file in patch.files for path in (file.old_path, file.path) if path is not None]


def _stat(change: FileChange) -> FileStat:
    return FileStat.model_validate(
        {
            "path": change.path,
            "status": change.status,
            "old_path": change.old_path,
            "added": change.added,
            "removed": change.removed,
        }
    )
