"""`muster.toml`: what a repository says of its own runs, as it is committed, where the command line is silent.

Without its user's trust it may only ask for less: a smaller budget, an earlier end. A gate that anybody may write
proves nothing, and whom or what a repository wants paid for is its user's to say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from envelope.budget import MICROUSD_PER_USD
from envelope.messages import MAX_DEADLINE_MS
from repo.local import LocalRepository
from repo.project import contents, project_settings

from ..errors import BadInput, near_miss
from ..settings import Settings
from ..strange_toml import BadToml, read_toml
from ..units import parse_duration_s
from .gate_rules import parsed_rules
from .text import NAME

OF_AGENTS = "rules stand in agent files (.muster/agents), or in your own settings under [workers.permission]"
MAX_FILE_BYTES = 64 * 1024  # a hundred times what `muster init` writes


class ProjectFile(BaseModel):
    """Each key is the option of `muster run` that it stands in for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    setup: tuple[str, ...] = ()
    gate: tuple[str, ...] = ()
    gate_rules: dict[str, Any] = Field(default_factory=dict[str, Any])
    agent: str = ""
    model: str = ""
    budget: float | None = Field(default=None, ge=0, le=1_000_000)
    deadline: str = ""

    @field_validator("gate_rules")
    @classmethod
    def _are_rules(cls, rules: dict[str, Any]) -> dict[str, Any]:
        parsed_rules(rules, "gate_rules")
        return rules

    @field_validator("deadline")
    @classmethod
    def _is_a_time(cls, text: str) -> str:
        if text and not 1 <= parse_duration_s(text) <= MAX_DEADLINE_MS // 1000:
            raise ValueError("between a second and 30 days")
        return text


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where the command line is silent. `ignored`: keys of a file that nobody trusts."""

    setup: tuple[str, ...] = ()
    gate: tuple[str, ...] = ()
    agent: str = ""
    model: str = ""
    budget_microusd: int | None = None
    deadline_s: int | None = None
    gate_rules: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    ignored: tuple[str, ...] = ()


async def project_defaults(local: LocalRepository, settings: Settings, *, is_trusted: bool) -> Defaults:
    """Of the repository's head. `BadInput` for a file that somebody must mend."""
    file = await project_file(local)
    return Defaults() if file is None else defaults(file, settings, is_trusted=is_trusted)


def unused_keys(known: Defaults, root: Path) -> str:
    """What whoever works there should know of the keys that are ignored; empty where none is."""
    if not known.ignored:
        return ""
    unused = f"{NAME} is not trusted, and its {', '.join(known.ignored)} not used"
    return f"{unused}; look at it, and then: muster trust {root}"


async def project_file(local: LocalRepository) -> ProjectFile | None:
    known = await project_settings(local.git_dir, local.head)
    found = next((file for file in known.files if file.path == NAME), None)
    if found is None:
        return None
    if found.size_bytes > MAX_FILE_BYTES:
        raise BadInput(f"{local.root / NAME} is too large", hint=f"{MAX_FILE_BYTES // 1024} KiB are enough for it")
    return parsed((await contents(local.git_dir, [found]))[NAME], str(local.root / NAME))


def parsed(content: bytes, name: str) -> ProjectFile:
    """`BadInput` says what is wrong with the file `name`."""
    try:
        return ProjectFile.model_validate(read_toml(content.decode()))
    except (BadToml, UnicodeDecodeError) as e:
        raise BadInput(f"{name} is not TOML: {e}", hint="see one that works: muster init --print") from e
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, fault["loc"]))
        if fault["type"] == "extra_forbidden":
            hint = OF_AGENTS if key == "permission" else near_miss(key, ProjectFile.model_fields)
            raise BadInput(f"{name} has an unknown key {key!r}", hint=hint) from e
        said = fault["msg"].removeprefix("Value error, ")
        raise BadInput(f"{name}: {key}: {said}", hint="see one that works: muster init --print") from e


def defaults(file: ProjectFile, settings: Settings, *, is_trusted: bool) -> Defaults:
    """Variables count more than the file, and the file more than the user's own, unless nobody trusts it.

    >>> settings = Settings(budget_microusd=1_000_000)
    >>> defaults(ProjectFile(gate=("true",), budget=2), settings, is_trusted=False)
    Defaults(setup=(), gate=(), agent='', model='', budget_microusd=1000000, deadline_s=3600, ignored=('gate',))
    """
    budget = _chosen(
        "budget_microusd", settings.budget_microusd,
        None if file.budget is None else round(file.budget * MICROUSD_PER_USD), is_trusted=is_trusted,
    )  # fmt: skip
    deadline_s = _chosen(
        "deadline_ms", settings.deadline_ms // 1000,
        parse_duration_s(file.deadline) if file.deadline else None, is_trusted=is_trusted,
    )  # fmt: skip
    if not is_trusted:
        return Defaults(budget_microusd=budget, deadline_s=deadline_s, ignored=tuple(_beyond(file)))
    return Defaults(
        setup=file.setup,
        gate=file.gate,
        gate_rules=file.gate_rules,
        agent="" if _is_set("default_agent") else file.agent,
        model="" if _is_set("model") else file.model,
        budget_microusd=budget,
        deadline_s=deadline_s,
    )


def _chosen(setting: str, own: int, files: int | None, *, is_trusted: bool) -> int:
    if files is None or _is_set(setting):
        return own
    return files if is_trusted else min(own, files)


def _is_set(setting: str) -> bool:
    return f"MUSTER_{setting.upper()}" in os.environ


def _beyond(file: ProjectFile) -> Iterator[str]:
    """What only a trusted file may say."""
    yield from (key for key in ("setup", "gate", "gate_rules", "agent", "model") if getattr(file, key))
