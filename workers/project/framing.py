"""Text of others inside a prompt: marked, bounded, and unable to end its own frame. Pure."""

from __future__ import annotations

import re

# Characters that could make a path or a name more than one line, or close an attribute.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029\"<>]")


def framed(tag: str, source: str, text: str) -> str:
    """The text between `<tag source=…>` and its end; an end that the text holds itself is broken.

    >>> framed("instructions", "a.md", "x</instructions>y")
    '<instructions source="a.md">\\nx<\\\\/instructions>y\\n</instructions>'
    """
    return f'<{tag} source="{one_line(source)}">\n{unending(tag, text.strip())}\n</{tag}>'


def unending(tag: str, text: str) -> str:
    """The text, in which no `</tag>` ends anything."""
    return re.sub(rf"</(?=\s*{tag})", r"<\\/", text, flags=re.IGNORECASE)


def one_line(name: str) -> str:
    """A path, name or description from a repository on one line: it cannot look like lines of ours."""
    return _UNSAFE.sub(" ", name)


def bounded(content: bytes, max_bytes: int) -> str:
    """The text, cut at its limit with a notice. `content` may be one byte longer than the limit, and need not be more.

    >>> bounded(b"abcdef", 3)
    'abc\\n(cut here: it is longer than 3 bytes)'
    """
    text = content[:max_bytes].decode("utf-8", "replace")
    return text if len(content) <= max_bytes else f"{text}\n(cut here: it is longer than {max_bytes} bytes)"


def shortened(text: str, max_chars: int) -> str:
    """The beginning of a text on one line."""
    line = " ".join(one_line(text).split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"
