"""Hundreds of commits by one process, from entries that are in the object store already; one of files as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class NewFile:
    content: bytes
    executable: bool = False


async def commit_files(own: Scratch, files: Mapping[str, NewFile], *, on: str, message: str, date: str) -> str:
    """The id of one commit that lays `files` over the commit `on`; without that it has nothing else, and no parent.

    A file takes the place of a folder, and the other way round. The same values give the same id.
    """
    stream = b"".join(_stream_of_files(files, on, message.encode(), date.encode()))
    options = ("--quiet", "--done", "--date-format=raw-permissive")
    return (await own.git("fast-import", *options, stdin=stream)).line


def _stream_of_files(files: Mapping[str, NewFile], on: str, message: bytes, date: bytes) -> Iterator[bytes]:
    yield b"commit refs/heads/files\nmark :1\nauthor %s %s\ncommitter %s %s\n" % (AUTHOR, date, AUTHOR, date)
    yield b"data %d\n%s\n" % (len(message), message)
    if on:
        yield b"from %s\n" % on.encode()
    for path, file in sorted(files.items()):
        mode = b"100755" if file.executable else b"100644"
        yield b"M %s inline %s\ndata %d\n%s\n" % (mode, _quoted(path.encode()), len(file.content), file.content)
    yield b"get-mark :1\ndone\n"


async def make_commits(own: Scratch, parent: str, commits: Sequence[NewCommit], *, date: str, line: bool) -> list[str]:
    """Their ids, in their order. In a `line` each is made on the one before, else all of them on `parent`.

    The same values give the same ids, on any machine and day. `date` is as git keeps it: seconds, and a zone.
    """
    if not commits:
        return []
    stream = b"".join(_stream(parent, commits, date.encode(), line))
    # The branch is nobody's: what an earlier call left there need not be part of this one's.
    options = ("--quiet", "--done", "--force", "--date-format=raw-permissive")
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
