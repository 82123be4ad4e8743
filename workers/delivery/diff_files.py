"""A git diff taken apart into its files. Pure."""

from __future__ import annotations

import re

_START = re.compile(rb"^diff --git ", re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_NAMED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def changed_files(before: bytes, after: bytes) -> list[str]:
    """The files that two diffs against the same base change otherwise, sorted.

    >>> changed_files(b"", b"diff --git a/x b/x\\n+1\\n")
    ['x']
    """
    then, now = sections(before), sections(after)
    return sorted(path for path in then.keys() | now.keys() if then.get(path) != now.get(path))


def sections(diff: bytes) -> dict[str, bytes]:
    """What a diff says of each file, by the path that the file has after it. Lines of a file begin with another sign,
    so none of them passes for a head."""
    starts = [found.start() for found in _START.finditer(diff)]
    parts = [diff[start:end] for start, end in zip(starts, [*starts[1:], len(diff)], strict=False)]
    return {_path(part): part for part in parts}


def _path(section: bytes) -> str:
    """`diff --git a/old b/new`: unless it is a rename, which has a line of its own, both are the same."""
    head, _, rest = section.partition(b"\n")
    renamed = re.search(rb"^rename to (.*)$", rest.partition(b"\n@@ ")[0], re.MULTILINE)
    if renamed:
        return _plain(renamed[1])
    names = head.removeprefix(b"diff --git ")
    return _plain(names[(len(names) + 1) // 2 :]).removeprefix("b/")


def _plain(name: bytes) -> str:
    """Git quotes a name with odd characters as C does."""
    if name.startswith(b'"'):
        name = _ESCAPE.sub(lambda found: _unescaped(found[1]), name[1:-1])
    return name.decode("utf-8", "backslashreplace")


def _unescaped(code: bytes) -> bytes:
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _NAMED.get(code, code)
