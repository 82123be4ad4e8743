"""A checkout as one file that a tool server can lay out: see `lay_out` in toolserver/elsewhere.py.

Twenty thousand small files go to an engine one by one in 3 s, and as one file in a fifth of that; inside, they are laid
out from it in a quarter of the time of a copy.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import SandboxError

NAME = "pack"
LENGTH = struct.Struct("!Q")
PAGE_BYTES = 4096
CHUNK_BYTES = 1024 * 1024

Entry = tuple[str, int, int, int | str]  # name, mode, modified (ns), bytes or where a link leads


@dataclass(frozen=True, slots=True)
class Packed:
    digest: str
    pack_bytes: int
    laid_out_bytes: int  # whole pages, as a file system in memory counts
    files: int


def pack_checkout(checkout: Path, target: Path, layer: Path | None = None) -> Packed:
    """Write `target`: a tar archive with the pack as its one member, which is what an engine takes. What `layer` has
    lies over the checkout, which has no file of the same name."""
    entries = list(_entries(checkout, ""))
    names = {entry[0] for entry in entries}
    roots = dict.fromkeys(names, checkout)
    if layer is not None:
        over = [entry for entry in _entries(layer, "") if entry[0] not in names]
        entries += over
        roots |= {entry[0]: layer for entry in over}
    index = json.dumps(entries).encode()
    sizes = [entry[3] for entry in entries if stat.S_ISREG(entry[1])]
    content_bytes = sum(size for size in sizes if isinstance(size, int))
    pack_bytes = LENGTH.size + len(index) + content_bytes
    with target.open("xb") as file:
        file.write(tar_header(NAME, pack_bytes))
        digest = _write_pack(file, roots, entries, index)
        file.write(tar_end(pack_bytes))
    pages = sum(-(-size // PAGE_BYTES) for size in sizes if isinstance(size, int))
    return Packed(digest, pack_bytes, pages * PAGE_BYTES, len(entries))


def tar_header(name: str, size_bytes: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size_bytes, 0o444
    return member.tobuf(tarfile.GNU_FORMAT)


def tar_end(size_bytes: int) -> bytes:
    """Up to a whole block, and the two empty ones at the end."""
    return bytes(-size_bytes % tarfile.BLOCKSIZE + 2 * tarfile.BLOCKSIZE)


def _entries(folder: Path, place: str) -> Iterator[Entry]:
    """A folder comes before what is in it."""
    with os.scandir(folder) as found:
        for each in sorted(found, key=lambda entry: entry.name):
            status, name = each.stat(follow_symlinks=False), place + each.name
            mode, modified_ns = status.st_mode, status.st_mtime_ns
            if stat.S_ISDIR(mode):
                yield name, mode, modified_ns, 0
                yield from _entries(folder / each.name, f"{name}/")
            elif stat.S_ISLNK(mode):
                yield name, mode, modified_ns, os.readlink(each.path)
            elif stat.S_ISREG(mode):
                yield name, mode, modified_ns, status.st_size


def _write_pack(file: BinaryIO, roots: Mapping[str, Path], entries: list[Entry], index: bytes) -> str:
    digest = hashlib.sha256()
    for part in _parts(roots, entries, index):
        digest.update(part)
        file.write(part)
    return digest.hexdigest()


def _parts(roots: Mapping[str, Path], entries: list[Entry], index: bytes) -> Iterator[bytes]:
    yield LENGTH.pack(len(index))
    yield index
    for name, mode, _, size in entries:
        if stat.S_ISREG(mode):
            left = int(size)
            with (roots[name] / name).open("rb") as source:
                while left and (data := source.read(min(left, CHUNK_BYTES))):
                    left -= len(data)
                    yield data
            if left:
                raise SandboxError(f"The checkout {roots[name]} changes while it is read.")
