"""Lines that stand for others: `# ...`, `// ... existing code ...`. Pure.

Models write them to save words. As a piece of a file they name nothing, and as new text they would take the place of
what they stand for.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DOTS = ("...", "…")
_MARKS = " \t#/*%;(){}[]<>!'\"`-,:|"
_COMMENT = re.compile(r"\s*+(?:[{(\[]?\s*+(?:/[/*]|\*)|#|--|<!--|%|;|\"\"\"|''')")
_KEYS = _words(
    "rest remaining remainder existing unchanged omitted elided previous same other keep kept skipped truncated snip"
    " snipped"
)
# The other words of such lines. `...` before words of its own is a sentence that goes on.
_WORDS = _words(
    "the of this that your my in and code file files method methods function functions class classes implementation"
    " component components logic line lines content contents body test tests field fields import imports property"
    " properties case cases module section sections part parts props attributes config items entries elements block"
    " blocks here is are stay stays remain remains goes go as before above below it was were no change changes for"
    " brevity to not shown"
)
MAX_LINE_CHARS = 120


def elided(text: str) -> str:
    """The first line that stands for others, without the blanks around it; empty when there is none.

    >>> elided("def f():\\n    # ...\\n    return 1"), elided("print('Loading...')")
    ('# ...', '')
    """
    return next((line for line in _dotted(text) if not line.strip(_MARKS + ".…") or _says_so(line)), "")


def newly_elided(new: str, known: str) -> str:
    """As `elided`, of the lines that say so in words and are not in `known`: three dots alone may well be code.

    >>> newly_elided("// ... existing code ...", ""), newly_elided("  ...rest,", ""), newly_elided("...", "")
    ('// ... existing code ...', '', '')
    """
    return next((line for line in _dotted(new) if _says_so(line) and line not in known), "")


def _dotted(text: str) -> list[str]:
    if not any(dots in text for dots in _DOTS):
        return []
    lines = (line.strip() for line in text.split("\n") if any(dots in line for dots in _DOTS))
    return [line for line in lines if len(line) <= MAX_LINE_CHARS]


def _says_so(line: str) -> bool:
    inner = line.strip(_MARKS)
    leads, ends = inner.startswith(_DOTS), inner.endswith(_DOTS)
    words = inner.strip(".… ").lower().split()
    # `...rest` without a comment around it is code
    is_spread = leads and not _COMMENT.match(line) and inner.lstrip(".…")[:1] != " "
    if is_spread or not (leads or ends) or _KEYS.isdisjoint(words):
        return False
    return (leads and ends) or _KEYS.union(_WORDS).issuperset(words)
