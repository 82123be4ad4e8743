"""Lines that stand for others: `# ...`, `// ... existing code ...`. Pure.

Models write them to save words. As a piece of a file they name nothing, and as new text they would take the place of
what they stand for.
"""

from __future__ import annotations

import re

_DOTS = r"(?:\.{3,}|…)"
# What a comment begins or ends with, a language's own brackets, and those of people who leave words out.
_MARKS = r"[\s#/*%;(){}\[\]<>!'\"`-]*"
_WORDS = (
    r"(?:rest|remaining|remainder|remains?|existing|unchanged|omitted|elided|previous|same|other|more|keep|kept|skip\w*"
    r"|as before|no changes?)"
)
_BARE = re.compile(rf"{_MARKS}{_DOTS}{_MARKS}")
# With words it is one only as a whole line of them: a sentence that ends in dots is none.
_WORDED = re.compile(
    rf"{_MARKS}(?:{_DOTS}[^.…]{{0,60}}\b{_WORDS}\b[^.…]{{0,60}}{_DOTS}?|[^.…=;]{{0,60}}\b{_WORDS}\b[^.…=;]{{0,60}}{_DOTS})"
    rf"\.?{_MARKS}",
    re.IGNORECASE,
)
MAX_LINE_CHARS = 200


def elided(text: str) -> str:
    """The first line that stands for others, without the blanks around it; empty when there is none.

    >>> elided("def f():\\n    # ...\\n    return 1"), elided("print('Loading...')")
    ('# ...', '')
    """
    return next((line for line in _short(text) if _BARE.fullmatch(line) or _WORDED.fullmatch(line)), "")


def newly_elided(new: str, known: str) -> str:
    """As `elided`, of the lines that say so in words and are not in `known`: three dots alone may well be code."""
    lines = (line for line in _short(new) if _WORDED.fullmatch(line) and line not in known)
    return next(lines, "")


def _short(text: str) -> list[str]:
    return [line for line in map(str.strip, text.split("\n")) if len(line) <= MAX_LINE_CHARS]
