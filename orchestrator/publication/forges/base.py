"""What publication asks of a forge, whichever it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class RequestState(StrEnum):
    DRAFT = "draft"
    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


ALIVE = frozenset({RequestState.DRAFT, RequestState.OPEN})


@dataclass(frozen=True, slots=True)
class Found:
    """A pull or merge request as the forge has it. `head`: the commit that its branch stands at there."""

    number: int
    url: str
    state: RequestState
    branch: str
    into: str
    body: str
    head: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One to be made."""

    branch: str
    into: str
    title: str
    body: str
    draft: bool


@dataclass(frozen=True, slots=True)
class Comment:
    body: str


class Forge(Protocol):
    """One repository of a forge, as whoever the token belongs to.

    All of them raise `ForgeRefused`, `ForgeLimits` and `ForgeDown`. What makes something new may also raise
    `ForgeUnsure`: it is not asked a second time by itself.
    """

    async def default_branch(self) -> str: ...

    def of_branch(self, branch: str) -> AsyncIterator[Found]:
        """The requests from this branch of the repository itself, not of a fork's: the latest first."""
        ...

    def alive(self) -> AsyncIterator[Found]:
        """Those that are neither merged nor closed."""
        ...

    async def get(self, number: int) -> Found: ...

    async def create(self, wanted: Wanted) -> Found: ...

    async def set_body(self, number: int, body: str) -> None: ...

    async def close(self, number: int) -> None: ...

    def comments(self, number: int) -> AsyncIterator[Comment]: ...

    async def comment(self, number: int, body: str) -> None: ...
