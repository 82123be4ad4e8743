"""One cell of a fleet: its server, its keys and its limits. All parts of the Redis transport work on this value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from envelope.codec import pack_plain

from ..keys import CellKeys
from ..limits import TICK, Limits
from .client import Client
from .connections import Command
from .script import script

# Scripts that wait for replicas (`Limits.wait_replicas`): nobody would repeat what a failover has forgotten of them.
# What workers write is repeated by itself: a forgotten end is a lost lease.
CONFIRMED = frozenset({"submit", "cancel", "answer", "prompt", "background", "raise", "fund", "allot", "note"})


@dataclass(frozen=True, slots=True)
class Cell:
    """`clock` is for tests: the time in milliseconds that scripts go by instead of the server's."""

    client: Client
    keys: CellKeys
    limits: Limits
    clock: Callable[[], int] | None = None

    def arguments(self, **values: Any) -> bytes:
        """A script's one argument: the limits, and what is special to this call."""
        moment = {"now": self.clock()} if self.clock else {}
        return pack_plain({**_as_arguments(self.limits), **moment, **values})

    async def run(self, name: str, *, repeatable: bool = False, **values: Any) -> Any:
        replicas = self.limits.wait_replicas if name in CONFIRMED else 0
        arguments = self.arguments(**values, **({"replicas": replicas} if replicas else {}))
        return await self.client.run(
            script(name), self.keys.prefix, arguments, repeatable=repeatable, replicas=replicas
        )

    async def run_after(self, name: str, wait: Command, for_s: float, **values: Any) -> Any:
        """A repeatable script, as soon as a blocking read has ended."""
        return await self.client.run_after(wait, for_s, script(name), self.keys.prefix, self.arguments(**values))


@cache
def _as_arguments(limits: Limits) -> dict[str, Any]:
    return {
        **asdict(limits),
        "grace_ms": limits.expiry_grace_ms,
        "max_deadline_ms": limits.max_deadline_ms,
        # an answer is kept longer than its task, which ends within its deadline and is kept for the retention time then
        "answers_ms": limits.retention_ms + limits.max_deadline_ms,
        "tick": TICK,
    }
