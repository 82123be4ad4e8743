"""Which fleet this process belongs to, and how to reach it.

Every process reads the same two places: the environment (`MUSTER_REDIS_URL`, `MUSTER_FLEET`, …), then the user's file.
What workers alone know stands in the file's table `[workers]`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from . import approvals, keyring
from .admission import DEFAULT_POOLS
from .base import Transport
from .blobs import open_blobs
from .blobs.base import Blobs
from .embedded import socket_path, url_of
from .errors import Unreachable
from .limits import Limits
from .state_folder import require_private
from .watching import UNWATCHED, StoreWatch


def default_state_dir() -> Path:
    """`$XDG_STATE_HOME/muster`, by default `~/.local/state/muster`."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "muster"


def user_file() -> Path:
    """`$MUSTER_CONFIG`, else `muster/config.toml` in the user's configuration folder; it need not exist."""
    configured = os.environ.get("MUSTER_CONFIG")
    if configured:
        return Path(configured)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "muster" / "config.toml"


class FleetSettings(BaseSettings):
    """Without `redis_url` the fleet is this machine's, on an embedded server in the state folder."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", frozen=True, extra="ignore")

    redis_url: str | None = None
    fleet: str = Field(default="main", pattern=r"^[a-z0-9-]{1,40}$")
    state_dir: Path = Field(default_factory=default_state_dir)
    lease_s: float = Field(default=15.0, gt=0)
    poison_after: int = Field(default=3, ge=1)
    retention_s: float = Field(default=7 * 24 * 3600.0, gt=0)
    # Accepted tasks and people's decisions are acknowledged when so many replicas have them: a failover forgets none.
    redis_wait_replicas: int = Field(default=0, ge=0, le=10)
    max_entries: int = Field(default=100_000, ge=1_000)
    keyring: Path | None = None  # None: one in the state folder, made at the first start
    cells: int = Field(default=1, ge=1, le=64)  # the same for all of a fleet's programs, for ever
    blobs: str | None = None  # where large ones go: a folder, s3://…; None: Redis, or the embedded fleet's state folder
    # What the API's callers may store for a tenant within an hour, and while blobs are kept; 0: no limit (docs/api.md).
    upload_hour_bytes: int = Field(default=Limits().upload_hour_bytes, ge=0)
    upload_bytes: int = Field(default=Limits().upload_bytes, ge=0)
    metrics_host: str = "127.0.0.1"
    # A loop that has not come round for so long is dead to /healthz; a busy worker may stand still for a minute.
    liveness_s: float = Field(default=120.0, gt=0)
    metrics_port: int = Field(default=0, ge=0, le=65535)  # 0: a free one, announced with the process's card

    @field_validator("state_dir", mode="before")
    @classmethod
    def _named(cls, path: object) -> object:
        """A variable that is set to nothing names no folder, and least of all the one that a command is typed in."""
        return path or default_state_dir()

    @field_validator("keyring", mode="before")
    @classmethod
    def _none(cls, path: object) -> object:
        """Nor a file, which would stand in that folder."""
        return path or None

    @field_validator("state_dir", "keyring")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        """Redis and the fleet's other programs do not work where the command line was typed."""
        return path and path.expanduser().absolute()

    @property
    def limits(self) -> Limits:
        return Limits(
            lease_ms=int(self.lease_s * 1000),
            poison_after=self.poison_after,
            retention_ms=int(self.retention_s * 1000),
            max_entries=self.max_entries,
            wait_replicas=self.redis_wait_replicas,
            upload_hour_bytes=self.upload_hour_bytes,
            upload_bytes=self.upload_bytes,
        )

    @property
    def keyring_path(self) -> Path:
        return self.keyring or self.state_dir / "keyring.json"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=user_file())


async def connect(
    settings: FleetSettings,
    *,
    pools: Collection[str] = DEFAULT_POOLS,
    watch: StoreWatch = UNWATCHED,
    approves: bool = True,
) -> Transport:
    """The fleet's transport; the embedded server must run already (its owner starts it, see `embedded.py`).

    `pools` may be given work before any of their workers has announced itself. Who `approves` reads the private
    approval keys, where there are any; a worker does not.
    """
    # redis is imported by those who connect, not by those who read settings (`muster --help`)
    from .redis import connect_redis

    require_private(settings.state_dir)
    if settings.redis_url is None and not socket_path(settings.state_dir).exists():
        raise Unreachable("no fleet runs on this machine", hint="run `muster up`, or set MUSTER_REDIS_URL")
    path = settings.keyring_path
    is_first = not path.exists()
    keys = keyring.load_or_create(path)
    # A fleet of several hosts gets them by hand (`muster keys add`): two that each made their own would not agree.
    if is_first or settings.redis_url is None:
        approvals.create(path, since_ms=0 if is_first else time.time_ns() // 1_000_000)
    return await connect_redis(
        settings.redis_url or url_of(settings.state_dir),
        keyring=keys,
        approval_keys=approvals.at(path, approves=approves),
        fleet=settings.fleet,
        limits=settings.limits,
        cells=settings.cells,
        pools=pools,
        large_blobs=_large_blobs(settings),
        watch=watch,
    )


def _large_blobs(settings: FleetSettings) -> Blobs | None:
    place = settings.blobs or (None if settings.redis_url else str(settings.state_dir / "blobs"))
    return open_blobs(place, retention_ms=settings.limits.retention_ms) if place else None
