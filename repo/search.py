"""Search for a text in the files of a commit, as git keeps them: no work tree, no filters, no program of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .errors import GitFailed, PatternRefused
from .git import GIB, git
from .weight import MAX_LISTING_BYTES
from .wording import is_utf8

SEARCH_TIMEOUT_S = 60.0  # a regular expression can be slow on purpose; two million lines take a second
MAX_MEMORY_BYTES = GIB  # `a{1,200}{1,200}{1,20}` would take all there is
BAD_USAGE = 128  # git's exit code; 1 is: nothing found


@dataclass(frozen=True, slots=True)
class Occurrence:
    path: str
    line: int
    text: str


async def occurrences(git_dir: Path, commit: str, pattern: str, *, word: bool = False) -> list[Occurrence]:
    """By path and line; none in binary files. `pattern` is an extended POSIX expression, or a `word` as it stands.

    `PatternRefused` for what is no expression.
    """
    how = ("--fixed-strings", "--word-regexp") if word else ("--extended-regexp",)
    ask = ("grep", "-I", "-n", "-o", "-z", "--full-name", "--no-color", *how, "-e", pattern, commit, "--")
    try:
        found = await git(
            *ask,
            git_dir=git_dir,
            timeout_s=SEARCH_TIMEOUT_S,
            max_stdout_bytes=MAX_LISTING_BYTES,
            max_memory_bytes=MAX_MEMORY_BYTES,
            ok=(0, 1),
        )
    except GitFailed as e:
        raise PatternRefused(f"git cannot search for {pattern[:80]!r}: {e.stderr.strip() or e}") from e
    return [one for line in found.stdout.split(b"\n") if (one := _read(line, commit)) is not None]


def _read(line: bytes, commit: str) -> Occurrence | None:
    """`COMMIT:PATH NUL LINE NUL TEXT`; None for a name that is not UTF-8."""
    place, _, rest = line.partition(b"\0")
    number, _, text = rest.partition(b"\0")
    path = place.removeprefix(f"{commit}:".encode())
    if not number.isdigit() or not is_utf8(path):
        return None
    return Occurrence(path.decode(), int(number), text.decode("utf-8", "replace"))
