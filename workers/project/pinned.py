"""Skills from outside of the repository: only those that were pinned, and only as they were then.

Everything that is used of one is of the very read whose hash was compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envelope.skills import FOLDER, LOCK_NAME, SKILL_FILE, BadLock, Pin, SkillLock, read_lock
from repo.errors import FolderRefused
from repo.folder import Entry, digest_of, entries_in

from .framing import one_line

MAX_LOCK_BYTES = 1024 * 1024
ADD = "muster skills add"


@dataclass(frozen=True, slots=True)
class Pinned:
    """A skill whose folder is what was pinned."""

    path: str  # of its SKILL.md
    content: bytes


@dataclass(frozen=True, slots=True)
class UsersSkills:
    """`refused`: why not, by the name that an agent would call it by."""

    found: tuple[Pinned, ...] = ()
    refused: Mapping[str, str] | None = None


class NotPinned(Exception):
    """One sentence for the model and its user."""


def users_skills(user_dir: Path | None, *, limit: int) -> UsersSkills:
    """Those in the folder `skills` of the worker's user, which is the operator's."""
    if user_dir is None or not (user_dir / FOLDER).is_dir():
        return UsersSkills()
    found: list[Pinned] = []
    refused: dict[str, str] = {}
    try:
        lock = _lock_in(user_dir)
    except BadLock as e:
        lock, refused["skills of the user"] = SkillLock(), f"{e.message}; {e.hint}"
    keys = [key for key in _keys(user_dir / FOLDER) if key in lock.skills or not _is_within(key, lock)][:limit]
    for key in (*keys, *sorted(set(lock.skills) - set(keys))):
        pin = lock.skills.get(key)
        try:
            entries = pinned_entries(user_dir / FOLDER / key, key, pin)
        except NotPinned as e:
            refused[pin.name if pin else key.rpartition("/")[2]] = str(e)
            continue
        [skill] = (each for each in entries if each.path == SKILL_FILE)
        found.append(Pinned(str(user_dir / FOLDER / key / SKILL_FILE), skill.content))
    return UsersSkills(tuple(found), refused)


def pinned_entries(folder: Path, key: str, pin: Pin | None) -> tuple[Entry, ...]:
    """The folder's files, if they are what was pinned; else `NotPinned` says so."""
    name = one_line(key)
    if pin is None:
        raise NotPinned(f"the skill {name} is not pinned; look at it, and then: {ADD} {one_line(str(folder))}")
    try:
        entries = entries_in(folder)
    except FolderRefused as e:
        raise NotPinned(f"the skill {name} cannot be used: {one_line(str(e))}") from e
    if digest_of(entries) != pin.sha256:
        again = f"look at it, and pin it again: {ADD} {one_line(str(folder))}"
        raise NotPinned(f"the skill {name} is not what was pinned; {again}")
    return entries


def entries_again(user_dir: Path, folder: Path) -> tuple[Entry, ...]:
    """The files of a skill that was found before; `NotPinned` if it was changed since."""
    key = folder.relative_to(user_dir / FOLDER).as_posix()
    try:
        return pinned_entries(folder, key, _lock_in(user_dir).skills.get(key))
    except BadLock as e:
        raise NotPinned(f"{e.message}; {e.hint}") from e


def _lock_in(user_dir: Path) -> SkillLock:
    try:
        with (user_dir / LOCK_NAME).open("rb") as opened:
            return read_lock(opened.read(MAX_LOCK_BYTES))
    except FileNotFoundError:
        return SkillLock()
    except OSError as e:
        raise BadLock(f"{LOCK_NAME} cannot be read: {e.strerror}") from e


def _is_within(key: str, lock: SkillLock) -> bool:
    """Is it an example that a pinned skill brings along?"""
    return any(key.startswith(f"{pinned}/") for pinned in lock.skills)


def _keys(folder: Path) -> Iterator[str]:
    """Where a skill's file is, whether pinned or not."""
    yield from (path.parent.relative_to(folder).as_posix() for path in sorted(folder.rglob(SKILL_FILE)))
