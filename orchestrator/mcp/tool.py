"""A tool of ours: a function whose types and first words are what callers are told of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from inspect import getdoc
from typing import Any, Protocol, get_type_hints

from pydantic import BaseModel, ConfigDict

from envelope.asks import AskTerms
from envelope.messages import Workspace

from ..api.caller import Caller
from ..api.tokens import Right, Token
from ..batch.plan import Planned
from ..errors import BadInput
from .errors import TooManyWaits

# Each holds a connection to Redis, of which a server has 10,000 for all of the fleet.
MOST_WAITS = 20


class Said(BaseModel):
    """A tool's arguments: a key that is not known was meant for something."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A repository as a caller names it: a folder where the server has one in common with them, or an address."""

    repository: str
    base: str = ""
    setup: Sequence[str] = ()
    allow_dirty: bool = False


@dataclass(frozen=True, slots=True)
class WantedBatch:
    """`document`: its text, or the name of its file."""

    document: str
    language: str
    allow_dirty: bool = False


@dataclass(frozen=True, slots=True)
class Ground:
    """Where work starts. `known`: what the repository's own settings say where the caller is silent. `notes`: what the
    caller should hear of it."""

    workspace: Workspace | None = None
    asks: AskTerms | None = field(default_factory=AskTerms)
    known: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: tuple[str, ...] = ()


class Reach(Protocol):
    """Which repositories and documents this caller can name. What they cannot is `BadInput`, with the other way."""

    async def ground(self, caller: Caller, wanted: Wanted) -> Ground: ...

    async def batch(self, caller: Caller, wanted: WantedBatch) -> tuple[Planned, AskTerms | None]: ...


def address_of(wanted: Wanted) -> Workspace:
    """`BadInput` for what no worker could fetch."""
    if not wanted.base:
        raise BadInput("the commit is missing", hint="say in `base` which one to start from: git rev-parse HEAD")
    try:
        return Workspace(url=wanted.repository, base=wanted.base, setup=tuple(wanted.setup))
    except ValueError as e:
        raise BadInput("the address carries a password or a token", hint="leave it out") from e


@dataclass(slots=True)
class Waits:
    """How many results each caller waits for in this process."""

    open: Counter[str] = field(default_factory=Counter[str])

    @asynccontextmanager
    async def one(self, who: str) -> AsyncGenerator[None]:
        """Hold one of the caller's places; `TooManyWaits` at once when all are taken."""
        if self.open[who] >= MOST_WAITS:
            hint = "ask again without `wait_s`, or wait for a batch or fan-out as a whole"
            raise TooManyWaits(f"{MOST_WAITS} calls wait for results already", hint=hint)
        self.open[who] += 1
        try:
            yield
        finally:
            self.open[who] -= 1


@dataclass(frozen=True, slots=True)
class Call:
    """One call's surroundings."""

    caller: Caller
    reach: Reach
    waits: Waits


class Front(Protocol):
    """The door by which calls come. `request` is what the library knows of the one at hand."""

    def token(self, request: Any) -> Token: ...

    async def call(self, request: Any) -> Call: ...


Run = Callable[[Call, Any], Awaitable[BaseModel]]


@dataclass(frozen=True, slots=True)
class Tool:
    """`right`: what its caller needs. `stops`: it can undo what was under way."""

    run: Run
    right: Right
    stops: bool = False

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def description(self) -> str:
        return getdoc(self.run) or ""

    @property
    def arguments(self) -> type[BaseModel]:
        return get_type_hints(self.run)["said"]

    @property
    def answer(self) -> type[BaseModel]:
        return get_type_hints(self.run)["return"]
