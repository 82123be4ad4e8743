"""Which fleet this process belongs to, and how to reach it. Environment: `MUSTER_REDIS_URL`, `MUSTER_FLEET`, …"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from . import keyring
from .base import Transport
from .blobs import DirectoryBlobs
from .embedded import socket_path, url_of
from .errors import Unreachable
from .limits import Limits


def default_state_dir() -> Path:
    """`$XDG_STATE_HOME/muster`, by default `~/.local/state/muster`."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "muster"


class FleetSettings(BaseSettings):
    """Without `redis_url` the fleet is this machine's, on an embedded server in the state folder."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", frozen=True, extra="ignore")

    redis_url: str | None = None
    fleet: str = Field(default="main", pattern=r"^[a-z0-9-]{1,40}$")
    state_dir: Path = Field(default_factory=default_state_dir)
    lease_s: float = Field(default=15.0, gt=0)
    poison_after: int = Field(default=3, ge=1)
    retention_s: float = Field(default=7 * 24 * 3600.0, gt=0)
    max_entries: int = Field(default=100_000, ge=1_000)

    @property
    def limits(self) -> Limits:
        return Limits(
            lease_ms=int(self.lease_s * 1000),
            poison_after=self.poison_after,
            retention_ms=int(self.retention_s * 1000),
            max_entries=self.max_entries,
        )

    @property
    def keyring_path(self) -> Path:
        return self.state_dir / "keyring.json"


async def connect(settings: FleetSettings) -> Transport:
    """The fleet's transport; the embedded server must run already (its owner starts it, see `embedded.py`)."""
    # redis is imported by those who connect, not by those who read settings (`muster --help`)
    from .redis import connect_redis

    url, large_blobs = settings.redis_url, None
    if url is None:
        if not socket_path(settings.state_dir).exists():
            raise Unreachable("no fleet runs on this machine", hint="run `muster up`, or set MUSTER_REDIS_URL")
        url, large_blobs = url_of(settings.state_dir), DirectoryBlobs(settings.state_dir / "blobs")
    keys = keyring.load_or_create(settings.keyring_path)
    return await connect_redis(url, keyring=keys, fleet=settings.fleet, limits=settings.limits, large_blobs=large_blobs)
