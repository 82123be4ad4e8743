"""The root that setup commands write, as it is measured and kept: by an engine, or as a layer of this host's."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from repo.keeping import GIB
from repo.lock import file_lock

from .base import MIB, WORKSPACE, Command, Limits
from .channel import Channel
from .container import WRITER, Opening, Place, SetupRoot
from .docker import Engine
from .errors import DiskFull, LimitExceeded, SandboxError
from .host_process import run
from .opened import OpenSandbox
from .outlet import NO_OUTLET
from .roots import ROOT, Roots
from .tools import ToolClient
from .toolserver import PLACES
from .unfit import FULL_HINT
from .view import KeptRoot

SETUP_LABEL = "muster.setup"  # of images that a setup made
PLACES_FOLDER = "places"  # in a driver's state folder: what `look` found in an image, by its id
COPY_TIMEOUT_S = 600.0  # gigabytes of installed packages on a slow disk
MAX_ANSWER_BYTES = 1 * MIB
LAST_CHARS = 300
SEE_WHAT = "see what its commands write, and have them write less, or nearer to the root"
FAILED = {
    "look": "The image's folders cannot be looked at",
    "fill": "The image's folders cannot be copied for setup",
    "take": "What setup wrote cannot be kept",
    "full": "The sandbox does not say what is full",
}
# Of the image alone, which no setup command can have changed: it is no place that the sandbox's user may write.
PYTHON = 'PATH=/usr/local/bin:/usr/bin:/bin; exec python3 -I -S - "$@"'
HINT = "install less, or have the operator raise `setup_max_gib` or build an image with it (docs/sandbox/images.md)"
HINT_IN_MEMORY = (
    "install less, or have the operator build an image with it (docs/sandbox/images.md): "
    "what setup writes is held in memory here"
)

Start = Callable[[Opening, AsyncExitStack], Awaitable[Channel]]


@dataclass(frozen=True, slots=True)
class EngineRoot:
    """`taker` is at work in the second container of `root`."""

    engine: Engine
    root: SetupRoot
    taker: ToolClient

    @property
    def max_bytes(self) -> int:
        return self.root.max_bytes

    @property
    def max_files(self) -> int:
        return self.root.max_files

    @property
    def hint(self) -> str:
        return HINT if self.root.disk is not None else HINT_IN_MEMORY

    @property
    def places(self) -> Sequence[str]:
        """In memory the workspace and small places have a size of their own."""
        if self.root.disk is not None:
            return [WORKSPACE, *self.root.paths]
        return [self.root.paths[self.root.main]] if self.root.places else []

    async def take(self) -> tuple[int, int]:
        given = {"places": self.root.paths, "max_bytes": self.max_bytes, "max_files": self.max_files}
        found: dict[str, int] = await ask_inside(self.taker, "take", given)
        require_within(found["bytes"], found["files"], self)
        return found["bytes"], found["files"]

    async def commit(self, image: str) -> None:
        await self.engine.discard(image)  # or its bytes stay, and nobody knows it by a name
        await self.engine.commit(f"{self.root.sandbox_id}{WRITER}", image, {"Labels": {SETUP_LABEL: image}})


@dataclass(frozen=True, slots=True)
class LayerRoot:
    """`upper` is what was written over the image of the sandbox `sandbox_id`."""

    roots: Roots
    sandbox_id: str
    upper: Path
    folder: Path  # of the sandbox
    limits: Limits
    hint: str = HINT
    places: Sequence[str] = ("/", WORKSPACE)

    @property
    def max_bytes(self) -> int:
        return self.limits.workspace_bytes

    @property
    def max_files(self) -> int:
        return self.limits.workspace_inodes

    async def take(self) -> tuple[int, int]:
        try:
            found = await asyncio.to_thread(measured, self.upper)
        except OSError as error:  # a path that this host takes for too long
            raise LimitExceeded(f"{FAILED['take']}: {error.strerror}.", hint=SEE_WHAT) from error
        require_within(*found, self)
        target = self.folder / ROOT / "upper"
        copied = await run(
            ["cp", "--archive", "--no-target-directory", str(self.upper), str(target)], timeout_s=COPY_TIMEOUT_S
        )
        if copied.exit_code != 0:
            said = copied.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            kind = DiskFull if os.strerror(errno.ENOSPC) in said else SandboxError
            raise kind(f"{FAILED['take']}: {said}", hint=FULL_HINT)
        return found

    async def commit(self, image: str) -> None:
        await self.roots.commit(self.sandbox_id, image)


async def open_root(engine: Engine, opening: Opening, start: Start, undo: AsyncExitStack) -> EngineRoot:
    """The second container of `opening.root` runs, and has filled the volumes that the first will be given."""
    assert opening.root is not None
    root = replace(opening.root, is_taker=True)
    for volume in root.volumes:
        undo.push_async_callback(engine.remove_volume, volume)
    spec = replace(opening.spec, egress=frozenset[str](), outlet=NO_OUTLET)
    name = f"{opening.sandbox_id}{WRITER}"
    channel = await start(replace(opening, sandbox_id=name, spec=spec, root=root), undo)
    taker = ToolClient(channel, {})
    await ask_inside(taker, "fill", root.paths)
    return EngineRoot(engine, root, taker)


def root_of(sandbox_id: str, places: tuple[Place, ...], limits: Limits, *, in_memory: bool) -> SetupRoot:
    """One in memory takes no more than the commands themselves may."""
    max_bytes = min(limits.workspace_bytes, limits.memory_bytes) if in_memory else limits.workspace_bytes
    return SetupRoot(sandbox_id, places, max_bytes, limits.workspace_inodes, disk=None)


def on_disk(root: SetupRoot, disk: Path) -> SetupRoot:
    """A folder for each place, as it is in the image."""
    folder = disk / "root"
    folder.mkdir()
    for number, place in enumerate(root.places):
        (folder / str(number)).mkdir()
        os.chown(folder / str(number), place.uid, place.gid)
        (folder / str(number)).chmod(place.mode)
    return replace(root, disk=folder)


async def places_of(
    image_id: str, state_dir: Path, open_sandbox: Callable[[], Awaitable[OpenSandbox]]
) -> tuple[Place, ...]:
    """Looked for once in each image, as the user that setups are."""
    note = state_dir / PLACES_FOLDER / f"{image_id.rpartition(':')[2]}.json"
    async with file_lock(note.with_suffix(".lock")):
        if not note.exists():
            async with await open_sandbox() as sandbox:
                found: list[dict[str, Any]] = await ask_inside(sandbox, "look", "")
            part = note.with_suffix(".part")
            part.write_text(json.dumps([asdict(Place(**each)) for each in found]))
            part.rename(note)
    return tuple(Place(**each) for each in json.loads(note.read_text()))


async def ask_inside(tools: ToolClient, mode: str, argument: object) -> Any:
    """See `toolserver/places.py`. Nothing of a setup may run there."""
    argv = ["/bin/sh", "-c", PYTHON, "sh", mode, json.dumps(argument)]
    asked = Command(argv, "/", {}, PLACES.read_bytes(), COPY_TIMEOUT_S, MAX_ANSWER_BYTES)
    result = await tools.exec(asked)
    lines = result.output.splitlines()
    try:
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer["answer"]
    except (IndexError, ValueError, KeyError):
        said = result.output[-LAST_CHARS:].decode(errors="replace").strip().rpartition("\n")[2]
        message, kind = f"{FAILED[mode]}: {said}.", LimitExceeded if mode == "take" else SandboxError
        raise kind(message, hint=SEE_WHAT) from None


def measured(folder: Path) -> tuple[int, int]:
    """Bytes and files of all that is below. Each file counts once, by its length or what it takes: the larger one."""
    total, files, seen = 0, 0, set[int]()
    waiting = [os.fsencode(folder)]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            status = entry.stat(follow_symlinks=False)
            files += 1
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                total += max(status.st_size, status.st_blocks * 512)
            if stat.S_ISDIR(status.st_mode):
                waiting.append(entry.path)
    return total, files


def require_within(size_bytes: int, files: int, limits: KeptRoot) -> None:
    if size_bytes > limits.max_bytes:
        found = f"{size_told(size_bytes)}, more than the {size_told(limits.max_bytes)} that a setup may keep"
    elif files > limits.max_files:
        found = f"{files:,} files, more than the {limits.max_files:,} that a setup may keep"
    else:
        return
    raise LimitExceeded(f"Setup leaves {found}.", hint=limits.hint)


def size_told(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else f"{size_bytes / MIB:.1f} MiB"
