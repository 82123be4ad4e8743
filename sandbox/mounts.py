"""Overlays on this host, by the system's own programs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from .errors import SandboxError
from .host_process import run

TIMEOUT_S = 30.0  # 3 ms (measured); the rest is a busy machine


async def mount_overlay(
    target: Path, lower: Sequence[Path], *, upper: Path | None = None, work: Path | None, source: str = "overlay"
) -> None:
    """`lower`: topmost first. Without `upper` nothing can be written. `source` is told in the list of mounts."""
    layers = "lowerdir=" + ":".join(str(folder) for folder in lower)
    if upper is not None:
        layers += f",upperdir={upper},workdir={work}"
    await asyncio.to_thread(target.mkdir, exist_ok=True)
    words = ["mount", "--no-canonicalize", "-t", "overlay", source, "-o", f"nosuid,nodev,{layers}", str(target)]
    answer = await run(words, timeout_s=TIMEOUT_S)
    if answer.exit_code != 0:
        said = answer.stderr.decode(errors="replace").strip()
        raise SandboxError(f"The workspace cannot be mounted: {said}", hint="run the worker as root on this host")


async def unmount(target: Path) -> None:
    """At once for whoever looks anew; one that is not mounted is fine."""
    if await asyncio.to_thread(target.is_mount):
        await run(["umount", "--lazy", str(target)], timeout_s=TIMEOUT_S)
