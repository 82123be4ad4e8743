"""Overlays on this host."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from . import kernel
from .errors import SandboxError


async def mount_overlay(
    target: Path, lower: Sequence[Path], *, upper: Path | None = None, work: Path | None, source: str = "overlay"
) -> None:
    """`lower`: topmost first. Without `upper` nothing can be written. `source` is told in the list of mounts."""
    layers = "lowerdir=" + ":".join(str(folder) for folder in lower)
    if upper is not None:
        layers += f",upperdir={upper},workdir={work}"
    await asyncio.to_thread(target.mkdir, exist_ok=True)
    try:
        await asyncio.to_thread(kernel.mount, "overlay", target, layers, kernel.NOSUID | kernel.NODEV, source=source)
    except SandboxError as refusal:
        raise SandboxError(
            f"An overlay cannot be mounted: {refusal}", hint="run the worker as root on this host"
        ) from refusal


async def unmount(target: Path) -> None:
    """At once for whoever looks anew; one that is not mounted is fine."""
    if await asyncio.to_thread(target.is_mount):
        await asyncio.to_thread(kernel.unmount, target)
