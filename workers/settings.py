"""What a worker process is told: `MUSTER_*` variables, then the user's file: its table `[workers]`, then its rest."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
)

from envelope.redaction import register_secret
from repo.keeping import DAY_S, GIB, Allowance
from sandbox.base import SetupLimits
from sandbox.choice import NO_PROCESS, DriverName
from sandbox.image import DEFAULT_IMAGE
from transport.settings import FleetSettings, user_file

from .after_write.settings import AfterWrite, Formatter, LanguageServer
from .agents.dialects import permission_rules
from .errors import BadSettings
from .hints import nearest
from .llm.base import Kind
from .llm.openai_items import OF_MESSAGES
from .mcp.settings import McpServers
from .permissions.rules import Rule
from .sandboxes.credentials import NO_TENANT, CredentialRow

FILES_PER_GIB = 50_000  # that a setup may write: more than packages of code have


def _written_permission(written: object) -> object:
    if isinstance(written, tuple):
        return cast(object, written)
    return permission_rules(json.loads(written) if isinstance(written, str) and written.startswith("{") else written)


Permission = Annotated[tuple[Rule, ...], NoDecode, BeforeValidator(_written_permission)]


class PriceRow(BaseModel):
    """Micro-dollars for a million tokens: $3 for a million is 3000000."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: int = Field(ge=0)
    output: int = Field(ge=0)
    cached: int | None = Field(default=None, ge=0)
    cache_write: int | None = Field(default=None, ge=0)


class LimitsRow(BaseModel):
    """A model's window in tokens; `input` where what is sent has a limit of its own. `sees`: the files that it can be
    shown; None: as the public list says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    context: int = Field(ge=0)
    output: int = Field(ge=0)
    input: int | None = Field(default=None, ge=0)
    sees: frozenset[Kind] | None = None


class WorkerSettings(FleetSettings):
    """`prices` is a table by model name: JSON in `MUSTER_PRICES`, or the name of a TOML file."""

    model: str = ""
    model_base_url: str = ""
    model_api_key: SecretStr = SecretStr("")
    model_engine: Literal["auto", "direct", "litellm"] = "auto"  # see models.py
    # How hard models think where their agent's file says nothing; empty: as the vendor's own tools have it.
    model_effort: Literal["", "low", "medium", "high", "max"] = ""
    model_reasoning_key: str = ""  # the field of a message in which the server wants thoughts again; none: nowhere
    # What the provider allows this key, in the whole fleet; None: the fleet finds out (docs/agents/limiter.md).
    model_requests_per_minute: int | None = Field(default=None, ge=1)
    model_tokens_per_minute: int | None = Field(default=None, ge=1)
    prices: dict[str, PriceRow] | str = Field(default_factory=dict[str, PriceRow])
    model_limits: dict[str, LimitsRow] = Field(default_factory=dict[str, LimitsRow])
    small_model: str = ""  # for titles; empty: the session's own
    titles: bool = True
    compaction: bool = True  # when the window is full; people may ask for one in any case
    compaction_reserved: int | None = Field(default=None, ge=0)  # tokens below a model's own limit for its input
    pruning: bool = False  # clear old outputs: cheaper turns, but providers cache the start of a request less often
    sandbox_driver: DriverName = "docker"
    sandbox_runtime: str = ""  # of Docker's engine: runsc, kata; its own default if empty
    image: str = DEFAULT_IMAGE
    warm_sandboxes: int = Field(default=0, ge=0, le=100)  # opened ahead for the next task of a repository and commit
    shared_sandboxes: bool = True  # recipe shards of one batch take turns in one that is reset: docs/batches/numbers.md
    # What this machine keeps for the next task, see docs/sandbox.md. Two weeks: older commits are no longer worked on.
    setups_max_age_days: float = Field(default=14, gt=0)
    setups_max_gib: float = Field(default=20, ge=0)  # of what setups have added to their image: a few dozen of them
    setup_max_gib: float = Field(default=4, gt=0)  # that one setup may write, with FILES_PER_GIB files
    setups_max_gib_per_tenant: float = Field(default=10, gt=0)  # at any time; half of all, so that two tenants fit
    setups_max_per_tenant: int = Field(default=50, ge=1)
    repositories_max_age_days: float = Field(default=14, gt=0)
    repositories_max_gib: float = Field(default=20, ge=0)  # mirrors, checkouts and bundles: a large one takes 4
    permission: Permission = ()  # of all agents: docs/agents/agents.md
    subagent_depth: int = Field(default=1, ge=0, le=8)  # levels of subagents below a task; 0: none
    slots: int = Field(default=4, ge=1, le=1000)
    # Instruction files for every agent: globs in the workspace; with `/` or `~/` in front, on this machine; or an
    # address with the hash of what is there: URL#sha256=HASH.
    instructions: tuple[str, ...] = ()
    allowed_roots: tuple[Path, ...] = ()
    git_protocols: tuple[str, ...] = ("https", "ssh")
    setup_hosts: tuple[str, ...] | None = None  # None: those of this host's package index
    # What tasks may use by name and never have, and addresses of the own network that their grants may lead to:
    # docs/sandbox/network.md.
    credentials: dict[str, CredentialRow] = Field(default_factory=dict[str, CredentialRow])
    network_private_addresses: frozenset[str] = frozenset()  # 10.0.0.5:8443
    mcp: McpServers = McpServers()
    formatters: dict[str, Formatter] = Field(default_factory=dict[str, Formatter])
    language_servers: dict[str, LanguageServer] = Field(default_factory=dict[str, LanguageServer])
    setup_private_hosts: bool = False  # may setup reach private addresses: an index of the operator's own network
    ask_timeout_s: int = Field(default=24 * 3600, ge=1)  # how long people have to answer, where a task names no time
    web_private_addresses: frozenset[str] = frozenset()  # of the operator's own network, for webfetch: 10.0.0.5:8080
    # Whose tasks reach both kinds of private addresses (`*`: everybody's); left out, those of a fleet without tenants.
    private_addresses_tenants: tuple[str, ...] = (NO_TENANT,)
    search_url: str = ""  # of websearch: holds {query} and, if it likes, {count}; answers with JSON
    search_api_key: SecretStr = SecretStr("")
    search_key_header: str = "Authorization"
    # How long tasks may go on after a stop; then they are given back. Enough for a turn that is nearly over, and short
    # beside the supervisor's patience (20 s), which covers the removal of sandboxes, too.
    drain_grace_s: float = Field(default=5.0, ge=0)

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *sources: PydanticBaseSettingsSource, **named: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        workers_table = _workers_table(user_file())  # first: it says best what is wrong with the file
        *before, rest = super().settings_customise_sources(settings_cls, *sources, **named)
        return (*before, InitSettingsSource(settings_cls, init_kwargs=workers_table), rest)

    @field_validator("prices", mode="after")
    @classmethod
    def _from_file(cls, prices: dict[str, PriceRow] | str) -> dict[str, PriceRow]:
        if isinstance(prices, dict):
            return prices
        try:
            table: dict[str, Any] = tomllib.loads(Path(prices).read_text())
        except (OSError, tomllib.TOMLDecodeError) as e:
            raise ValueError(f"{prices} is no TOML file with prices: {e}") from e
        return {model: PriceRow.model_validate(row) for model, row in table.items()}

    @field_validator("model_reasoning_key")
    @classmethod
    def _is_no_other_key(cls, key: str) -> str:
        """Thoughts under such a name would take the place of what a message says."""
        if key in OF_MESSAGES or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}|", key):
            raise ValueError(
                f"{key!r} is no field for thoughts: take the one that the server's page names (reasoning_content, "
                "reasoning), or none"
            )
        return key

    @field_validator("sandbox_driver", mode="before")
    @classmethod
    def _isolates(cls, name: object) -> object:
        if name == "process":
            raise ValueError(NO_PROCESS)
        return name

    @field_validator("search_url")
    @classmethod
    def _holds_the_query(cls, url: str) -> str:
        if url and ("{query}" not in url or not url.startswith(("http://", "https://"))):
            raise ValueError("write a complete URL with {query} in it, such as https://search.example/?q={query}")
        return url

    @field_validator("model_api_key", "search_api_key")
    @classmethod
    def _never_shown(cls, key: SecretStr) -> SecretStr:
        register_secret(key.get_secret_value())
        return key

    @property
    def after_write(self) -> AfterWrite:
        return AfterWrite(formatters=self.formatters, language_servers=self.language_servers)

    @property
    def setups_allowance(self) -> Allowance:
        return Allowance(self.setups_max_age_days * DAY_S, int(self.setups_max_gib * GIB))

    @property
    def setup_limits(self) -> SetupLimits:
        kept_bytes = int(self.setups_max_gib_per_tenant * GIB)
        files = max(1, int(self.setup_max_gib * FILES_PER_GIB))
        return SetupLimits(int(self.setup_max_gib * GIB), files, self.setups_max_per_tenant, kept_bytes)

    @property
    def repositories_allowance(self) -> Allowance:
        return Allowance(self.repositories_max_age_days * DAY_S, int(self.repositories_max_gib * GIB))

    @property
    def cache_dir(self) -> Path:
        return self.state_dir / "cache"

    @property
    def owners_dir(self) -> Path:
        return self.state_dir / "owners"

    @property
    def user_dir(self) -> Path:
        """The user's AGENTS.md, skills/ and commands/ lie beside their configuration."""
        return user_file().expanduser().absolute().parent

    @property
    def price_rows(self) -> dict[str, PriceRow]:
        return self.prices if isinstance(self.prices, dict) else {}


def _workers_table(file: Path) -> dict[str, Any]:
    """The table `[workers]`, all of whose keys must be settings: a typo there would silently be the default.

    The file's rest is read by other processes, too, and not judged here.
    """
    try:
        table: object = tomllib.loads(file.read_text()).get("workers", {}) if file.is_file() else {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise BadSettings(
            f"{file} cannot be read as TOML: {e}", hint="correct it, or name another in MUSTER_CONFIG"
        ) from e
    if not isinstance(table, dict):
        raise BadSettings(f"`workers` in {file} is no table", hint="write `[workers]`, and its keys below it")
    settings = cast(dict[str, Any], table)
    if unknown := [key for key in settings if key not in WorkerSettings.model_fields]:
        raise BadSettings(
            f"`[workers]` in {file} has an unknown key {unknown[0]!r}",
            hint=nearest(unknown[0], WorkerSettings.model_fields),
        )
    return settings
