"""Globs over the paths of a repository."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from .errors import BadInput


def matching(glob: str, paths: Iterable[str], *, exclude: Iterable[str] = ()) -> list[str]:
    """The paths that `glob` matches and no `exclude` does, sorted. `BadInput` for what is no glob."""
    wanted, unwanted = _pattern(glob), [_pattern(pattern) for pattern in exclude]
    return sorted(path for path in paths if wanted.fullmatch(path) and not any(p.fullmatch(path) for p in unwanted))


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> re.Pattern[str]:
    """As in a shell: `*` and `?` stay within a folder, `**/` is any number of folders, `[…]` is a set."""
    table = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts: list[str] = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]]*\]|.", pattern.removeprefix("./"), re.DOTALL):
        if token in table:
            parts.append(table[token])
        elif len(token) > 2:
            body = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[{'^' + body[1:] if body.startswith('!') else body.replace('^', chr(92) + '^', 1)}]")
        else:
            parts.append(re.escape(token))
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error as e:
        raise BadInput(f"{pattern!r} is not a glob: {e}") from e
