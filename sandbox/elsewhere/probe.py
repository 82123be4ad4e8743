"""Whether an engine can mount what this host has: asked of the engine itself, with a file that only we know."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path

from ..disk import MNT_DETACH
from ..docker import Engine, security_options
from ..unfit import require_limits

# The engine with shifted user ids keeps its things in a folder that says by how much.
SHIFTED = re.compile(r"/(\d+)\.(\d+)$")


@dataclass(frozen=True, slots=True)
class Placement:
    """`why_elsewhere` is empty where the engine mounts our folders: then workspaces are overlays over checkouts."""

    why_elsewhere: str = ""
    first_uid: int = 0  # what the engine's host calls the user 0 of a container, where the engine mounts as its host
    first_gid: int = 0


async def placement_of(engine: Engine, state_dir: Path) -> Placement:
    """Where workspaces can be, and why not beside us; raises where the engine cannot hold limits."""
    details = await engine.details()
    require_limits(details)
    options = security_options(details)
    if "rootless" in options:
        return Placement("the engine is rootless")
    if "userns" in options:
        shifted = SHIFTED.search(str(details.get("DockerRootDir")))
        first_uid, first_gid = (int(shifted[1]), int(shifted[2])) if shifted else (0, 0)
        return Placement("the engine shifts user ids", first_uid, first_gid)
    if os.geteuid() != 0:
        return Placement("this worker is not root")
    if not await _sees(engine, state_dir):
        return Placement("the engine does not see this host's files")
    return Placement()


async def _sees(engine: Engine, state_dir: Path) -> bool:
    """Also what is mounted here from now on: a worker in a container may share the folder alone."""
    folder = state_dir / f"probe-{uuid.uuid4().hex}"
    await asyncio.to_thread(folder.mkdir, parents=True)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        libc.mount(b"muster", os.fsencode(folder), b"tmpfs", 0, b"size=4k")  # else the folder itself has to do
        (folder / "file").touch()
        return await engine.sees(folder / "file")
    finally:
        libc.umount2(os.fsencode(folder), MNT_DETACH)
        (folder / "file").unlink(missing_ok=True)
        folder.rmdir()
