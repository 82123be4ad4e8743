"""Globs over the paths of a repository."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from .errors import BadInput

MAX_GLOBS = 100  # of a list in a document
# Globs × paths: both come over the network, and each look takes a microsecond.
MAX_LOOKS = 5_000_000
MAX_GLOB_CHARS = 1000  # no path is longer that somebody writes down
_PIECE = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]]*\]|.", re.DOTALL)
_SKIPS = {"**/": "(?:.*?/)??", "**": ".*?"}


def matching(glob: str, paths: Iterable[str], *, exclude: Iterable[str] = ()) -> list[str]:
    """The paths that `glob` matches and no `exclude` does, sorted. `BadInput` for what is no glob, and for too many of
    them for so many paths."""
    wanted, unwanted, paths = _pattern(glob), [_pattern(pattern) for pattern in exclude], list(paths)
    require_few(1 + len(unwanted), len(paths))
    return sorted(path for path in paths if wanted.fullmatch(path) and not any(p.fullmatch(path) for p in unwanted))


def require_few(globs: int, paths: int) -> None:
    if globs * paths > MAX_LOOKS:
        raise BadInput(f"{globs:,} globs are too many for {paths:,} files", hint="say it in fewer globs")


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> re.Pattern[str]:
    """As in a shell: `*` and `?` stay within a folder, `**/` is any number of folders, `[…]` is a set.

    The first place where what stands between two stars fits is as good as any, so nothing is tried twice: globs come
    over the network, and one with five stars must not stop everybody else's work. That holds as nothing but a `/`
    matches a `/` outside of `**`, and as `**/` begins at a folder.
    """
    groups: list[tuple[str, list[str]]] = [("", [""])]  # at each `**` what it skips; what follows, split at each `*`
    before = "/"
    if len(pattern) > MAX_GLOB_CHARS:
        raise BadInput(f"a glob of {len(pattern)} characters is none", hint=f"{MAX_GLOB_CHARS} are the most")
    for piece in _PIECE.findall(pattern.removeprefix("./")):
        if piece == "**/" and before != "/":
            raise BadInput(f"{pattern!r} is not a glob: `**/` follows a name", hint="write `*/**/`, or `**` alone")
        if piece in _SKIPS:
            groups.append((_SKIPS[piece], [""]))
        elif piece == "*":
            groups[-1][1].append("")
        else:
            groups[-1][1][-1] += _one(piece, pattern)
        before = "/" if piece in ("/", "**/") else piece
    *inner, (skip, (first, *others)) = groups
    known = "".join(f"(?>{skip}{first}{''.join(map(_atomic, others))})" for skip, (first, *others) in inner)
    last = f"[^/]*{others.pop()}" if others else ""
    return re.compile(f"{known}{skip}{first}{''.join(map(_atomic, others))}{last}", re.DOTALL)


def _atomic(part: str) -> str:
    return f"(?>[^/]*?{part})"


def _one(piece: str, pattern: str) -> str:
    """What stands for one character."""
    if piece == "?":
        return "[^/]"
    if len(piece) <= 2:
        return "".join(map(re.escape, piece))
    body = piece[1:-1].replace("\\", "\\\\").replace("[", "\\[")
    body = "^" + body[1:] if body.startswith("!") else body.replace("^", "\\^", 1)
    try:
        re.compile(f"[{body}]")
    except re.error as e:
        raise BadInput(f"{pattern!r} is not a glob: {e}") from e
    return f"(?!/)[{body}]"
