"""Texts of models and repositories, as an editor may show them. Pure."""

from __future__ import annotations

import re

JOINER = "\u200d"  # of emoji; no other invisible sign has a meaning in what is reviewed
_MARKS = re.compile("`{3,}")


def shown(text: str) -> str:
    """Without what a terminal obeys, and without what makes a line read other than it is (right-to-left marks).

    >>> shown("a\\x1b[2Jb\\u202ec\\n\\td")
    'a?[2Jb?c\\n\\td'
    """
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join(sign if sign.isprintable() or sign in "\n\t" or sign == JOINER else "?" for sign in text)


def fenced(text: str, language: str = "") -> str:
    """As a block of Markdown that what is in it cannot end.

    >>> print(fenced("a\\n```\\nb", "sh"))
    ````sh
    a
    ```
    b
    ````
    """
    fence = "`" * (1 + max((len(found) for found in _MARKS.findall(text)), default=2))
    return f"{fence}{language}\n{shown(text).rstrip()}\n{fence}"


def clipped(text: str, max_chars: int) -> str:
    """
    >>> clipped("abcdef", 3)
    'abc… (3 more characters)'
    """
    more = len(text) - max_chars
    return f"{text[:max_chars]}… ({more} more characters)" if more > 0 else text
