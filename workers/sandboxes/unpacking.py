"""Unpack an archive that a stranger made. Runs inside of the sandbox, as a program of its own: standard library only.

`python3 unpacking.py ARCHIVE TARGET MAX_FILES MAX_BYTES` prints a JSON object: how many `files` of how many `bytes`
there are now under the new folder TARGET, and in `left_out` what is not among them, with the reasons. Nothing but plain
files comes out, none of them outside of TARGET, and no link is made, so that none is followed.
"""

from __future__ import annotations

import json
import resource
import stat
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

MEMORY_BYTES = 1024 * 1024 * 1024  # some formats let an archive say how much its unpacking takes
CHUNK_BYTES = 1024 * 1024
MAX_TOLD = 20


class Member(NamedTuple):
    """`content` is None for what is no plain file."""

    name: str
    content: IO[bytes] | None


def unpack(archive: str, target: str, max_files: int, max_bytes: int) -> dict[str, Any]:
    """Plain files, to the limits; what is left out is told with its reason. Of a broken archive what came out stays."""
    files, left = 0, max_bytes
    left_out: list[str] = []
    folder = Path(target)
    folder.mkdir()
    try:
        for name, content in _members(archive):
            if content is None or not _is_plain(name):
                reason = "no plain file" if content is None else "it leads out of the folder"
                left_out.append(f"{name[:200]}: {reason}")
                continue
            if files == max_files:
                left_out.append(f"all after {files} files")
                break
            left -= _copy(content, folder / name, left)
            files += 1
    except Exception as e:  # whatever a broken archive does, what came out of it stays
        left_out.append(f"the rest: {str(e)[:200] or type(e).__name__}")
    more = [f"{len(left_out) - MAX_TOLD} more"] if len(left_out) > MAX_TOLD else []
    return {"files": files, "bytes": max_bytes - left, "left_out": left_out[:MAX_TOLD] + more}


def _members(archive: str) -> Iterator[Member]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if info.is_dir():
                    continue
                kind = stat.S_IFMT(info.external_attr >> 16)
                is_file = kind in (0, stat.S_IFREG)
                yield Member(info.filename, packed.open(info) if is_file else None)
        return
    with tarfile.open(archive, "r:*") as packed_tar:
        for member in packed_tar:
            if not member.isdir():
                is_file = member.isreg() and not member.issparse()
                yield Member(member.name, packed_tar.extractfile(member) if is_file else None)


def _is_plain(name: str) -> bool:
    parts = name.split("/")
    return bool(name) and not name.startswith("/") and "\\" not in name and "\0" not in name and ".." not in parts


def _copy(content: IO[bytes], path: Path, left: int) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with path.open("xb") as file:
        while chunk := content.read(CHUNK_BYTES):
            written += len(chunk)
            if written > left:
                path.unlink()
                raise ValueError("it is too large unpacked")
            file.write(chunk)
    return written


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    told = unpack(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    sys.stdout.write(json.dumps(told))
