"""Which folders of a checkout really lie in it: a repository's links may lead to the whole machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def own_folders(root: Path, places: Iterable[str]) -> tuple[str, ...]:
    """Those of `places` that are there, with no link on the way to them."""
    inside = root.resolve()
    return tuple(place for place in places if (root / place).resolve() == inside / place)
