"""The repositories that this machine keeps: their mirrors, checkouts and bundles; and which of them go.

A thing's lock file says when it was last used. What a sandbox has mounted is in use, and so is its mirror, against
which its patches are made.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from pathlib import Path

from .checkout import index_of
from .keeping import IN_USE_S, Allowance, Kept, surplus
from .lock import try_lock
from .mirror import take_incoming
from .removal import discard_tree
from .weight import sizes_bytes

MOUNTS = Path("/proc/self/mountinfo")
GONE = ".gone"  # on its way out: nobody finds it any more


async def kept_repositories(cache_dir: Path) -> list[Kept]:
    """Each mirror, checkout and bundle, by its path under `cache_dir`, which is absolute."""
    found = _things(cache_dir)
    sizes = await sizes_bytes(found)
    return [Kept(str(path.relative_to(cache_dir)), sizes.get(path, 0), used_at_s(path)) for path in found]


async def collect_repositories(cache_dir: Path, allowance: Allowance, *, now_s: float) -> list[Kept]:
    """Remove what is too much, unless it is at work; what went."""
    kept = await kept_repositories(cache_dir)
    await asyncio.to_thread(_remove_remains, cache_dir, now_s)
    due = surplus(kept, allowance, now_s)
    return [each for each in due if await asyncio.to_thread(_remove, cache_dir / each.name, cache_dir)]


def used_at_s(path: Path) -> float:
    """Now, for one that is going this very moment."""
    for stamp in (_lock_of(path), path):
        with suppress(FileNotFoundError):
            return stamp.stat().st_mtime
    return time.time()


def _things(root: Path) -> list[Path]:
    """Checkouts first: a mirror's are gone when its own turn comes."""
    checkouts = [path for path in root.glob("checkouts/*/*") if path.is_dir() and not path.suffix]
    return [*sorted(checkouts), *sorted(root.glob("bundles/*.bundle")), *sorted(root.glob("mirrors/*.git"))]


def _lock_of(path: Path) -> Path:
    """A bundle is its own: it is written once, and read by who has opened it already."""
    match path.suffix:
        case ".bundle":
            return path
        case ".git":
            return path.with_suffix(".lock")
        case _:
            return path.with_name(f"{path.name}.lock")


def _remove(path: Path, root: Path) -> bool:
    """Whether it went. Renamed first: whoever asks for it from then on makes it anew."""
    with try_lock(_lock_of(path)) as is_mine:
        if not is_mine or _is_at_work(path, root) or time.time() - used_at_s(path) < IN_USE_S:
            return False
        gone = path.with_name(path.name + GONE)
        _delete(gone)  # of one who was killed over it
        path.rename(gone)
        index_of(path).unlink(missing_ok=True)
        _delete(gone)
    return True


def _is_at_work(path: Path, root: Path) -> bool:
    mounted = set(re.findall(rf"{re.escape(str(root))}/checkouts/([0-9a-f]+)/([0-9a-f]+)", MOUNTS.read_text()))
    if path.suffix == ".git":
        return path.stem in {key for key, _ in mounted} or any(root.glob(f"checkouts/{path.stem}/*/"))
    return (path.parent.name, path.name) in mounted


def _remove_remains(root: Path, now_s: float) -> None:
    """What somebody was killed over: nobody else would ever come back to it."""
    for mirror in root.glob("mirrors/*.git"):
        with try_lock(_lock_of(mirror)) as is_mine:
            if is_mine:  # else somebody fetches into it
                take_incoming(mirror)
    for pattern in ("checkouts/*/*", "bundles/*", "mirrors/*"):
        for path in root.glob(pattern):
            with suppress(FileNotFoundError):
                if path.suffix in (GONE, ".part") and path.stat().st_mtime < now_s - IN_USE_S:
                    _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir():
        discard_tree(path)
    else:
        path.unlink(missing_ok=True)
