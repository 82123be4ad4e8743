"""A change as files that people carry by hand: a patch series, or a bundle that needs its base."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from pathlib import Path

from .errors import BranchRefused, FolderMissing, full_disk
from .mirror import Mirror
from .publish import require_branch_name
from .scratch import scratch

SERIES = "series"  # the list of a folder's patches, as quilt and others read it
_MARK = "# muster "
OURS = "refs/muster/published"
_BUNDLE = re.compile(rb"# v\d git bundle\n(?:[@-].*\n)*(?:[0-9a-f]+ refs/.*\n)*?[0-9a-f]+ " + OURS.encode() + rb"\n")
_MAX_HEAD_BYTES = 64 * 1024  # of a bundle: its names, and a subject for each commit that it needs


async def write_series(mirror: Mirror, base: str, commit: str, folder: Path) -> list[Path]:
    """One mail for each commit after `base` (for `git am`), and the file `series`. All of it, or nothing.

    A folder that holds an earlier series of ours is replaced; any other that is not empty is refused.
    """
    _require_ours(folder)
    part = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.part")
    _make(part)
    try:
        with scratch(mirror.objects) as own:
            shape = ("--full-index", "--binary", "--no-ext-diff", "--no-textconv", "--no-signature", "--no-color")
            write = ("format-patch", "--quiet", *shape, "--output-directory", str(part.absolute()))
            await own.git(*write, "--end-of-options", f"{base}..{commit}")
        names = sorted(path.name for path in part.iterdir())
        (part / SERIES).write_text("".join(f"{line}\n" for line in (f"{_MARK}{base}..{commit}", *names)))
        shutil.rmtree(folder, ignore_errors=True)  # only ever what we wrote
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return [folder / name for name in names]


async def write_branch_bundle(mirror: Mirror, base: str, commit: str, branch: str, target: Path) -> None:
    """A bundle with `branch` at `commit`, for repositories that have `base`; whole, or not at all.

    An earlier bundle of ours is replaced; any other file is refused. Ours name the commit a second time, as `OURS`.
    """
    await require_branch_name(branch)
    _require_our_bundle(target)
    _make(target.parent)
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    ref = f"refs/heads/{branch}"
    try:
        with scratch(mirror.objects) as own:
            for name in (ref, OURS):
                await own.git("update-ref", name, commit)
            await own.git("bundle", "create", "--quiet", str(part.absolute()), f"^{base}", ref, OURS)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _require_ours(folder: Path) -> None:
    """What somebody put beside our patches would be lost with them."""
    listed = folder / SERIES
    ours = listed.read_text(errors="replace").splitlines() if listed.is_file() else []
    own = {SERIES, *ours[1:]} if ours and ours[0].startswith(_MARK) else set[str]()
    if folder.exists() and not {path.name for path in folder.iterdir()} <= own:
        raise BranchRefused(f"The folder {folder} holds other things", hint="name a folder that is new or empty")


def _require_our_bundle(target: Path) -> None:
    if not os.path.lexists(target):
        return
    head = b""
    if target.is_file() and not target.is_symlink():
        with target.open("rb") as stream:
            head = stream.read(_MAX_HEAD_BYTES)
    if not _BUNDLE.match(head):
        hint = "name another folder, or move what is there"
        raise BranchRefused(f"The file {target} is not a bundle of ours", hint=hint)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise full_disk(e, folder) or FolderMissing(
            f"The folder {folder} cannot be made: {e.strerror}", hint="name another one"
        ) from e
