"""A diff, file by file, so that some of it can be left out. Pure; reads what git writes (`-p -M --binary`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

# In a hunk each line has a sign before it, and base 85 has no spaces: no content can look like this.
_START = re.compile(rb"^diff --git ", re.MULTILINE)
_BODY = re.compile(rb"^(?:@@ |GIT binary patch)", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_STARTS_FROM = re.compile(rb"^index ([0-9a-f]{40,64})\.\.[0-9a-f]{40,64}(?: [0-7]+)?$", re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(frozen=True, slots=True)
class FilePatch:
    """One file's part. `status` is one of A M D R (a change of kind is a D and an A)."""

    path: str
    status: str
    old_path: str | None
    content: bytes

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that it touches: both sides of a rename."""
        return (self.path,) if self.old_path is None else (self.old_path, self.path)

    @property
    def starts_from(self) -> str | None:
        """git's id of the content that it changes: zeros for a new file, None where it changes none (or names none)."""
        body = _BODY.search(self.content)
        found = _STARTS_FROM.search(self.content, 0, body.start() if body else len(self.content))
        return found[1].decode() if found else None

    def lines(self, sign: bytes) -> list[str]:
        """The lines that are added (`+`) or removed (`-`)."""
        return [line for _, line in self.numbered(sign)]

    def numbered(self, sign: bytes) -> list[tuple[int, str]]:
        """The same, each with its number in the file after the change, or before it."""
        found = _BODY.search(self.content)
        body = self.content[found.start() :] if found and found[0] == b"@@ " else b""
        lines: list[tuple[int, str]] = []
        number = 0
        for line in body.split(b"\n"):
            if hunk := _HUNK.match(line):
                number = int(hunk[2 if sign == b"+" else 1])
            elif line.startswith(sign):
                lines.append((number, line[1:].decode("utf-8", "replace")))
                number += 1
            elif line.startswith(b" "):
                number += 1
        return lines


def parts_of(diff: bytes) -> tuple[FilePatch, ...]:
    starts = [match.start() for match in _START.finditer(diff)]
    ends = [*starts[1:], len(diff)]
    return tuple(_part(diff[start:end]) for start, end in zip(starts, ends, strict=True))


def without(diff: bytes, unwanted: Callable[[FilePatch], bool]) -> tuple[bytes, tuple[FilePatch, ...]]:
    """The diff without some files' parts, and those."""
    parts = parts_of(diff)
    out = tuple(part for part in parts if unwanted(part))
    return joined(part for part in parts if part not in out), out


def joined(parts: Iterable[FilePatch]) -> bytes:
    return b"".join(part.content for part in parts)


def _part(content: bytes) -> FilePatch:
    body = _BODY.search(content)
    head, *lines = content[: body.start() if body else len(content)].split(b"\n")
    told = {key: _name(rest) for line in lines for key, rest in [_keyed(line)] if key}
    if "rename to" in told:
        return FilePatch(told["rename to"], "R", told["rename from"], content)
    status = "A" if "new file mode" in told else "D" if "deleted file mode" in told else "M"
    names = head.removeprefix(b"diff --git ")
    # `a/x b/x`: but for renames both are the same, and so is their length.
    return FilePatch(_name(names[: len(names) // 2]).removeprefix("a/"), status, None, content)


def _keyed(line: bytes) -> tuple[str, bytes]:
    keys = ("rename from", "rename to", "new file mode", "deleted file mode")
    return next(((key, line[len(key) + 1 :]) for key in keys if line.startswith(key.encode() + b" ")), ("", b""))


def _name(quoted: bytes) -> str:
    """git puts odd names into quotes and writes their bytes as octal numbers."""
    if quoted.startswith(b'"'):
        quoted = _ESCAPE.sub(_unescaped, quoted.strip(b'"') if quoted.endswith(b'"') else quoted[1:])
    return quoted.decode("utf-8", "replace")


def _unescaped(match: re.Match[bytes]) -> bytes:
    found = match[1]
    return bytes([int(found, 8) & 0xFF]) if len(found) == 3 else _LETTERS.get(found, found)
