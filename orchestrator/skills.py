"""The skills of this machine's user: brought to the folder that workers read, and pinned by hash.

A lock file beside the folder says what each was when somebody looked at it. Workers use nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from envelope.skills import FOLDER, KEY, LOCK_NAME, SKILL_FILE, Pin, SkillLock, lock_text, read_lock
from repo.content import blobs_of, file_at
from repo.errors import FolderRefused, OutputTooLarge, RepositoryMissing
from repo.folder import MAX_FILE_BYTES, MAX_FILES, Entry, digest_of, entries_in

from .batch.spec import Repository
from .batch.starts import fetched, remote_at
from .errors import BadInput, near_miss
from .publication.address import read_address
from .publication.settings import ForgeSettings

MAX_NAMED = 5  # skills in a folder that is none itself
NameOf = Callable[[str, bytes], str]  # of a SKILL.md; see `AgentFiles.skill_name`


@dataclass(frozen=True, slots=True)
class Brought:
    """A skill as it was found somewhere. `key`: its folder's name here; empty: its own name."""

    entries: tuple[Entry, ...]
    source: str
    commit: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """`fault` is empty for what is as it was pinned."""

    key: str
    pin: Pin | None
    fault: str = ""


class SkillStore:
    def __init__(self, user_dir: Path) -> None:
        self.folder = user_dir / FOLDER
        self._lock = user_dir / LOCK_NAME

    def lock(self) -> SkillLock:
        """`BadLock` for a file that is not ours."""
        return read_lock(self._lock.read_bytes()) if self._lock.exists() else SkillLock()

    def found_at(self, path: Path) -> Brought:
        """A folder of this machine. One that lies here already is only looked at."""
        place = path.resolve()
        if not (place / SKILL_FILE).is_file():
            raise BadInput(f"{path} has no {SKILL_FILE}", hint=_others(place))
        here = self.folder.resolve()
        if place.is_relative_to(here) and place != here:
            return Brought(entries_in(place), "", key=place.relative_to(here).as_posix())
        return Brought(entries_in(place), str(place))

    def add(self, brought: Brought, name_of: NameOf) -> tuple[str, Pin, Pin | None]:
        """Bring it here and pin it: its folder, the pin, and the one before. `BadInput` for what agents could not use,
        and for a folder that somebody else has put there."""
        [*skill] = (each for each in brought.entries if each.path == SKILL_FILE and each.kind != "link")
        if not skill:
            raise BadInput(f"{brought.source or brought.key} has no {SKILL_FILE}", hint="name the folder that has it")
        name = name_of(f"{brought.source or brought.key}/{SKILL_FILE}", skill[0].content)
        key, lock = brought.key or name, self.lock()
        pin = Pin(name=name, sha256=digest_of(brought.entries), source=brought.source, commit=brought.commit)
        double = next((other for other, each in lock.skills.items() if each.name == name and other != key), None)
        if double is not None:
            raise BadInput(f"there is a skill {name!r} already: {double}", hint=f"muster skills remove {double}")
        if not re.fullmatch(KEY, key):
            raise BadInput(f"{key!r} is no name for a skill's folder", hint="use letters, digits and . _ -")
        pinned = SkillLock(skills={**lock.skills, key: pin})
        if not brought.key:
            if key not in lock.skills and (self.folder / key).exists():
                hint = f"pin what is there, or take it away: muster skills add {self.folder / key}"
                raise BadInput(f"{self.folder / key} is there already, and not pinned", hint=hint)
            self._put(key, brought.entries)
        self._write(pinned)
        return key, pin, lock.skills.get(key)

    def remove(self, key: str) -> None:
        """Unpin it; the folder goes, too, where `add` has brought it."""
        lock = self.lock()
        if key not in lock.skills:
            raise BadInput(f"there is no pinned skill {key!r}", hint=near_miss(key, lock.skills))
        self._write(SkillLock(skills={other: pin for other, pin in lock.skills.items() if other != key}))
        if lock.skills[key].source:
            shutil.rmtree(self.folder / key, ignore_errors=True)

    def all(self) -> Iterator[Standing]:
        """Each that is pinned, and each that lies here without that, by its folder."""
        lock = self.lock()
        there = {path.parent.relative_to(self.folder).as_posix() for path in self.folder.rglob(SKILL_FILE)}
        loose = {key for key in there if not any(key.startswith(f"{pinned}/") for pinned in lock.skills)}
        for key in sorted(loose | set(lock.skills)):
            pin = lock.skills.get(key)
            yield Standing(key, pin, self._fault(key, pin))

    def _fault(self, key: str, pin: Pin | None) -> str:
        if pin is None:
            return "is not pinned"
        try:
            is_same = digest_of(entries_in(self.folder / key)) == pin.sha256
        except FolderRefused as e:
            return f"cannot be read: {e}"
        return "" if is_same else "is not what was pinned"

    def _put(self, key: str, entries: Sequence[Entry]) -> None:
        """Whole, or as before. A worker that looks meanwhile finds neither the old nor the new pin's content there, and
        refuses it."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=self.folder.parent, prefix=".skill-") as drafts:
            draft, old = Path(drafts) / "new", Path(drafts) / "old"
            for each in entries:
                path = draft / each.path
                path.parent.mkdir(parents=True, exist_ok=True)
                if each.kind == "link":
                    raise BadInput(f"{each.path} is a link", hint="a skill that is brought along has files alone")
                path.write_bytes(each.content)
                path.chmod(each.mode)
            place = self.folder / key
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.exists():
                place.rename(old)
            draft.rename(place)

    def _write(self, lock: SkillLock) -> None:
        self._lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = self._lock.with_suffix(".part")
        with part.open("w") as draft:
            draft.write(lock_text(lock))
            draft.flush()
            os.fsync(draft.fileno())
        part.replace(self._lock)


async def fetched_skill(
    url: str, folder: str, commit: str, *, cache_dir: Path, forges: dict[str, ForgeSettings]
) -> Brought:
    """A folder of a git repository at a commit, which is found by its branch or tag, too."""
    read_address(url)  # what is wrong with it is said here: to a batch it would be a fault of its file
    repository = Repository(url=url, base=commit)
    try:
        start = await fetched(repository, cache_dir, await remote_at(repository, forges))
    except RepositoryMissing as e:
        hint = f"check the address: a git repository, a {SKILL_FILE} or an index.json; what is pinned stays as it is"
        raise RepositoryMissing(str(e), hint=hint) from e
    within = f"{folder.strip('/')}/" if folder.strip("/") else ""
    modes = {
        path: about for path, about in (await blobs_of(start.git_dir, start.base)).items() if path.startswith(within)
    }
    if len(modes) > MAX_FILES:
        raise BadInput(f"{url} has more than {MAX_FILES} files there", hint="name the skill's own folder: --folder")
    entries: list[Entry] = []
    for path, about in modes.items():
        if not {"..", ".", "", ".git"}.isdisjoint(path.split("/")):  # of a tree that no git wrote
            raise BadInput(f"{url} has a file with the name {path!r}", hint="choose another skill")
        try:
            content = await file_at(start.git_dir, start.base, path, max_bytes=MAX_FILE_BYTES)
        except OutputTooLarge as e:
            raise BadInput(f"{path} is larger than {MAX_FILE_BYTES} bytes", hint="choose another skill") from e
        kind = "program" if about.startswith("100755") else "file"
        entries.append(Entry(path.removeprefix(within), content or b"", kind))
    source = f"{start.url}#{within.rstrip('/')}" if within else start.url
    return Brought(tuple(entries), source, commit=start.base)


def _others(place: Path) -> str:
    found = [path.parent.relative_to(place) for path in sorted(place.rglob(SKILL_FILE))][:MAX_NAMED]
    named = ", ".join(str(place / each) for each in found)
    return f"name one of: {named}" if named else "a skill is a folder with a SKILL.md: docs/skills.md"
