"""What a batch file says. Unknown keys are refused: a person wrote them and meant something."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from envelope.budget import MICROUSD_PER_USD
from envelope.messages import MAX_DEADLINE_MS
from envelope.pattern import MAX_PATTERN_CHARS

from ..publication.terms import Terms

MAX_DEADLINE_S = MAX_DEADLINE_MS // 1000

# The rules of `git check-ref-format --branch`, as what a branch name must not hold.
_BAD_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/]|[/.]$|\.lock(/|$)|(^|/)\.|^@$|^HEAD$")


def _branch(name: str) -> str:
    if not name or _BAD_BRANCH.search(name):
        raise ValueError(f"{name!r} is not a valid branch name")
    return name


def _file_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}", name):
        raise ValueError("use letters, digits, `_`, `-` and `.`, at most 80 of them")
    return name


Text = Annotated[str, Field(min_length=1)]
FileName = Annotated[str, AfterValidator(_file_name)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Repository(_Part):
    """`path` is relative to the batch file. `name` (default: the folder's) stands in reports."""

    path: Text
    name: FileName | None = None


class Shards(_Part):
    """One shard for each file that `glob` matches, for each folder that `directories` matches (with all below it), for
    each of `files` or of the lines of `files_from` (a list beside the batch file), or one for the `whole` repository.
    What an `exclude` matches is none.

    A shard may edit its own file or folder, and what `also_edit` (grant patterns, such as `tests/**`) names: where two
    shards change the same place of such a file differently, one lands and the other is reported.
    """

    glob: Text | None = None
    directories: Text | None = None
    files: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    files_from: Text | None = None
    whole: bool = False
    exclude: tuple[Text, ...] = ()
    also_edit: tuple[Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_CHARS - len("edit:"))], ...] = ()

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = (self.glob, self.directories, self.files, self.files_from, self.whole or None)
        if sum(way is not None for way in ways) != 1:
            raise ValueError("say one of `glob`, `directories`, `files`, `files_from` and `whole = true`")
        return self


class Step(_Part):
    """Either commands, run without a model, or a prompt for an agent. `{path}` is the shard's file or folder."""

    recipe: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    ok_exit_codes: tuple[int, ...] = (0,)
    timeout_s: Annotated[int, Field(gt=0, le=MAX_DEADLINE_S)] | None = None
    agent: Text | None = None
    prompt: Text | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.recipe is None) == (self.agent is None):
            raise ValueError("say either `recipe` or `agent`")
        if (self.agent is None) != (self.prompt is None):
            raise ValueError("`agent` and `prompt` come together")
        return self


class Gate(_Part):
    """The project's own commands. `min_tests = 0` is for gates that are no tests, where exit codes must do."""

    commands: Annotated[tuple[Text, ...], Field(min_length=1)]
    min_tests: Annotated[int, Field(ge=0)] = 1


class Setup(_Part):
    commands: tuple[Text, ...] = ()


class Publish(Terms):
    """`branch` holds the result, here or where `to` says; docs/publishing.md tells of each key."""

    branch: Annotated[str, AfterValidator(_branch)]


class Limits(_Part):
    """`budget_usd` is for the whole batch: each shard gets an equal part, so that the sum is never more."""

    budget_usd: Annotated[float, Field(ge=0)] | None = None
    deadline_s: Annotated[int, Field(gt=0, le=MAX_DEADLINE_S)] | None = None
    shard_deadline_s: Annotated[int, Field(gt=0, le=MAX_DEADLINE_S)] | None = None
    max_shards: Annotated[int, Field(gt=0)] = 1000

    def budget_microusd(self, default: int) -> int:
        return default if self.budget_usd is None else round(self.budget_usd * MICROUSD_PER_USD)

    def deadline_ms(self, default: int) -> int:
        return default if self.deadline_s is None else self.deadline_s * 1000

    def shard_deadline_ms(self, default: int) -> int:
        return default if self.shard_deadline_s is None else self.shard_deadline_s * 1000


class BatchSpec(_Part):
    name: FileName
    repositories: Annotated[tuple[Repository, ...], Field(min_length=1)]
    shards: Shards
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    gate: Gate | None = None
    setup: Setup = Setup()
    publish: Publish | None = None
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _steps_fit_one_task(self) -> Self:
        # A shard is one task: an agent's steps after a recipe's would need the first patch to become the next base.
        if len(self.steps) > 1 and any(step.agent is not None for step in self.steps):
            raise ValueError("several steps can only be recipes; give an agent one step with the whole prompt")
        if len({(step.ok_exit_codes, step.timeout_s) for step in self.steps}) > 1:
            raise ValueError("all steps need the same `ok_exit_codes` and `timeout_s`")
        return self

    @model_validator(mode="after")
    def _distinct_names(self) -> Self:
        named = Counter(repository.name for repository in self.repositories if repository.name is not None)
        if twice := [name for name, count in named.items() if count > 1]:
            raise ValueError(f"two repositories are named {twice[0]!r}")
        return self
