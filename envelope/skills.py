"""Which skills from outside of repositories count: each by the hash of its whole folder. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import ErrorCode, MusterError

LOCK_NAME = "skills.lock.json"  # beside the folder `skills`
FOLDER = "skills"
SKILL_FILE = "SKILL.md"

KEY = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(/[A-Za-z0-9][A-Za-z0-9._-]{0,63}){0,4}$"
Key = Annotated[str, Field(pattern=KEY)]


class BadLock(MusterError):
    code = ErrorCode.BAD_INPUT


class Pin(BaseModel):
    """`name`: by which agents know it. `source`: where it was taken from; `commit`: of a repository."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(max_length=64)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    source: str = ""
    commit: str = ""


class SkillLock(BaseModel):
    """By the skill's folder below `skills`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    skills: dict[Key, Pin] = Field(default_factory=dict[str, Pin])


def read_lock(content: bytes) -> SkillLock:
    """`BadLock` for what no program of ours has written."""
    try:
        return SkillLock.model_validate_json(content)
    except ValidationError as e:
        hint = "remove it, and pin each skill again: muster skills add"
        raise BadLock(f"{LOCK_NAME} is no list of pinned skills", hint=hint) from e


def lock_text(lock: SkillLock) -> str:
    """The same for the same pins, so that it can be kept under version control."""
    pins = {key: lock.skills[key] for key in sorted(lock.skills)}
    return lock.model_copy(update={"skills": pins}).model_dump_json(indent=1, exclude_defaults=True) + "\n"
