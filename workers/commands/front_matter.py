"""The front matter of a command's file, which may have none. Pure."""

from __future__ import annotations

from typing import Any

from ..front_matter import STRINGS, read_front_matter
from ..front_matter import BadFrontMatter as BadFrontMatter


def parse_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The keys and the body; no keys when the file has no front matter. Every scalar is a string.

    A value that YAML wants quoted, as one with a colon in it, is taken as it is meant.
    """
    keys, body = read_front_matter(text, STRINGS)
    return keys or {}, body
