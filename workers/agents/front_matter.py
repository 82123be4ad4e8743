"""The front matter of an agent's file, which must have one. Pure."""

from __future__ import annotations

from typing import Any

from ..errors import BadAgent
from ..front_matter import TYPED, BadFrontMatter, read_front_matter


def split(name: str, text: str) -> tuple[dict[str, Any], str]:
    """The keys and the body of the file of agent `name`; `BadAgent` names the line that is broken."""
    try:
        keys, body = read_front_matter(text, TYPED)
    except BadFrontMatter as e:
        raise BadAgent(f"agent {name!r}: {e.fault}", hint=e.hint) from e
    if keys is None:
        raise BadAgent(f"agent {name!r} has no front matter", hint="start the file with `---`, keys, and `---` again")
    return keys, body
