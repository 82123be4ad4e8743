"""What many sandboxes of one engine share, as volumes that they mount read-only: the tool server, and packed checkouts.

A volume is named by its content. An engine cannot rename one, so that half of it may be there when a worker died: who
lays it out looks at its length first, and it is brought again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tarfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from repo.keeping import Allowance, Kept, surplus
from repo.lock import file_lock
from repo.temporary import temporary_folder

from ..docker import Engine, Holder
from ..toolserver import ELSEWHERE
from .pack import Packed, pack_checkout, tar_end, tar_header

LABEL = "muster.stock"  # its value: how many bytes are in it
PREFIX = "muster-stock-"
NAME_CHARS = 32
NOTHING = Packed("", 0, 0, 0)
OF_LAYER = ".layer"  # beside the note of a checkout with a setup's files over it: where those were


@dataclass(frozen=True, slots=True)
class Base:
    """A packed checkout. `volume` is None where there is none: an empty workspace."""

    volume: str | None
    packed: Packed


class Stock:
    """`folder` is this host's own: notes of what was packed already, and locks."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self._folder = folder

    async def tools(self, holder: Holder) -> str:
        """The volume with the tool server."""
        contents = [(path.name, path.read_bytes()) for path in ELSEWHERE]
        digest = hashlib.sha256(b"".join(content for _, content in contents)).hexdigest()
        volume = PREFIX + digest[:NAME_CHARS]
        members = [tar_header(name, len(content)) + content + _padding(len(content)) for name, content in contents]
        async with file_lock(self._folder / f"{volume}.lock"):
            is_whole = self._used(volume).exists() and await self.engine.has_volume(volume)
            if not is_whole:
                size = sum(len(content) for _, content in contents)
                await self.engine.fill(volume, {LABEL: str(size)}, b"".join(members) + tar_end(0), holder)
            self._used(volume).touch()
        return volume

    async def base(self, checkout: Path | None, layer: Path | None, holder: Holder, *, again: bool = False) -> Base:
        """The volume with `checkout` and what lies over it, brought there unless it is; `again`: even if it is, for it
        is not whole."""
        if checkout is None:
            return Base(None, NOTHING)
        note = self._folder / f"{_key(checkout, layer)}.json"
        async with file_lock(note.with_suffix(".lock")):
            packed = await asyncio.to_thread(_noted, note)
            if again or packed is None or not await self.engine.has_volume(_volume(packed)):
                packed = await self._bring(checkout, layer, holder)
                if layer is not None:
                    note.with_suffix(OF_LAYER).write_text(str(layer))
                note.write_text(json.dumps(asdict(packed)))
            self._used(_volume(packed)).touch()
        return Base(_volume(packed), packed)

    async def forget_layers(self) -> None:
        """Of setups that are kept no more: what nobody will ask for again, but for sandboxes that stand."""
        for told in await asyncio.to_thread(_without_layer, self._folder):
            packed = _noted(note := told.with_suffix(".json"))
            if packed is None or await self._engine_lets_go(_volume(packed)):
                note.unlink(missing_ok=True)
                told.unlink(missing_ok=True)

    async def _engine_lets_go(self, volume: str) -> bool:
        return await self.engine.discard_volume(volume) or not await self.engine.has_volume(volume)

    async def kept(self) -> list[Kept]:
        """Used when a worker of this state folder used it last, or when it was made, by whom ever."""
        found = await self.engine.volume_details(LABEL)
        return [self._kept(each) for each in found]

    async def collect(self, allowance: Allowance, *, now_s: float) -> list[Kept]:
        """Remove what is too much and in no sandbox; what went."""
        return [
            each for each in surplus(await self.kept(), allowance, now_s) if await self.engine.discard_volume(each.name)
        ]

    async def _bring(self, checkout: Path, layer: Path | None, holder: Holder) -> Packed:
        with temporary_folder("pack") as folder:
            packed = await asyncio.to_thread(pack_checkout, checkout, folder / "pack.tar", layer)
            with (folder / "pack.tar").open("rb") as archive:
                size = {LABEL: str(packed.pack_bytes)}
                await self.engine.fill(_volume(packed), size, archive, holder)
        return packed

    def _used(self, volume: str) -> Path:
        """Stamped when this host has used it, which is after it was filled."""
        return self._folder / f"{volume}.used"

    def _kept(self, volume: Mapping[str, Any]) -> Kept:
        used_at_s = datetime.fromisoformat(str(volume["CreatedAt"]).replace("Z", "+00:00")).timestamp()
        with suppress(FileNotFoundError):
            used_at_s = max(used_at_s, self._used(str(volume["Name"])).stat().st_mtime)
        size = str(volume["Labels"][LABEL])
        return Kept(str(volume["Name"]), int(size) if size.isdigit() else 0, min(used_at_s, time.time()))


def _without_layer(folder: Path) -> list[Path]:
    found: list[Path] = []
    for told in folder.glob(f"*{OF_LAYER}"):
        with suppress(FileNotFoundError):  # another worker was faster
            if not Path(told.read_text()).exists():
                found.append(told)
    return found


def _volume(packed: Packed) -> str:
    return PREFIX + packed.digest[:NAME_CHARS]


def _padding(size_bytes: int) -> bytes:
    return bytes(-size_bytes % tarfile.BLOCKSIZE)


def _noted(note: Path) -> Packed | None:
    """None for what was never packed, or was noted by another version."""
    try:
        return Packed(**json.loads(note.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _key(*folders: Path | None) -> str:
    """A checkout is never written again; one that was collected and made anew is another folder."""
    seen = [(folder, folder.stat()) for folder in folders if folder is not None]
    said = repr([(str(folder.absolute()), status.st_ino, status.st_ctime_ns) for folder, status in seen])
    return hashlib.sha256(said.encode()).hexdigest()[:NAME_CHARS]
