"""What others outside of the fleet are told: what happened, noticed once, and notices, kept until they have arrived.

A notice is written down, under the id that its receiver will see, before anything is sent; whoever sends it says so
first and afterwards. So whichever process is killed, another goes on, and a notice that is sent twice has one id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Kind(StrEnum):
    """The values are the names of the streams that they come from."""

    ENDED = "done"  # a task ended
    DEAD = "dead"  # nobody could do it
    ASKED = "asked"  # it waits for people


@dataclass(frozen=True, slots=True)
class Happening:
    """`asks`: what a task that waits for people asked. `code`, `why`: of a dead letter."""

    kind: Kind
    task_id: str
    at_ms: int
    asks: tuple[str, ...] = ()
    code: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class News:
    """What came between two marks of the fleet's."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    happenings: tuple[Happening, ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """`id` is what its receiver knows it by. `tries`: how often somebody began to send it."""

    id: str
    hook: str
    event: str
    body: str
    at_ms: int
    tries: int = 0
    error: str = ""  # why the last try failed


@dataclass(frozen=True, slots=True)
class Due:
    """`next_ms`: when to look again; None: there is nothing to wait for."""

    notices: tuple[Notice, ...]
    next_ms: int | None


class Notices(Protocol):
    """Of one cell. All of a fleet's orchestrators call these at once."""

    async def read(self, *, wait_s: float) -> News:
        """What happened since the last `take`, oldest first; waits for something. The first ever starts from now."""
        ...

    async def take(self, news: News, notices: Sequence[Notice]) -> bool:
        """Write the notices down and move the fleet's mark, in one step; False when somebody else has done it.

        A notice whose id is known already is left as it is.
        """
        ...

    async def due(self, *, limit: int, sending_ms: int) -> Due:
        """What is to be sent now. Who hears nothing of them within `sending_ms` gives them to somebody else."""
        ...

    async def sent(self, notice: Notice) -> None:
        """It has arrived. A try that was given to somebody else meanwhile counts as well."""
        ...

    async def failed(self, notice: Notice, why: str, *, again_in_ms: int | None) -> None:
        """It has not arrived; None: nobody tries any more."""
        ...

    async def waiting(self, limit: int) -> list[Notice]:
        """Written down, and not arrived yet; those that are due first."""
        ...

    async def given_up(self, limit: int) -> list[Notice]:
        """The latest first."""
        ...

    async def retry(self, ids: Iterable[str]) -> int:
        """Try again with those that were given up; how many that were."""
        ...
