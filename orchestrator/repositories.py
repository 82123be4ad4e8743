"""From blobs and messages to repositories and patches, and back."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from envelope.messages import Attachment, FileStat, PatchRef
from repo.bundle import bundle
from repo.changes import FileChange, changes_between
from repo.git import git
from repo.merge import Shard
from repo.mirror import Mirror, mirror_of
from repo.patch import DIFF_OPTIONS
from repo.scratch import scratch
from transport.base import Blobs

# A result is at most 1 MiB; a file's line is about 80 bytes. The diff itself, in its blob, is always whole.
MAX_LISTED_FILES = 2_000
BUNDLE_TYPE = "application/x-git-bundle"
REGULAR_FILES = (b"100644", b"100755")


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit changes against its base: the diff's bytes, and the reference that travels."""

    diff: bytes
    patch: PatchRef


async def fetch_mirror(blobs: Blobs, cache_dir: Path, *, bundle_ref: str, base: str) -> Mirror:
    """The repository in a bundle blob, unpacked once per base commit."""
    with tempfile.TemporaryDirectory(prefix="muster-bundle-") as folder:
        packed = Path(folder) / "repository.bundle"
        content = await blobs.get(bundle_ref)
        await asyncio.to_thread(packed.write_bytes, content)
        return await mirror_of(cache_dir, bundle=packed, commit=base)


async def files_at(mirror: Mirror, commit: str) -> list[str]:
    """Regular files of a commit. Links and submodules are nobody's shard; nor are names that are not UTF-8."""
    listed = await git("ls-tree", "-r", "-z", "--full-tree", commit, git_dir=mirror.git_dir)
    entries = [entry.split(b"\t", 1) for entry in listed.fields]
    paths = [path for attributes, path in entries if attributes.split(b" ", 1)[0] in REGULAR_FILES]
    return [path.decode() for path in paths if _is_utf8(path)]


async def change_between(mirror: Mirror, blobs: Blobs, base: str, commit: str) -> Change:
    """The change from `base` to `commit`; its diff is stored as a blob."""
    base_tree, tree = await tree_of(mirror, base), await tree_of(mirror, commit)
    written = await git("diff-tree", *DIFF_OPTIONS, base_tree, tree, git_dir=mirror.git_dir)
    with scratch(mirror.objects) as own:
        files = tuple(change.as_file_change() for change in await changes_between(own, base_tree, tree))
    patch = PatchRef(
        base=base,
        diff=await blobs.put(written.stdout),
        files=tuple(_stat(change) for change in files[:MAX_LISTED_FILES]),
        added=sum(change.added or 0 for change in files),
        removed=sum(change.removed or 0 for change in files),
        tree=tree,
    )
    return Change(written.stdout, patch)


async def tree_of(mirror: Mirror, commit: str) -> str:
    return (await git("rev-parse", "--verify", f"{commit}^{{tree}}", git_dir=mirror.git_dir)).line


async def attach_bundle(mirror: Mirror, blobs: Blobs, commit: str, name: str) -> Attachment:
    """The commit with its history as an attachment, from which anybody can set a branch."""
    with tempfile.TemporaryDirectory(prefix="muster-bundle-") as folder:
        packed = Path(folder) / "merged.bundle"
        await bundle(mirror.git_dir, commit, packed)
        content = await asyncio.to_thread(packed.read_bytes)
    return Attachment(blob=await blobs.put(content), name=name, media_type=BUNDLE_TYPE, size_bytes=len(content))


async def as_shard(blobs: Blobs, key: str, title: str, patch: PatchRef) -> Shard:
    files = tuple(FileChange(f.path, f.status, f.old_path, f.added, f.removed, mode="") for f in patch.files)
    return Shard(key, await blobs.get(patch.diff), title, files)


def paths_of(patch: PatchRef) -> list[str]:
    """Every path that a patch says it touches, both sides of a rename."""
    return [path for file in patch.files for path in (file.old_path, file.path) if path is not None]


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


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
