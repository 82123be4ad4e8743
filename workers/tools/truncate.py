"""Cutting a tool's output to what a model can use. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# The limits that users of agents know: 2,000 lines is a long file, and 50 KiB are about 13,000 tokens.
MAX_LINES = 2000
MAX_BYTES = 50 * 1024
MAX_LINE_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Cut:
    """Whole lines of a text, and how many of its lines are not in it."""

    text: str
    dropped_lines: int


def truncate(
    text: str, *, keep: Literal["head", "tail"] = "head", max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES
) -> Cut:
    """Keep whole lines from one end until a limit is reached; a single line over the limit is cut itself.

    >>> truncate("a\\nb\\nc", keep="tail", max_lines=2)
    Cut(text='b\\nc', dropped_lines=1)
    """
    lines = text.split("\n")
    kept: list[str] = []
    size_bytes = -1  # n lines have n - 1 newlines between them
    for line in lines if keep == "head" else reversed(lines):
        size_bytes += len(line.encode("utf-8", "replace")) + 1
        if len(kept) == max_lines or size_bytes > max_bytes:
            break
        kept.append(line)
    if not kept:
        kept = [_cut_bytes(lines[0 if keep == "head" else -1], keep, max_bytes)]
    return Cut("\n".join(kept if keep == "head" else reversed(kept)), len(lines) - len(kept))


def cut_line(line: str) -> str:
    """A line of at most `MAX_LINE_CHARS` characters, which says when it was cut."""
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}… (cut at {MAX_LINE_CHARS} characters)"


def _cut_bytes(line: str, keep: Literal["head", "tail"], max_bytes: int) -> str:
    raw = line.encode("utf-8", "replace")
    return (raw[:max_bytes] if keep == "head" else raw[-max_bytes:]).decode("utf-8", "ignore")
