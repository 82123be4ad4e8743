"""Cutting a tool's output to what a model can use. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

# The limits that users of agents know: 2,000 lines is a long file, and 50 KiB are about 13,000 tokens.
MAX_LINES = 2000
MAX_BYTES = 50 * 1024
MAX_LINE_CHARS = 2000

End = Literal["head", "tail"]


@dataclass(frozen=True, slots=True)
class Cut:
    """Whole lines from one end of a text, and what of it is not in them: `dropped_lines` lines, `dropped_bytes` bytes.

    `notice` tells the model so, in the unit of the limit that was met; empty when the text is whole.
    """

    text: str
    dropped_lines: int
    dropped_bytes: int = 0
    notice: str = ""
    keep: End = "head"

    def shown(self, hint: str = "") -> str:
        """The text with the notice where something is missing. `hint`: where the rest is (see `spill_hint`)."""
        if not self.notice:
            return self.text
        told = f"{self.notice}\n{hint}" if hint else self.notice
        return f"{self.text}\n\n{told}" if self.keep == "head" else f"{told}\n\n{self.text}"


def truncate(text: str, *, keep: End = "head", max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Cut:
    """Keep whole lines from one end until a limit is reached; a single line over the limit is cut itself.

    Newlines count as bytes. The newline at the end of a text begins no further line.

    >>> truncate("a\\nb\\nc", keep="tail", max_lines=2).shown()
    '(1 line was cut here)\\n\\nb\\nc'
    """
    size_bytes = _size(text)
    lines = text.removesuffix("\n").split("\n")
    if len(lines) <= max_lines and size_bytes <= max_bytes:
        return Cut(text, 0, keep=keep)
    ordered = lines if keep == "head" else lines[::-1]
    count, by_bytes = _fitting(ordered, max_lines, max_bytes)
    kept = ordered[:count] or [_cut_bytes(ordered[0], keep, max_bytes)]
    shown = "\n".join(kept if keep == "head" else kept[::-1])
    dropped_lines, dropped_bytes = len(lines) - len(kept), size_bytes - _size(shown)
    dropped = _counted(dropped_bytes, "byte") if by_bytes else _counted(dropped_lines, "line")
    return Cut(shown, dropped_lines, dropped_bytes, f"({dropped} cut here)", keep)


def spill_hint(path: str, *, can_delegate: bool = False) -> str:
    """How to get at a whole output that was stored: a subagent's window is cheaper than one's own."""
    ways = "let a subagent search it (task)" if can_delegate else "search it with grep, or read parts of it"
    return f"The whole output is in {path}: {ways}."


def cut_line(line: str) -> str:
    """A line of at most `MAX_LINE_CHARS` characters, which says when it was cut."""
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}… (cut at {MAX_LINE_CHARS} characters)"


def _fitting(lines: Sequence[str], max_lines: int, max_bytes: int) -> tuple[int, bool]:
    """How many of the lines fit, and whether it is their bytes that stop the next one."""
    size_bytes = -1  # n lines have n - 1 newlines between them
    for count, line in enumerate(lines):
        if count == max_lines:
            return count, False
        size_bytes += _size(line) + 1
        if size_bytes > max_bytes:
            return count, True
    return len(lines), True  # what does not fit is the newline at the end


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _cut_bytes(line: str, keep: End, max_bytes: int) -> str:
    raw = line.encode("utf-8", "replace")
    return (raw[:max_bytes] if keep == "head" else raw[-max_bytes:]).decode("utf-8", "ignore")


def _counted(count: int, unit: str) -> str:
    return f"1 {unit} was" if count == 1 else f"{count} {unit}s were"
