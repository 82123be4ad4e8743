"""What an agent's task may be told in `input.params`, beside its prompt. Signed, as all of a request is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from .ids import BlobRef
from .plan import Plan
from .wire import Wire

# Rules as they travel: permission, pattern, and whether it denies. The last match counts.
RuleRows = tuple[tuple[str, str, bool], ...]


class AgentParams(Wire):
    """`record`: keep a cassette of the task, which `muster replay` plays. `replay`: the blob of such a cassette, whose
    replies are the model's in this task; its tools run. `temperature`: in the place of the agent's own.

    The others make a task that asks no model: it takes the session of its `resume_token` back to where the turn
    `revert_to` ended (0: before the first prompt), or (`undo`) to before the last prompt, or (`unrevert`) takes the
    last of these back. Or it opens a session of its own with a copy of another one, of whose checkpoint (`fork_of`) it
    takes the turns up to `revert_to` (None: all).

    Of a subagent its callers say: `subagent_depth`, how many levels of subagents may be below it (None: as many as its
    worker allows), `inherited_denies`, which nothing lifts: one list for each who had any, and `variant`, how hard its
    caller thinks, for an agent that has no model or variant of its own.

    `waypoints` are on the way to the task's goal, as somebody else sees it: the agent may depart from them. `plan` is
    its living plan, which it may change.

    `untitled`: its session is named by what it is a part of, and no model is asked for a title.

    `keeps_work`: of a task that goes on with a session for a caller who has nothing of what was done in it. `goal`: the
    one whose terms hold for whoever goes on with this task's session, where it works for none itself.
    """

    record: bool = False
    replay: BlobRef | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    revert_to: Annotated[int, Field(ge=0)] | None = None
    undo: bool = False
    unrevert: bool = False
    fork_of: str = ""
    subagent_depth: Annotated[int, Field(ge=0)] | None = None
    inherited_denies: tuple[RuleRows, ...] = ()
    variant: Annotated[str, Field(max_length=100)] = ""
    waypoints: Annotated[tuple[Annotated[str, Field(max_length=500)], ...], Field(max_length=10)] = ()
    plan: Plan | None = None
    keeps_work: bool = False
    untitled: bool = False
    goal: str = ""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum((self.revert_to is not None, self.undo, self.unrevert)) > 1:
            raise ValueError("say one of `revert_to`, `undo` and `unrevert`")
        if self.fork_of and (self.undo or self.unrevert):
            raise ValueError("a fork begins where a turn has ended: say `revert_to`")
        return self


# What a person says to a session to have it taken back, or forth again; no word for its agent.
UNDOING = {"/undo": AgentParams(undo=True), "/redo": AgentParams(unrevert=True)}


def inherited(params: Mapping[str, Any]) -> dict[str, Any]:
    """What of a subagent's params holds whoever goes on with its session, too."""
    return {name: params[name] for name in ("subagent_depth", "inherited_denies", "variant") if name in params}
