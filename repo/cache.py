"""The repositories that this machine keeps: their mirrors, checkouts and bundles; who works on them, and which go.

Beside each thing lie its lock file, which says when it was last used and is held by who makes or removes it, and a note
of how much of it which tenant has asked for. Who works on a thing holds it by another lock, on a file of its own, which
many share (`Use`). What a sandbox has mounted is in use, too, and so is its mirror, against which its patches are made.

All the rest may go at any time, and is made again where it is missed: once an hour what is too much, and at once what
stands in the way of somebody who makes something.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from .disk import Disk, Wish, worth_bytes
from .errors import full_disk
from .incoming import take_incoming
from .keeping import Allowance, Kept, giving_way, surplus
from .lock import file_lock, stamp_use, try_lock, try_share
from .removal import discard_tree
from .weight import NOTHING, More, Weight, sizes_bytes

MOUNTS = Path("/proc/self/mountinfo")
GONE = ".gone"  # on its way out: nobody finds it any more
NOTE = ".kept"
SUFFIXES = {"bundles": ".bundle", "mirrors": ".git"}
ROOM = "room.lock"  # held while somebody looks for room, and says how much he takes
FOLDERS = ("checkouts/*", "bundles", "mirrors")  # checkouts first: a mirror's are gone when its own turn comes
MAX_THINGS = 3000  # whose notes are read in a tenth of a second
MEASURE_EVERY_S = 60.0  # what diffs and merges write into mirrors: each is written to by many, and says nothing


class Use:
    """What one task works on here, and for which tenant: nobody removes that meanwhile. The kernel lets go of it for a
    process that has died."""

    def __init__(self, tenant: str = "") -> None:
        self.tenant = tenant
        self._held: dict[Path, int] = {}

    def take(self, thing: Path) -> bool:
        """Whether it is there, and so it stays until `close`."""
        if thing not in self._held and (descriptor := try_share(_held_file(thing))) is not None:
            if thing.exists():
                self._held[thing] = descriptor
            else:
                os.close(descriptor)
        return thing in self._held

    def close(self) -> None:
        while self._held:
            thing, descriptor = self._held.popitem()
            stamp_use(lock_of(thing))
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def is_there(thing: Path, use: Use | None) -> bool:
    """And stays for as long as it is used, if it is."""
    return use.take(thing) if use is not None else thing.exists()


def index_of(checkout: Path) -> Path:
    """The index that belongs to a checkout, outside of it, where no workspace can reach it."""
    return checkout.with_name(f"{checkout.name}.index")


def lock_of(thing: Path) -> Path:
    return thing.with_suffix(".lock") if thing.suffix else thing.with_name(f"{thing.name}.lock")


def _held_file(thing: Path) -> Path:
    """Written once, when the thing is made. It lies in no workspace, where a command could lock it."""
    match thing.suffix:
        case ".bundle":
            return thing
        case ".git":
            return thing / "HEAD"
        case _:
            return index_of(thing)


@dataclass(frozen=True, slots=True)
class _Note:
    """How much of a thing each tenant has asked for. Of that, `coming_bytes` are only being written, while its lock is
    held."""

    shares: Mapping[str, int]
    coming_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(self.shares.values())

    @property
    def owner(self) -> str:
        return max(self.shares, key=lambda tenant: self.shares[tenant], default="")

    def with_more(self, tenant: str, size_bytes: int, coming_bytes: int = 0) -> _Note:
        shares = {**self.shares, tenant: max(0, self.shares.get(tenant, 0) + size_bytes)}
        return _Note(shares, coming_bytes)


def noted_bytes(thing: Path) -> int:
    note = _read_note(thing)
    return note.size_bytes if note else 0


async def kept_repositories(cache_dir: Path) -> list[Kept]:
    """Each mirror, checkout and bundle, by its path under `cache_dir`, which is absolute."""
    return await asyncio.to_thread(_kept, cache_dir, await _all_grown(cache_dir))


async def collect_repositories(cache_dir: Path, allowance: Allowance, *, now_s: float) -> list[Kept]:
    """Remove what is too much, unless somebody works on it; what went."""
    grown = await _all_grown(cache_dir)
    kept = await asyncio.to_thread(_kept, cache_dir, grown)
    await asyncio.to_thread(_note_growth, grown)
    await asyncio.to_thread(_remove_remains, cache_dir)
    due = surplus(kept, allowance, now_s, in_use_s=0)
    return [each for each in due if await asyncio.to_thread(_remove, cache_dir / each.name, cache_dir)]


@asynccontextmanager
async def room_for(thing: Path, cache_dir: Path, use: Use | None, coming: Weight = NOTHING) -> AsyncGenerator[More]:
    """Room for what is made meanwhile; the caller holds the thing's lock. `DiskFull` where its tenant may have none.

    Where nobody can say before what comes, the caller calls what is yielded from time to time with how many bytes have
    come, for which it makes room in the same way.
    """
    root, tenant = _absolute(cache_dir), use.tenant if use is not None else ""
    before = _Note({})
    if is_there(thing, None):
        before = (await _grown({thing: await _measured(thing)}, [thing]))[thing]
    try:
        async with file_lock(root / ROOM):
            await _find_room(root, Wish(thing, tenant, coming))
            worth = worth_bytes(root, coming)
            _write_note(thing, before.with_more(tenant, worth, worth))
    except OSError as e:
        if full := full_disk(e, root):
            raise full from e
        raise
    try:
        yield _more(root, thing, tenant)
    finally:
        if is_there(thing, None):
            growth = (await sizes_bytes([thing])).get(thing, 0) - before.size_bytes
            growth = max(growth, worth_bytes(root, Weight(0, coming.files)))
            with suppress(OSError):  # on a disk that is full; then the note says what was foreseen
                _write_note(thing, before.with_more(tenant, growth))
        else:
            _note_of(thing).unlink(missing_ok=True)


def more_in(mirror: Path) -> More | None:
    """Room for what is written into a mirror that is kept here, and counts as of whoever it mostly belongs to; None for
    any other repository."""
    note = _read_note(mirror)
    return _more(mirror.parent.parent, mirror, note.owner) if note is not None else None


def _more(root: Path, thing: Path, tenant: str) -> More:
    async def more(come_bytes: int) -> None:
        async with file_lock(root / ROOM):
            await _find_room(root, Wish(thing, tenant, NOTHING, come_bytes))

    return more


async def _find_room(root: Path, wish: Wish) -> None:
    """`ROOM` is held."""
    notes = await asyncio.to_thread(_notes, root)
    if len(notes) > MAX_THINGS:
        await asyncio.to_thread(_thin_out, root, notes)
        notes = await asyncio.to_thread(_notes, root)
    things = await asyncio.to_thread(_things, root)
    for thing in [each for each in things if each not in notes]:
        notes[thing] = await _measured(thing)
    is_known = _stamped_s(root / ROOM) > time.time() - MEASURE_EVERY_S
    if not is_known or not await asyncio.to_thread(_make_room, root, wish, notes, only_look=True):
        grown = await _grown(notes, [each for each in things if each.suffix == ".git" and each != wish.thing])
        await asyncio.to_thread(_note_growth, grown)
        stamp_use(root / ROOM)
        await asyncio.to_thread(_make_room, root, wish, notes | grown)


def _thin_out(root: Path, notes: Mapping[Path, _Note]) -> None:
    """Of very many small things what is not at work goes, of who has most of them: all notes are read each time."""
    idle = [each for each in _kept(root, notes) if _is_idle(root / each.name)]
    counts, left = Counter(note.owner for note in notes.values()), len(notes)
    for each in giving_way(idle, counts):
        if left <= MAX_THINGS * 9 // 10:  # and then for a while not again
            return
        if _remove(root / each.name, root):
            counts[each.owner] -= 1
            left -= 1


def _make_room(root: Path, wish: Wish, notes: Mapping[Path, _Note], *, only_look: bool = False) -> bool:
    """Whether there is room. What is not at work goes, of who has most, until there is; `DiskFull` where that is not
    enough."""
    shares = [note.shares for note in notes.values()]
    elsewhere_bytes = sum(note.coming_bytes for thing, note in notes.items() if thing != wish.thing)
    disk, best = (Disk(root, wish, shares, elsewhere_bytes) for _ in range(2))
    if only_look or disk.has_room():
        return disk.has_room()
    _remove_remains(root)
    idle = [each for each in _kept(root, notes) if root / each.name != wish.thing and _is_idle(root / each.name)]
    for each in idle:
        best.lose(notes[root / each.name].shares)
    for each in giving_way(idle, disk.held_bytes):
        if disk.has_room() or not (best.has_bytes() or (best.has_little() and not disk.has_little())):
            break  # nobody's things go where that does not help
        if _remove(root / each.name, root):
            disk.lose(notes[root / each.name].shares)
    if disk.has_room() or disk.has_little():
        return True
    raise disk.full()


def _absolute(path: Path) -> Path:
    return path.absolute()


def used_at_s(path: Path) -> float:
    """Now, for one that is going this very moment."""
    for stamp in (lock_of(path), path):
        with suppress(FileNotFoundError):
            return _stamped_s(stamp)
    return time.time()


def _stamped_s(path: Path) -> float:
    return path.stat().st_mtime


def _things(root: Path) -> list[Path]:
    checkouts = [path for path in root.glob("checkouts/*/*") if not path.suffix and path.is_dir()]
    return [*sorted(checkouts), *sorted(root.glob("bundles/*.bundle")), *sorted(root.glob("mirrors/*.git"))]


def _kept(root: Path, notes: Mapping[Path, _Note]) -> list[Kept]:
    """A mirror is used with each of its checkouts, behind which it stands."""
    found, used = list[Kept](), dict[str, float]()
    for path in _things(root):
        if (note := notes.get(path)) is None:
            continue
        used_s, key = used_at_s(path), path.stem if path.suffix == ".git" else path.parent.name
        used[key] = max(used.get(key, 0), used_s)
        at_s = used[key] if path.suffix == ".git" else used_s
        found.append(Kept(str(path.relative_to(root)), note.size_bytes, at_s, note.owner))
    return found


def _note_of(thing: Path) -> Path:
    return thing.with_name(thing.name + NOTE)


def _read_note(thing: Path) -> _Note | None:
    try:
        told = json.loads(_note_of(thing).read_text())
        return _Note({str(tenant): int(size) for tenant, size in told["shares"].items()}, int(told["coming_bytes"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write_note(thing: Path, note: _Note) -> None:
    target = _note_of(thing)
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        part.write_text(json.dumps({"shares": dict(note.shares), "coming_bytes": note.coming_bytes}))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _notes(root: Path) -> dict[Path, _Note]:
    """Of all things. What a dead process was about to make does not come any more."""
    found: dict[Path, _Note] = {}
    for file in (file for folder in FOLDERS for file in root.glob(f"{folder}/*{NOTE}")):
        thing = file.with_suffix("")
        if (note := _read_note(thing)) is None:
            continue
        if note.coming_bytes:
            with try_lock(lock_of(thing)) as is_left:
                if is_left and not thing.exists():
                    file.unlink(missing_ok=True)
                    continue
                note = replace(note, coming_bytes=0) if is_left else note
        found[thing] = note
    return found


async def _measured(thing: Path) -> _Note:
    """What an older release has made is nobody's."""
    if (note := _read_note(thing)) is None:
        note = _Note({"": (await sizes_bytes([thing])).get(thing, 0)})
        with suppress(OSError):  # on a disk that is full; then it is measured again
            _write_note(thing, note)
    return note


async def _grown(notes: Mapping[Path, _Note], things: Sequence[Path]) -> dict[Path, _Note]:
    """As they are by now, and never less than was noted. Merges have written to a mirror, for whoever it mostly
    belongs to."""
    sizes, nobodys = await sizes_bytes(things), _Note({})
    before = {thing: notes.get(thing, nobodys) for thing in things}
    return {
        thing: note.with_more(note.owner, max(0, sizes.get(thing, 0) - note.size_bytes), note.coming_bytes)
        for thing, note in before.items()
    }


async def _all_grown(root: Path) -> dict[Path, _Note]:
    notes = await asyncio.to_thread(_notes, root)
    return await _grown(notes, await asyncio.to_thread(_things, root))


def _note_growth(grown: Mapping[Path, _Note]) -> None:
    for thing, note in grown.items():
        with try_lock(lock_of(thing)) as is_mine, suppress(OSError):  # else who makes it says so
            if is_mine and thing.exists():
                _write_note(thing, note)


def _is_idle(thing: Path) -> bool:
    """Just now: `_remove` looks again."""
    if not (held := _held_file(thing)).exists():
        return True
    with try_lock(lock_of(thing)) as is_mine, try_lock(held) as is_idle:
        return is_mine and is_idle


def _remove(path: Path, root: Path) -> bool:
    """Whether it went. Renamed first: whoever asks for it from then on makes it anew."""
    with try_lock(lock := lock_of(path)) as is_mine:
        if not is_mine or not path.exists() or _is_mounted(path, root):
            return False
        gone = path.with_name(path.name + GONE)
        with try_lock(_held_file(path)) as is_idle:
            if not is_idle:
                return False
            _delete(gone)  # of one who was killed over it
            path.rename(gone)
            index_of(path).unlink(missing_ok=True)
        _note_of(path).unlink(missing_ok=True)
        _delete(gone)
        lock.unlink(missing_ok=True)
    _remove_if_empty(path.parent)
    return True


def _is_mounted(path: Path, root: Path) -> bool:
    mounted = set(re.findall(rf"{re.escape(str(root))}/checkouts/([0-9a-f]+)/([0-9a-f]+)", MOUNTS.read_text()))
    if path.suffix == ".git":
        return path.stem in {key for key, _ in mounted} or any(root.glob(f"checkouts/{path.stem}/*/"))
    return (path.parent.name, path.name) in mounted


def _remove_remains(root: Path) -> None:
    """What somebody was killed over: nobody else would ever come back to it."""
    for mirror in root.glob("mirrors/*.git"):
        with try_lock(lock_of(mirror)) as is_mine:
            if is_mine:  # else somebody fetches into it
                take_incoming(mirror)
    for path in (path for folder in FOLDERS for kind in (GONE, ".part") for path in root.glob(f"{folder}/*{kind}")):
        end = ".bundle" if path.parent.name == "bundles" else "."
        with try_lock(path.with_name(f"{path.name.partition(end)[0]}.lock")) as is_mine:
            if is_mine:
                _delete(path)
    for lock in (lock for folder in FOLDERS for lock in root.glob(f"{folder}/*.lock")):
        if not lock.with_suffix(SUFFIXES.get(lock.parent.name, "")).exists():  # it could not be made
            with try_lock(lock) as is_mine:
                if is_mine:
                    lock.unlink(missing_ok=True)
    for folder in root.glob("checkouts/*"):
        _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> None:
    if folder.parent.name == "checkouts":
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def _delete(path: Path) -> None:
    if path.is_dir():
        discard_tree(path)
    else:
        path.unlink(missing_ok=True)
