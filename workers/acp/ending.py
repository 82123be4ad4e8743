"""How a program's session ends: with its own last word, or with what somebody else says first."""

from __future__ import annotations

import asyncio

from envelope.errors import ErrorCode

from ..agent.budget import Stop
from ..agent.session import Outcome
from ..errors import WorkerError
from .calls import RefusedByPerson


class EngineFailed(WorkerError):
    """The program, and not the task, is what goes wrong; another try may help."""

    code = ErrorCode.ENGINE


class Ending:
    """The first word counts: an outcome, or an exception that ends the attempt."""

    def __init__(self) -> None:
        self.said: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def stop(self, stop: Stop) -> None:
        self._say(Outcome(error=stop.code, detail=stop.detail, hint=stop.hint))

    def refuse(self, refusal: RefusedByPerson) -> None:
        self._say(Outcome(error=ErrorCode.REFUSED, detail=str(refusal), hint=refusal.hint))

    def flood(self) -> None:
        self.fail(EngineFailed("the agent's program says more than any task can hold", hint="look at what it does"))

    def fail(self, error: BaseException) -> None:
        if not self.said.done():
            self.said.set_exception(error)

    def close(self) -> None:
        """Nobody asks any more."""
        if self.said.done() and not self.said.cancelled():
            self.said.exception()
        self.said.cancel()

    def _say(self, outcome: Outcome) -> None:
        if not self.said.done():
            self.said.set_result(outcome)
