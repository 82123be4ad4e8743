"""Where a fetch writes: what it leaves in its middle is told from what merges write into the mirror meanwhile."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from .removal import discard_tree

INCOMING = "incoming"
PACK = (".pack", ".rev", ".idx")  # in the order in which they come: git looks for the last
LOOSE = re.compile(r"[0-9a-f]{38}")  # an object's file, in a folder of its first two digits


def take_incoming(git_dir: Path) -> None:
    """The whole packs and objects that a fetch has written: a branch may stand for them by now. Nothing else of it
    stays. The caller holds the mirror's lock."""
    incoming = git_dir / INCOMING
    for index in incoming.glob("pack/pack-*.idx"):
        for suffix in PACK:
            with suppress(FileNotFoundError):
                index.with_suffix(suffix).replace(git_dir / "objects/pack" / f"{index.stem}{suffix}")
    for loose in incoming.glob("[0-9a-f][0-9a-f]/*"):  # from a server that knows no protocol of git's, only files
        if LOOSE.fullmatch(loose.name):
            place = git_dir / "objects" / loose.parent.name
            place.mkdir(exist_ok=True)
            loose.replace(place / loose.name)
    discard_tree(incoming)
