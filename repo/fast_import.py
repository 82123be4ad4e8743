"""Hundreds of commits by one process, from entries that are in the object store already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .changes import NO_MODE
from .scratch import Scratch

AUTHOR = b"Muster <muster@localhost>"


@dataclass(frozen=True, slots=True)
class Entry:
    """A path as a commit leaves it; the mode `000000`: gone."""

    path: bytes
    mode: str
    id: str


@dataclass(frozen=True, slots=True)
class NewCommit:
    message: bytes
    entries: tuple[Entry, ...]


async def make_commits(own: Scratch, parent: str, commits: Sequence[NewCommit], *, date: str, line: bool) -> list[str]:
    """Their ids, in their order. In a `line` each is made on the one before, else all of them on `parent`.

    The same values give the same ids, on any machine and day. `date` is as git keeps it: seconds, and a zone.
    """
    if not commits:
        return []
    stream = b"".join(_stream(parent, commits, date.encode(), line))
    options = ("--quiet", "--done", "--date-format=raw-permissive")
    return (await own.git("fast-import", *options, stdin=stream)).line.splitlines()


def _stream(parent: str, commits: Sequence[NewCommit], date: bytes, line: bool) -> Iterator[bytes]:
    for number, commit in enumerate(commits, 1):
        yield b"commit refs/heads/line\nmark :%d\n" % number
        yield b"author %s %s\ncommitter %s %s\n" % (AUTHOR, date, AUTHOR, date)
        yield b"data %d\n%s\n" % (len(commit.message), commit.message)
        if number == 1 or not line:
            yield b"from %s\n" % parent.encode()
        # what goes comes first, since a file may stand where a folder was
        yield from (b"D %s\n" % _quoted(entry.path) for entry in commit.entries if entry.mode == NO_MODE)
        for entry in commit.entries:
            if entry.mode != NO_MODE:
                yield b"M %s %s %s\n" % (entry.mode.encode(), entry.id.encode(), _quoted(entry.path))
    yield from (b"get-mark :%d\n" % number for number in range(1, len(commits) + 1))
    yield b"done\n"


def _quoted(path: bytes) -> bytes:
    """
    >>> _quoted(b'a "b"')
    b'"\\\\141\\\\040\\\\042\\\\142\\\\042"'
    """
    return b'"%s"' % b"".join(b"\\%03o" % byte for byte in path)
