"""What a batch file says. Unknown keys are refused: a person wrote them and meant something."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from envelope.budget import MICROUSD_PER_USD
from envelope.gate import GateRules
from envelope.ids import BlobRef
from envelope.pattern import MAX_PATTERN_CHARS

from ..globs import MAX_GLOBS
from ..publication.terms import Terms
from .merge_rules import MergeRules
from .part import FileName, Seconds, Text
from .part import Part as _Part
from .step import Step, When

FULL_ID = re.compile(r"[0-9a-f]{40}")
# The rules of `git check-ref-format --branch`, as what a branch name must not hold.
_BAD_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/]|[/.]$|\.lock(/|$)|(^|/)\.|^@$|^HEAD$")


def _branch(name: str) -> str:
    if not name or _BAD_BRANCH.search(name):
        raise ValueError(f"{name!r} is not a valid branch name")
    return name


def _address(url: str) -> str:
    parts = urlsplit(url)
    # `git` in ssh://git@… is an account; over HTTP the name alone may be a token
    if parts.password is not None or (parts.username is not None and parts.scheme in ("http", "https")):
        raise ValueError("the address carries a password or a token; leave it out")
    if not url or url.startswith("-"):
        raise ValueError("write an address such as https://git.example.com/team/project.git")
    return url


class Repository(_Part):
    """`path` (relative to the batch file), or `url` (https or ssh), or `list`: a file beside the batch file with one of
    these on each line, or `organisation`: all that its `forge` lists of it whose names match `only` (a glob), or
    `bundle`: a blob that the fleet holds, with a `name`, and in `base` the commit of it.

    `name` (default: the folder's) stands in reports. `base`: a branch, tag or commit to start from, by default what is
    checked out, or the remote's first branch. `forge`: one of the settings' `[forges.NAME]`, whose token lets git in.
    """

    path: Text | None = None
    url: Annotated[str, AfterValidator(_address)] | None = None
    list: Text | None = None
    organisation: Text | None = None
    bundle: BlobRef | None = None
    only: Text = "*"
    name: FileName | None = None
    base: str = ""
    forge: str = ""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(getattr(self, way) is not None for way in ("path", "url", "list", "organisation", "bundle")) != 1:
            raise ValueError("say one of `path`, `url`, `list` and `organisation` (or `bundle`)")
        if self.bundle is not None and (self.name is None or not FULL_ID.fullmatch(self.base)):
            raise ValueError("a `bundle` needs a `name`, and in `base` the whole id of a commit that it holds")
        if self.name is not None and (self.list is not None or self.organisation is not None):
            raise ValueError("a `list` or an `organisation` is of many, and has no `name`")
        if self.organisation is not None and not self.forge:
            raise ValueError("an `organisation` needs the `forge` that lists it: [forges.NAME] of the settings")
        return self


# Files at a repository's root by which its tools and agents go: what they say is a part of any shard's work.
AROUND = (
    *("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "requirements*.txt", "*.lock"),
    *("package.json", "go.mod", "Cargo.toml", "AGENTS.md", "CLAUDE.md", ".muster/**"),
)
WAYS = ("glob", "directories", "files", "files_from", "match", "symbol", "command", "failures_of", "whole")
# The places of a step that one source alone fills.
PLACES = {
    "match": ("match", "symbol"),
    "lines": ("match", "symbol"),
    "symbol": ("symbol",),
    "failure": ("failures_of",),
}


class Shards(_Part):
    """One shard for each file that `glob` matches, for each folder that `directories` matches (with all below it), for
    each of `files` or of the lines of `files_from` (a list beside the batch file), or one for the `whole` repository.
    Or for what is found: files in which `match` (an expression) or the word `symbol` stands (of those that `glob`
    matches, if that is given); each line that `command` prints, in a sandbox, at the base; each shard that an earlier
    batch did not do (`failures_of`, its task's id). What an `exclude` matches is none.

    A shard may edit its own file or folder, and what `also_edit` (grant patterns, such as `tests/**`) names: where two
    shards change the same place of such a file differently, one lands and the other is reported. It is done again when
    its own files changed, or what `depends_on` (globs) names.
    """

    glob: Text | None = None
    directories: Text | None = None
    files: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    files_from: Text | None = None
    match: Text | None = None
    symbol: Text | None = None
    command: Text | None = None
    failures_of: Text | None = None
    whole: bool = False
    exclude: Annotated[tuple[Text, ...], Field(max_length=MAX_GLOBS)] = ()
    also_edit: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_CHARS - len("edit:"))], ...],
        Field(max_length=MAX_GLOBS),
    ] = ()
    depends_on: Annotated[tuple[Text, ...], Field(max_length=MAX_GLOBS)] = AROUND

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        said = [way for way in WAYS if getattr(self, way)]
        if len(said) != 1 and not (self.query is not None and len(said) == 2 and self.glob):
            ways = ", ".join(f"`{way}`" for way in WAYS[:-1])
            raise ValueError(f"say one of {ways} and `whole = true` (with `match` or `symbol` also `glob`)")
        return self

    @property
    def query(self) -> str | None:
        """What is searched for in the files."""
        return self.match if self.match is not None else self.symbol

    @property
    def source(self) -> str:
        return next(way for way in reversed(WAYS) if getattr(self, way))


class Gate(GateRules):
    """The project's own commands. `min_tests = 0` is for gates that are no tests, where exit codes must do.

    The other keys are the rules that `muster run --gate-rule` knows, too (docs/gate.md).
    """

    commands: Annotated[tuple[Text, ...], Field(min_length=1)]
    min_tests: Annotated[int, Field(ge=0)] = 1


class Setup(_Part):
    commands: tuple[Text, ...] = ()


class Publish(Terms):
    """`branch` holds the result, here or where `to` says; docs/publishing.md tells of each key."""

    branch: Annotated[str, AfterValidator(_branch)]


MAX_BUDGET_USD = 1_000_000.0  # more is a slip of the hand, or none at all (`inf`)


class Limits(_Part):
    """`budget_usd` is for the whole batch: each shard gets an equal part, so that the sum is never more."""

    budget_usd: Annotated[float, Field(ge=0, le=MAX_BUDGET_USD)] | None = None
    deadline_s: Seconds | None = None
    shard_deadline_s: Seconds | None = None
    max_shards: Annotated[int, Field(gt=0)] = 1000  # `muster batch run` asks above that, where the file is silent

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
    merge: MergeRules = MergeRules()
    setup: Setup = Setup()
    publish: Publish | None = None
    limits: Limits = Limits()

    @property
    def asks_a_model(self) -> bool:
        return self.merge.resolve == "agent" or any(step.agent is not None for step in self.steps)

    @property
    def words(self) -> str:
        """Of all steps."""
        return "\n".join(part for step in self.steps for part in (*step.commands, step.prompt or ""))

    @property
    def handed_on_bytes(self) -> int:
        """Of what the tasks of each shard are given of it."""
        given = (self.words, *self.setup.commands, *self.shards.also_edit)
        return sum(len(text.encode(errors="replace")) for text in given)

    def says(self, place: str) -> bool:
        """Has a step something to be filled in there?"""
        return any(step.says(place) for step in self.steps)

    @model_validator(mode="after")
    def _conditions(self) -> Self:
        if self.steps[0].when is not When.ALWAYS:
            raise ValueError("nothing comes before the first step, so that it cannot say `when`")
        if self.gate is None and any(step.when is When.GATE_FAILED for step in self.steps):
            raise ValueError('a step says `when = "gate failed"`, and there is no [gate]')
        return self

    @model_validator(mode="after")
    def _filled_places(self) -> Self:
        for place, sources in PLACES.items():
            if self.says(place) and not any(getattr(self.shards, source) for source in sources):
                raise ValueError(f"a step says {{{place}}}, which only shards by {' or '.join(sources)} have")
        return self

    @model_validator(mode="after")
    def _distinct_names(self) -> Self:
        named = Counter(repository.name for repository in self.repositories if repository.name is not None)
        if twice := [name for name, count in named.items() if count > 1]:
            raise ValueError(f"two repositories are named {twice[0]!r}")
        return self
