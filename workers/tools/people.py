"""The seam between a call that needs a person's word and whoever brings it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from envelope.asks import Reply
from envelope.events import AskOpened
from envelope.scope import Grant

from ..permissions.rules import Action, Rule


@dataclass(frozen=True, slots=True)
class Asked:
    """In place of a result: people are asked. They let the call run, or (of a question) their words are the answer.

    `until_ms`, on the store's clock: from then on the answer is no. `missing`: the asks that nothing has settled yet.
    """

    asks: tuple[AskOpened, ...]
    until_ms: int
    title: str = ""
    missing: tuple[AskOpened, ...] = ()

    @property
    def shown(self) -> str:
        """What people see of the call."""
        return self.asks[-1].detail if self.asks else ""

    def covers(self, wanted: Mapping[str, Sequence[str]]) -> bool:
        """Is all of this asked for, by permission? The call beside it was stored, and may be another one by now."""
        return all(
            any(ask.permission == name and set(patterns) <= set(ask.patterns) for ask in self.asks)
            for name, patterns in wanted.items()
        )


@dataclass(frozen=True, slots=True)
class Said:
    """A reply, and whose it is."""

    reply: Reply
    by: str


class People(Protocol):
    """Those who can be asked whether a call may run. What they say may come days later, to another worker.

    `approved`: what they have answered "always" to, and `approved_in` the tasks in which they did. `granted`: calls
    that they let run, each with what was asked for it. `turn` tells the asks of one turn from those of another with the
    same call. `suspect`: the call that makes a circle of the last ones, or nothing. `struck`: how many answers were
    struck out.
    """

    approved: tuple[Rule, ...]
    approved_in: tuple[str, ...]
    granted: dict[str, Asked]
    turn: int
    suspect: str
    struck: int

    def action(self, permission: str, pattern: str) -> Action:
        """What the rules and `approved` say."""
        ...

    async def learn(self) -> None:
        """Bring `approved` up to date with what was answered elsewhere in the trace."""
        ...

    def approve(self, grants: Iterable[Grant]) -> None:
        """From here on these are allowed without a question."""
        ...

    async def asked(self, call_id: str, asks: Sequence[AskOpened], *, title: str) -> Asked:
        """The asks with their ids, which are the same for the same ask of the same call, and with their time.

        `ToolError` for what cannot be shown whole: a part of it would be blanked out as a secret."""
        ...

    async def said(self, asks: Sequence[AskOpened]) -> Mapping[str, Said]:
        """What they have said so far to these; of one that was closed nobody has said anything.

        What nobody has signed, or for another question, is struck out: the ask waits on."""
        ...

    async def close(self, asks: Sequence[AskOpened]) -> bool:
        """Let nobody answer these any more: their time is over. True when somebody was quicker; `said` tells who."""
        ...

    async def now_ms(self) -> int:
        """On the store's clock."""
        ...
