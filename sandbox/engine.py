"""What a driver needs of a container engine. `docker.py` speaks to Docker's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .channel import ByteStream


@dataclass(frozen=True, slots=True)
class Labelled:
    """A container or a volume of ours, by its sandbox's id."""

    sandbox_id: str
    labels: Mapping[str, str]


class ContainerEngine(Protocol):
    """Every call is bounded in time, and raises `EngineUnavailable`, `ImageMissing` or `SandboxError`."""

    async def create(self, name: str, config: Mapping[str, Any]) -> None: ...
    async def start(self, name: str) -> ByteStream:
        """Attach, then start: no byte of PID 1 is missed."""
        ...

    async def remove(self, name: str) -> None:
        """Kill and remove a container, and wait until it is gone. One that is gone already is fine."""
        ...

    async def remove_volume(self, name: str) -> None:
        """One that is gone already is fine."""
        ...

    async def pause(self, name: str) -> None:
        """Freeze every process of the container where it stands."""
        ...

    async def resume(self, name: str) -> None: ...
    async def mountpoint(self, volume: str) -> Path:
        """Where the volume of a running container can be read on this host; `SandboxError` where it cannot."""
        ...

    async def containers(self, label: str) -> list[Labelled]: ...
    async def volumes(self, label: str) -> list[Labelled]: ...
    async def image_id(self, image: str) -> str | None:
        """None when the engine has no such image."""
        ...

    async def commit(self, name: str, image: str, config: Mapping[str, Any]) -> None:
        """Keep a container's file system, without its mounts, as `image` (repository:tag)."""
        ...

    async def close(self) -> None: ...
