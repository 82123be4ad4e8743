"""Names from a hostile tree as people may see them: without control codes, and never a flood of them."""

from __future__ import annotations

from collections.abc import Iterable

WARNINGS_SHOWN = 20  # of one kind; more would bury the others


def as_text(content: bytes) -> str:
    """Whatever is no UTF-8 is escaped."""
    return content.decode("utf-8", "backslashreplace")


def readable(name: bytes) -> str:
    """A file name or message for people: whatever is not printable UTF-8 is shown escaped."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in as_text(name))


def each(names: Iterable[bytes], sentence: str) -> list[str]:
    """`sentence` after each name, up to a limit."""
    return capped([f"{readable(name)} {sentence}" for name in names])


def capped(sentences: list[str]) -> list[str]:
    hidden = len(sentences) - WARNINGS_SHOWN
    return [*sentences[:WARNINGS_SHOWN], f"{hidden} more warnings of this kind"] if hidden > 0 else sentences


def is_utf8(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True
