"""What an agent's task may be told in `input.params`, beside its prompt. Signed, as all of a request is."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from .wire import Wire


class AgentParams(Wire):
    """`record`: keep a cassette of the task, which `muster replay` plays.

    The two others make a task that asks no model: it takes the session of its `resume_token` back to where the turn
    `revert_to` ended, or (`unrevert`) takes that back.
    """

    record: bool = False
    revert_to: Annotated[int, Field(ge=1)] | None = None
    unrevert: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.unrevert and self.revert_to is not None:
            raise ValueError("say `revert_to` or `unrevert`, not both")
        return self
