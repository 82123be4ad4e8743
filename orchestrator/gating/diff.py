"""A diff, file by file, so that some of it can be left out. Pure; reads what git writes (`-p -M --binary`), and nothing
else: `git apply` finds changes of files in other forms, too, and those would be judged by nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from repo.errors import PatchRefused

# In a hunk each line has a sign before it, and base 85 has no spaces: no content can look like this.
_START = re.compile(rb"^diff --git ", re.MULTILINE)
_BODY = re.compile(rb"^(?:@@ |GIT binary patch)", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_STARTS_FROM = re.compile(rb"^index ([0-9a-f]{40,64})\.\.[0-9a-f]{40,64}(?: [0-7]+)?$", re.MULTILINE)
_HEADERS = re.compile(
    rb"(old mode|new mode|deleted file mode|new file mode|rename from|rename to|similarity index|dissimilarity index"
    rb"|index|---|\+\+\+|Binary files) (.+)"
)
# One block for each way, with lines in base 85.
_BINARY = re.compile(
    rb"GIT binary patch\n(?:(?:literal|delta) \d+\n(?:[A-Za-z][0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]+\n)*\n){1,2}"
)
LINKS = ("120000", "160000")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_QUOTED = re.compile(rb'"((?:[^"\\\x00-\x1f\x7f]|\\(?:[0-3][0-7]{2}|["\\abfnrtv]))*+)"')
_PLAIN = re.compile(rb'[^"\\\x00-\x1f\x7f]+')
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(frozen=True, slots=True)
class FilePatch:
    """One file's part. `status` is one of A M D R (a change of kind is a D and an A). `mode`: git's, after the change;
    empty where the diff tells none, as of a file that is moved as it is."""

    path: str
    status: str
    old_path: str | None
    content: bytes
    mode: str = ""

    @property
    def is_link(self) -> bool:
        """A symbolic link or another repository: what stands there is elsewhere. What is moved untold may be one."""
        return self.mode in LINKS or (self.status == "R" and not self.mode)

    @property
    def is_binary(self) -> bool:
        """No text, or said to be none (`.gitattributes`): it has no lines."""
        found = _BODY.search(self.content)
        return found is not None and found[0] != b"@@ "

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
                number = int(hunk[3 if sign == b"+" else 1])
            elif line.startswith(sign):
                lines.append((number, line[1:].decode("utf-8", "replace")))
                number += 1
            elif line.startswith(b" "):
                number += 1
        return lines


def parts_of(diff: bytes) -> tuple[FilePatch, ...]:
    """`PatchRefused` for what no git wrote, whoever says so."""
    if not diff:
        return ()
    starts = [match.start() for match in _START.finditer(diff)]
    if starts[:1] != [0]:
        raise _odd(diff)
    ends = [*starts[1:], len(diff)]
    return tuple(_part(diff[start:end]) for start, end in zip(starts, ends, strict=True))


def without(diff: bytes, unwanted: Callable[[FilePatch], bool]) -> tuple[bytes, tuple[FilePatch, ...]]:
    """The diff without some files' parts, and those."""
    parts = parts_of(diff)
    kept: list[FilePatch] = []
    out: list[FilePatch] = []
    for part in parts:
        (out if unwanted(part) else kept).append(part)
    return joined(kept), tuple(out)


def joined(parts: Iterable[FilePatch]) -> bytes:
    return b"".join(part.content for part in parts)


def _part(content: bytes) -> FilePatch:
    found = _BODY.search(content)
    start = found.start() if found else len(content)
    body = content[start:]
    head, *lines = content[:start].split(b"\n")
    last = lines.pop() if lines else head
    told = dict(_keyed(line) for line in lines)
    if last or len(told) != len(lines) or not (_BINARY.fullmatch(body) if body[:1] == b"G" else _fits(body)):
        raise _odd(content)
    status = "A" if b"new file mode" in told else "D" if b"deleted file mode" in told else "M"
    if (b"rename from" in told) != (b"rename to" in told) or (status != "M" and b"rename to" in told):
        raise _odd(content)
    if b"rename to" in told:
        status, old, path = "R", _name(told[b"rename from"]), _name(told[b"rename to"])
    else:
        names = head.removeprefix(b"diff --git ")
        half = len(names) // 2
        # `a/x b/x`: but for renames both are the same, and so is their length.
        before, after = _name(names[:half]), _name(names[half + 1 :])
        old, path = before.removeprefix("a/"), after.removeprefix("b/")
        # git strips what stands before the first slash, whatever that is
        if old != path or (before, after) != (f"a/{old}", f"b/{path}") or names[half : half + 1] != b" ":
            raise _odd(content)
    if not (_is_path(old) and _is_path(path)):
        raise _odd(content)
    if _sides(told) not in ((None, None), _sides_of(status, old, path)) or (body[:1] == b"@" and b"---" not in told):
        raise _odd(content)
    return FilePatch(path, status, old if status == "R" else None, content, _mode(told))


def _mode(told: Mapping[bytes, bytes]) -> str:
    for key in (b"new file mode", b"new mode", b"deleted file mode"):
        if key in told:
            return told[key].decode()
    return told.get(b"index", b"").partition(b" ")[2].decode()


def _keyed(line: bytes) -> tuple[bytes, bytes]:
    found = _HEADERS.fullmatch(line)
    if found is None:
        raise _odd(line)
    return found[1], found[2]


def _sides(told: Mapping[bytes, bytes]) -> tuple[str | None, str | None]:
    """The names before the hunks; git ends one with a blank in it by a tab."""
    before, after = (
        _name(name.removesuffix(b"\t")) if (name := told.get(key)) is not None else None for key in (b"---", b"+++")
    )
    return before, after


def _sides_of(status: str, old: str, path: str) -> tuple[str, str]:
    return "/dev/null" if status == "A" else f"a/{old}", "/dev/null" if status == "D" else f"b/{path}"


def _fits(body: bytes) -> bool:
    """Hunks, each of as many lines as it says: what follows them would be the next file's for git."""
    before = after = 0
    *lines, last = body.split(b"\n")
    for line in lines:
        sign = line[:1]
        if before or after:
            before -= sign in (b" ", b"-")
            after -= sign in (b" ", b"+")
            if sign not in (b" ", b"-", b"+", b"\\") or before < 0 or after < 0:
                return False
        elif hunk := _HUNK.match(line):
            before, after = (1 if count is None else int(count) for count in (hunk[2], hunk[4]))
        elif sign != b"\\":  # no newline at the end of the file
            return False
    return not last and before == after == 0


def _odd(content: bytes) -> PatchRefused:
    return PatchRefused(f"The patch is no diff that git writes, at: {content[:80].decode('utf-8', 'replace')!r}")


def _name(written: bytes) -> str:
    """git puts odd names into quotes and writes their bytes as octal numbers."""
    if quoted := _QUOTED.fullmatch(written):
        return _ESCAPE.sub(_unescaped, quoted[1]).decode("utf-8", "replace")
    if not _PLAIN.fullmatch(written):
        raise _odd(written)
    return written.decode("utf-8", "replace")


def _is_path(path: str) -> bool:
    """As git names one: `git apply` reads a name to its first zero byte, and two slashes as one."""
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    found = match[1]
    return bytes([int(found, 8) & 0xFF]) if len(found) == 3 else _LETTERS.get(found, found)
