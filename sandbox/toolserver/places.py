"""The root that a setup phase writes, seen from inside: `python3 -I -S - MODE ARGUMENTS` with this text as its input.

`look` finds the folders of an image that the sandbox's user may write. `fill` copies them to volumes, one each, where
setup commands find them in their place. `take` brings what came of it back into the image's own root, measured first.
`full` says which file systems have no room left. Answers are a line of JSON. Nothing that it copies is run or followed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

VOLUMES = "/run/muster-root"
FILLED = "/tmp/muster-filled"
MAX_PLACES = 32  # of more than these none can be written: an image with so many is somebody's mistake
OWNER_ALL = 0o700
LOW_BYTES, LOW_FILES = 256 * 1024, 16  # what a file system still says to have free when nothing fits any more
UNIT = 512  # of st_blocks
MODE = 0o1777  # nothing that runs as another user


def main(mode: str, argument: str) -> object:
    if mode == "look":
        return look()
    if mode == "full":
        return full(json.loads(argument))
    if mode == "fill":
        return fill(json.loads(argument))
    return take(**json.loads(argument))


def look() -> list[dict[str, object]]:
    """The topmost ones; what is mounted has limits of its own."""
    device, found, waiting = os.lstat("/").st_dev, list[dict[str, object]](), ["/"]
    while waiting:
        for entry in entries_of(waiting.pop()):
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode) or status.st_dev != device:
                continue
            if may_write(status):
                found.append(place_of(entry.path, status))
            else:
                waiting.append(entry.path)
    return sorted(found, key=lambda each: str(each["path"]))[:MAX_PLACES]


def may_write(status: os.stat_result) -> bool:
    """Or may give itself the right. By the mode alone: here nothing can be written."""
    if status.st_uid == os.getuid():
        return True
    groups = {os.getgid(), *os.getgroups()}
    return bool(status.st_mode & (stat.S_IWGRP if status.st_gid in groups else stat.S_IWOTH))


def place_of(path: str, status: os.stat_result) -> dict[str, object]:
    size, files = 0, 1
    for _, entry in walk(path):
        size += entry.stat(follow_symlinks=False).st_blocks * UNIT
        files += 1
    owner = {"uid": status.st_uid, "gid": status.st_gid, "mode": stat.S_IMODE(status.st_mode)}
    return {"path": path, "size_bytes": size, "files": files, **owner}


def full(paths: list[str]) -> list[str]:
    found = list[str]()
    for path in paths:
        room = os.statvfs(path)
        has_files = room.f_files == 0 or room.f_favail >= LOW_FILES
        if room.f_bavail * room.f_frsize < LOW_BYTES or not has_files:
            found.append(path)
    return found


def fill(places: list[str]) -> None:
    """What this user may not read stays where it is, and out of the copy."""
    inodes = dict[str, int]()
    for number, place in enumerate(places):
        volume, folders = f"{VOLUMES}/{number}", list[tuple[str, str]]()
        for path, entry in walk(place):
            source, target = os.path.join(place, path), os.path.join(volume, path)
            try:
                if entry.is_dir(follow_symlinks=False):
                    os.listdir(source)
                    os.mkdir(target)
                    folders.append((source, target))
                elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    shutil.copy2(source, target, follow_symlinks=False)
                else:
                    continue
            except PermissionError:
                continue
            inodes[target] = os.lstat(target).st_ino
        for source, target in reversed(folders):
            shutil.copystat(source, target)
    with open(FILLED, "w", errors="surrogateescape") as file:
        json.dump({"at_ns": time.time_ns(), "inodes": inodes}, file)


def take(places: list[str], max_bytes: int, max_files: int) -> dict[str, int]:
    """`bytes` and `files` that differ; nothing is copied where that is more than allowed."""
    with open(FILLED, errors="surrogateescape") as file:
        filled = json.load(file)
    changes = Changes(filled["at_ns"], filled["inodes"])
    for number, place in enumerate(places):
        changes.look(f"{VOLUMES}/{number}", place)
    if changes.bytes <= max_bytes and len(changes.put) <= max_files:
        changes.apply()
    return {"bytes": changes.bytes, "files": len(changes.put)}


class Changes:
    """A file is what it was filled with if it is the same inode that nothing has changed since: the kernel alone sets
    that stamp."""

    def __init__(self, at_ns: int, inodes: dict[str, int]) -> None:
        self.at_ns, self.inodes = at_ns, inodes
        self.bytes = 0
        self.put: list[tuple[str, str, os.stat_result]] = []  # folders before what is in them
        self.gone: list[str] = []
        self.seen: dict[tuple[int, int], str] = {}  # a file with several names counts once, and stays one file
        self.modes: dict[str, int] = {}

    def look(self, volume: str, place: str) -> None:
        waiting = [(volume, place)]
        while waiting:
            source, target = waiting.pop()
            make_readable(source)
            names = set[str]()
            for entry in os.scandir(source):
                status = os.lstat(entry.path)
                kind = stat.S_IFMT(status.st_mode)
                if kind not in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
                    continue  # pipes and sockets are nobody's once their programs have ended
                names.add(entry.name)
                there = os.path.join(target, entry.name)
                if not self.is_same(entry.path, there, status):
                    self.add(entry.path, there, status)
                if kind == stat.S_IFDIR:
                    waiting.append((entry.path, there))
            for name in set(list_of(target)) - names:
                if os.path.join(source, name) in self.inodes:
                    self.gone.append(os.path.join(target, name))

    def is_same(self, source: str, target: str, status: os.stat_result) -> bool:
        try:
            before = os.lstat(target)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if stat.S_ISDIR(status.st_mode):
            return stat.S_ISDIR(before.st_mode) and (status.st_mode ^ before.st_mode) & MODE == 0
        return self.inodes.get(source) == status.st_ino and status.st_ctime_ns <= self.at_ns

    def add(self, source: str, target: str, status: os.stat_result) -> None:
        self.put.append((source, target, status))
        if identity_of(status) not in self.seen:
            self.bytes += max(status.st_size, status.st_blocks * UNIT)  # a hole becomes zeros in an image
        self.seen[identity_of(status)] = target

    def apply(self) -> None:
        for target in self.gone:
            self.open_up(os.path.dirname(target))
            with contextlib.suppress(PermissionError):  # another user's, in a folder like /tmp
                remove(target)
        self.seen.clear()
        for source, target, status in self.put:
            self.open_up(os.path.dirname(target))
            self.copy(source, target, status)
        for folder, mode in reversed(self.modes.items()):
            os.chmod(folder, mode)

    def copy(self, source: str, target: str, status: os.stat_result) -> None:
        if stat.S_ISDIR(status.st_mode):
            if os.path.islink(target) or not os.path.isdir(target):
                remove(target)
                os.mkdir(target)
            self.modes[target] = status.st_mode & MODE
            return
        remove(target)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(source), target)
        elif identity_of(status) in self.seen:
            os.link(self.seen[identity_of(status)], target)
        else:
            if not status.st_mode & stat.S_IRUSR:
                os.chmod(source, OWNER_ALL)
            shutil.copyfile(source, target, follow_symlinks=False)
            os.chmod(target, status.st_mode & MODE)
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
            self.seen[identity_of(status)] = target

    def open_up(self, folder: str) -> None:
        """It may have been written where its mode says that it may not: that was set afterwards."""
        status = os.lstat(folder)
        if status.st_uid == os.getuid() and status.st_mode & OWNER_ALL != OWNER_ALL:
            self.modes.setdefault(folder, stat.S_IMODE(status.st_mode))
            os.chmod(folder, status.st_mode | OWNER_ALL)


def identity_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        for folder, entry in [(path, None), *((os.path.join(path, each), e) for each, e in walk(path))]:
            if entry is None or entry.is_dir(follow_symlinks=False):
                make_readable(folder)
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def walk(top: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below, by its path from `top`, folders before what is in them."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        for entry in entries_of(os.path.join(top, folder)):
            path = os.path.join(folder, entry.name)
            yield path, entry
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except PermissionError:
        return []


def list_of(folder: str) -> list[str]:
    try:
        return [] if os.path.islink(folder) else os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def make_readable(folder: str) -> None:
    status = os.lstat(folder)
    if status.st_uid == os.getuid() and status.st_mode & OWNER_ALL != OWNER_ALL:
        os.chmod(folder, status.st_mode | OWNER_ALL)


if __name__ == "__main__":
    try:
        said = json.dumps({"answer": main(sys.argv[1], sys.argv[2])})
    except OSError as error:
        said = f"{str(error.filename or '')[:100]!a}: {error.strerror}"
    sys.stdout.write(said + "\n")
