"""What is done to a shard, in steps: commands without a model, or a prompt for an agent, and when."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from ..submit import COMMANDS_ONLY
from .part import Part, Seconds, Text, Texts
from .shorthands import SHORTHANDS, AstGrep


class When(StrEnum):
    """What must hold of the steps before. One that failed ends its shard, unless a later one is for that case."""

    ALWAYS = "always"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    GATE_FAILED = "gate failed"


class Step(Part):
    """One of `recipe` (commands), `ruff` (rules), `libcst` (a codemod and its options), `ast_grep` and `agent` with a
    `prompt`. `{path}`, `{name}`, `{folder}` and `{repository}` are the shard's; so is what its source found, and
    `{target_version}`: the oldest Python that its package says it supports, as ruff writes it (py38).

    A step starts from what the steps before it have changed; `when` says whether it is done at all. After a step of an
    agent, the next one is a task of its own, and so is one that says `when`, or other `ok_exit_codes` or another
    `timeout_s` than the one before.
    """

    recipe: Texts | None = None
    ruff: Text | None = None
    libcst: Text | None = None
    ast_grep: AstGrep | None = None
    agent: Text | None = None
    prompt: Text | None = None
    when: When = When.ALWAYS
    ok_exit_codes: Annotated[tuple[int, ...], Field(min_length=1)] | None = None
    timeout_s: Seconds | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = ("recipe", *SHORTHANDS, "agent")
        if sum(getattr(self, kind) is not None for kind in kinds) != 1:
            raise ValueError(f"say one of {', '.join(f'`{kind}`' for kind in kinds)}")
        if (self.agent is None) != (self.prompt is None):
            raise ValueError("`agent` and `prompt` come together")
        if self.agent in COMMANDS_ONLY:
            raise ValueError(
                f"{self.agent!r} takes commands and no prompt: say these as `recipe`, or as `commands` of [gate]"
            )
        return self

    @property
    def commands(self) -> tuple[str, ...]:
        """None of an agent's step."""
        if self.recipe is not None:
            return self.recipe
        return tuple(
            short.command(value) for name, short in SHORTHANDS.items() if (value := getattr(self, name)) is not None
        )

    def says(self, place: str) -> bool:
        """Has it something to be filled in there?"""
        return any(f"{{{place}}}" in part for part in (*self.commands, self.prompt or ""))

    @property
    def accepted(self) -> tuple[int, ...]:
        """The exit codes by which its commands say that all went well."""
        if self.ok_exit_codes is not None:
            return self.ok_exit_codes
        return next((s.ok_exit_codes for name, s in SHORTHANDS.items() if getattr(self, name) is not None), (0,))

    @property
    def title(self) -> str:
        """For people, who look at a batch before it is run."""
        shorthand = next((name for name in SHORTHANDS if getattr(self, name) is not None), None)
        what = f"{shorthand} {_said(getattr(self, shorthand))}" if shorthand else "; ".join(self.recipe or ())
        condition = "" if self.when is When.ALWAYS else f"[if {self.when}] "
        return condition + (f"{self.agent}: {self.prompt}" if self.agent is not None else what)


def _said(value: str | AstGrep) -> str:
    return value if isinstance(value, str) else f"{value.pattern} → {value.rewrite}"
