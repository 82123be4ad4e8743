"""Settings of the orchestrator and of the command line: `MUSTER_*`, then the user's file, then these defaults."""

from __future__ import annotations

import os
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import SettingsConfigDict

from envelope.messages import MAX_DEADLINE_MS
from repo.keeping import DAY_S, GIB, Allowance
from transport.admission import DEFAULT_POOLS
from transport.settings import FleetSettings, user_file
from transport.state_folder import require_private

from .console_settings import ConsoleSettings
from .errors import BadSettings, near_miss
from .publication.settings import ForgeName, ForgeSettings
from .webhooks.config import Webhook, WebhookName

HOUR_MS = 3600 * 1000


# What an agent takes that looks, that does all sorts of work, and that builds and runs tests, on average. A sandbox may
# take more (2 GiB); that all do at once is what the engine's own limits and the reaper are for.
EXPLORE_BYTES, GENERAL_BYTES, BUILD_BYTES = 256 << 20, 1 << 30, 2 << 30


def pools_of(cores: int, memory_bytes: int) -> dict[str, int]:
    """The pools of a fleet on one machine, with their slots. Agents mostly wait for models, so that memory bounds them;
    commands that compute have a limit of their own (`workers/sandboxes/permits.py`).

    >>> pools_of(2, 8 << 30), pools_of(1, 1 << 30)
    ({'explore': 32, 'general': 8, 'build': 4}, {'explore': 4, 'general': 2, 'build': 2})
    """
    slots = {
        "explore": min(64, memory_bytes // EXPLORE_BYTES),
        "general": min(16, memory_bytes // GENERAL_BYTES),
        "build": min(2 * cores, memory_bytes // BUILD_BYTES),
    }
    return {pool: max(2, count) for pool, count in slots.items()}


def _pools_of_this_machine() -> dict[str, int]:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return pools_of(len(os.sched_getaffinity(0)), memory_bytes)


class Settings(FleetSettings):
    """The user's file may hold these names and no others."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="forbid", frozen=True)

    image: str = ""  # the sandbox image; empty: the workers' own default
    model: str = ""  # what answers when a task names none; handed on to the workers
    default_agent: str = ""  # who does a goal that names nobody; empty: build, or else the first that people start
    pools: dict[str, Annotated[int, Field(gt=0)]] = Field(default_factory=_pools_of_this_machine)
    deadline_ms: Annotated[int, Field(gt=0, le=MAX_DEADLINE_MS)] = HOUR_MS
    budget_microusd: Annotated[int, Field(ge=0)] = 5_000_000
    ask_above_microusd: Annotated[int, Field(ge=0)] = 10_000_000  # an estimate above this is asked about at a terminal
    tenant: str = "default"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "text"] = "auto"  # auto: for people at a terminal, else JSON
    # A driver mostly waits; what it costs while it merges is bounded by the machine, not by this.
    driver_slots: Annotated[int, Field(gt=0)] = 64
    # Of the repositories that goals and batches merge in; workers take the same two for theirs (docs/sandbox.md).
    repositories_max_age_days: Annotated[float, Field(gt=0)] = 14
    repositories_max_gib: Annotated[float, Field(ge=0)] = 20
    webhooks: dict[WebhookName, Webhook] = Field(default_factory=dict[str, Webhook])  # docs/webhooks.md
    webhook_timeout_s: Annotated[float, Field(gt=0, le=60)] = 10.0  # for one try to deliver
    forges: dict[ForgeName, ForgeSettings] = Field(default_factory=dict[str, ForgeSettings])  # docs/publishing.md
    # What this process submits, or drives, may only look (docs/ci.md). It is not the fleet's: no child inherits it.
    read_only: bool = Field(default=False, exclude=True)
    console: ConsoleSettings = ConsoleSettings()  # docs/console.md
    public_url: str = ""  # where people outside reach the API: links to it begin so
    workers: dict[str, Any] = Field(default_factory=dict[str, Any], exclude=True)  # theirs to read, and to check

    @property
    def known_pools(self) -> frozenset[str]:
        """Pools that are given work before any of their workers has announced itself."""
        return frozenset({*DEFAULT_POOLS, *self.pools})

    @property
    def repositories_allowance(self) -> Allowance:
        return Allowance(self.repositories_max_age_days * DAY_S, int(self.repositories_max_gib * GIB))

    @property
    def cache_dir(self) -> Path:
        """Mirrors of the repositories that batches work on."""
        return self.state_dir / "orchestrator"


def load_settings(**overrides: Any) -> Settings:
    """The settings of this process; `BadSettings` names the first setting that is wrong.

    The state folder is for this user alone from then on, if it is there: `transport/state_folder.py`.
    """
    try:
        settings = Settings(**overrides)
        require_private(settings.state_dir)
        return settings
    except TOMLDecodeError as e:
        raise BadSettings(f"{user_file()} is not TOML: {e}", hint="mend that line, or move the file away") from e
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False)[0]
        name = ".".join(map(str, fault["loc"]))
        if fault["type"] == "extra_forbidden":
            hint = near_miss(name, Settings.model_fields)
            raise BadSettings(f"{user_file()} has an unknown setting {name!r}", hint=hint) from e
        hint = f"set it in {user_file()} or as MUSTER_{name.split('.')[0].upper()}"
        raise BadSettings(f"the setting {name!r} is wrong: {fault['msg']}", hint=hint) from e
