"""What stands between an agent's task and the world: nothing, a recorder, or a player of what was recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from pydantic import TypeAdapter

from ..agent.calls import RunCalls
from ..agent.session import Session
from ..llm.retry import Retrying
from ..tools.base import Tool

T = TypeVar("T")
Hear = Callable[[], Awaitable[Sequence[str]]]
Told = Callable[[Session], Awaitable[Mapping[str, str]]]
Foreign = Callable[[], Awaitable[Sequence[Tool]]]


class Tape(Protocol):
    """Each method is given the real thing and returns what is used in its place."""

    async def kept(self, name: str, kind: TypeAdapter[T], find: Callable[[], Awaitable[T]]) -> T:
        """What is found out about the world once: a value that `kind` writes and reads."""
        ...

    def model(self, model: Retrying) -> Retrying: ...
    def run_calls(self, run: RunCalls) -> RunCalls: ...
    def hear(self, hear: Hear) -> Hear: ...
    def told(self, told: Told) -> Told: ...

    def foreign(self, tools: Foreign) -> Foreign:
        """The tools of others, as they are at each turn."""
        ...

    def exhausted(self, exhausted: Callable[[], str]) -> Callable[[], str]: ...

    def opened(self, session: Session) -> None:
        """What this attempt begins with."""
        ...

    async def saving(self, session: Session) -> Session:
        """The session as it is to be stored."""
        ...


class NoTape:
    """A task that nobody records."""

    async def kept(self, name: str, kind: TypeAdapter[T], find: Callable[[], Awaitable[T]]) -> T:
        return await find()

    def model(self, model: Retrying) -> Retrying:
        return model

    def run_calls(self, run: RunCalls) -> RunCalls:
        return run

    def hear(self, hear: Hear) -> Hear:
        return hear

    def told(self, told: Told) -> Told:
        return told

    def foreign(self, tools: Foreign) -> Foreign:
        return tools

    def exhausted(self, exhausted: Callable[[], str]) -> Callable[[], str]:
        return exhausted

    def opened(self, session: Session) -> None:
        pass

    async def saving(self, session: Session) -> Session:
        return session
