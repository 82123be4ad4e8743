"""The tree that a few files make of a base, from the trees along their paths alone.

An index of a large base is read and written whole for a change of one file. Here git gets an index of nothing but the
files in question, for it alone knows what becomes of a file's content on its way in, and the trees above them are put
together anew. What is not plain is left to those who look at everything.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .collect import Touched, update_touched
from .scratch import Scratch

FOLDER, LINKED = b"40000", b"160000"
# Older tools wrote others, which git's own index puts right.
MODES = frozenset({FOLDER, LINKED, b"100644", b"100755", b"120000"})
ID_BYTES = 20
# Of an index, version 2: stamps, mode, owner and size; the id; flags, of which the lower ones are the name's length.
HEAD, ENTRY = struct.Struct(">4sII"), struct.Struct(">10I20sH")
VERSION, MAX_NAME = 2, 0xFFF

Entry = tuple[bytes, bytes]  # mode and id
Tree = dict[bytes, Entry]


class _Odd(Exception):
    """Not to be judged from here."""


@dataclass(slots=True)
class Along:
    """The base's trees at and above some paths, by folder; the root is the empty name. Others are empty as yet."""

    base_tree: str
    trees: dict[bytes, Tree] = field(default_factory=dict[bytes, Tree])

    def at(self, path: bytes) -> Entry | None:
        folder, name = _split(path)
        return self.trees[folder].get(name)

    def put(self, path: bytes, entry: Entry | None) -> None:
        folder, name = _split(path)
        if entry is None:
            self.trees[folder].pop(name, None)
        else:
            self.trees[folder][name] = entry

    def written(self, objects: Path) -> str:
        """The id of the whole, whose parts are new objects; from the leaves up, and folders without files go."""
        for folder in sorted((each for each in self.trees if each), key=lambda each: -each.count(b"/")):
            tree = self.trees[folder]
            self.put(folder, (FOLDER, _write(objects, tree)) if tree else None)
        return _write(objects, self.trees[b""]).hex()


async def tree_along(own: Scratch, work_tree: Path, base: str, touched: Touched) -> tuple[str, str] | None:
    """The base's tree, and that of `work_tree`, which differs from it at `touched` alone. None: look at everything."""
    paths = [*touched.tracked, *touched.new]
    try:
        along = await _read(own, base, paths)
        known = {path: entry for path in paths if (entry := along.at(path))}
        if any(mode in (FOLDER, LINKED) for mode, _ in known.values()):
            return None
        own.index_file.write_bytes(_index_of(known))
        if not await update_touched(own, work_tree, touched):
            return None
        now = dict(_entries_in(own.index_file.read_bytes()))
    except _Odd:
        return None
    for path in paths:
        along.put(path, now.get(path))
    return along.base_tree, along.written(own.objects)


async def _read(own: Scratch, base: str, paths: Iterable[bytes]) -> Along:
    folders = sorted({b"", *(above for path in paths for above in _above(path))})
    if any(b"\n" in folder for folder in folders):  # git reads one a line
        raise _Odd
    start = base.encode()
    asked = b"".join(start + (b":%s\n" % folder if folder else b"^{tree}\n") for folder in folders)
    told, at = (await own.git("cat-file", "--batch", stdin=asked)).stdout, 0
    along = Along("")
    for folder in folders:
        header, at = told[at : (end := told.index(b"\n", at))], end + 1
        if header.endswith(b" missing") and folder:
            if along.at(folder):  # a submodule's commit, which no folder takes the place of
                raise _Odd
            along.trees[folder] = {}
            continue
        words = header.split(b" ")
        if len(words) != 3 or words[1] != b"tree":
            raise _Odd
        size = int(words[2])
        along.trees[folder] = _parsed(told[at : at + size])
        along.base_tree = along.base_tree or words[0].decode()
        at += size + 1
    return along


def _parsed(content: bytes) -> Tree:
    tree: Tree = {}
    at = 0
    while at < len(content):
        end = content.index(b"\0", at)
        mode, _, name = content[at:end].partition(b" ")
        at = end + 1 + ID_BYTES
        if mode not in MODES or name in tree:
            raise _Odd
        tree[name] = (mode, content[end + 1 : at])
    return tree


def _write(objects: Path, tree: Tree) -> bytes:
    """As git sorts it: a folder as if its name ended with a slash."""
    named = sorted(tree.items(), key=lambda each: each[0] + b"/" if each[1][0] == FOLDER else each[0])
    content = b"".join(b"%s %s\0%s" % (mode, name, id_) for name, (mode, id_) in named)
    whole = b"tree %d\0%s" % (len(content), content)
    digest = hashlib.sha1(whole, usedforsecurity=False)
    target = objects / digest.hexdigest()[:2] / digest.hexdigest()[2:]
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(zlib.compress(whole, 1))
    return digest.digest()


def _index_of(entries: Mapping[bytes, Entry]) -> bytes:
    """Without stamps: git reads each of the files."""
    parts = [HEAD.pack(b"DIRC", VERSION, len(entries))]
    for path, (mode, id_) in sorted(entries.items()):
        head = ENTRY.pack(*(0,) * 6, int(mode, 8), 0, 0, 0, id_, min(len(path), MAX_NAME))
        parts.append(head + path + b"\0" * _padding(path))
    whole = b"".join(parts)
    return whole + hashlib.sha1(whole, usedforsecurity=False).digest()


def _entries_in(index: bytes) -> Iterator[tuple[bytes, Entry]]:
    signature, version, count = HEAD.unpack_from(index)
    if (signature, version) != (b"DIRC", VERSION):
        raise _Odd
    at = HEAD.size
    for _ in range(count):
        fields = ENTRY.unpack_from(index, at)
        at += ENTRY.size
        path = index[at : index.index(b"\0", at)]
        at += len(path) + _padding(path)
        yield path, (b"%o" % fields[6], fields[10])


def _padding(path: bytes) -> int:
    """NULs behind a name: at least one, and up to the next multiple of eight."""
    return 8 - (ENTRY.size + len(path)) % 8


def _split(path: bytes) -> tuple[bytes, bytes]:
    folder, _, name = path.rpartition(b"/")
    return folder, name


def _above(path: bytes) -> Collection[bytes]:
    parts = path.split(b"/")[:-1]
    return [b"/".join(parts[: n + 1]) for n in range(len(parts))]
