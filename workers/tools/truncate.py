"""Cutting a tool's output to what a model can use. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

# The limits that users of agents know: 2,000 lines is a long file, and 50 KiB are about 13,000 tokens.
MAX_LINES = 2000
MAX_BYTES = 50 * 1024
MAX_LINE_CHARS = 2000

End = Literal["head", "tail"]


class Cut(str):
    """A text as a model is shown it: whole lines from one end, and a notice where something is missing.

    `text` are these lines alone. `dropped_lines` and `dropped_bytes` say what is not in them, and `notice` tells the
    model so, in the unit of the limit that was met; empty when the text is whole.
    """

    __slots__ = ("dropped_bytes", "dropped_lines", "keep", "notice", "text")
    text: str
    dropped_lines: int
    dropped_bytes: int
    notice: str
    keep: End

    def __new__(
        cls, text: str, dropped_lines: int = 0, dropped_bytes: int = 0, notice: str = "", keep: End = "head"
    ) -> Self:
        self = super().__new__(cls, _with_notice(text, notice, keep))
        self.text, self.notice, self.keep = text, notice, keep
        self.dropped_lines, self.dropped_bytes = dropped_lines, dropped_bytes
        return self

    @property
    def truncated(self) -> bool:
        return bool(self.notice)

    def shown(self, hint: str) -> str:
        """The same, with a `hint` behind the notice: where the rest is (see `spill_hint`)."""
        return _with_notice(self.text, f"{self.notice}\n{hint}", self.keep) if self.notice else self.text


def truncate(text: str, *, keep: End = "head", max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Cut:
    """Keep whole lines from one end until a limit is reached; a single line over the limit is cut itself.

    Newlines count as bytes. The newline at the end of a text begins no further line.

    >>> truncate("a\\nb\\nc", keep="tail", max_lines=2)
    '(1 line truncated)\\n\\nb\\nc'
    """
    size_bytes = _size(text)
    lines = text.removesuffix("\n").split("\n")
    if len(lines) <= max_lines and size_bytes <= max_bytes:
        return Cut(text, keep=keep)
    ordered = lines if keep == "head" else lines[::-1]
    count, by_bytes = _fitting(ordered, max_lines, max_bytes)
    kept = ordered[:count] or [_cut_bytes(ordered[0], keep, max_bytes)]
    shown = "\n".join(kept if keep == "head" else kept[::-1])
    dropped_lines, dropped_bytes = len(lines) - len(kept), size_bytes - _size(shown)
    dropped = _counted(dropped_bytes, "byte") if by_bytes else _counted(dropped_lines, "line")
    return Cut(shown, dropped_lines, dropped_bytes, f"({dropped} truncated)", keep)


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
    return f"1 {unit}" if count == 1 else f"{count} {unit}s"


def _with_notice(text: str, notice: str, keep: End) -> str:
    if not notice:
        return text
    return f"{text}\n\n{notice}" if keep == "head" else f"{notice}\n\n{text}"
