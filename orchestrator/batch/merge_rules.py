"""What a batch file says of how patches come together."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ..globs import MAX_GLOBS
from ..submit import COMMANDS_ONLY

Text = Annotated[str, Field(min_length=1)]


def _prompted(agent: str) -> str:
    if not agent or agent in COMMANDS_ONLY:
        raise ValueError(f"{agent!r} takes commands and no prompt: name an agent that edits files, such as 'build'")
    return agent


class MergeRules(BaseModel):
    """Patches land in the order of `first` (globs of shards that others build on), then those that exclude the fewest
    others, then the smallest.

    `gate`: when it fails at the `end`, say so and keep everything; or find who made it fail by halving (`bisect`), set
    that one aside, and let the rest land; or run it after `each` patch. `max_gate_runs` bounds both.

    `resolve`: a conflict that neither lines nor functions settle is a `person`'s, or first the `agent`'s named here.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: Annotated[tuple[Text, ...], Field(max_length=MAX_GLOBS)] = ()
    gate: Literal["bisect", "each", "end"] = "bisect"
    max_gate_runs: Annotated[int, Field(ge=1, le=1000)] = 24
    resolve: Literal["person", "agent"] = "person"
    agent: Annotated[str, AfterValidator(_prompted)] = "build"
