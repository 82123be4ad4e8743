"""One cell of a fleet: its server, its keys and its limits. All parts of the Redis transport work on this value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from envelope.codec import pack_plain

from ..keys import CellKeys
from ..limits import TICK, Limits
from .client import Client
from .script import script


@dataclass(frozen=True, slots=True)
class Cell:
    client: Client
    keys: CellKeys
    limits: Limits

    def arguments(self, **values: Any) -> bytes:
        """A script's one argument: the limits, and what is special to this call."""
        return pack_plain({**asdict(self.limits), "grace_ms": self.limits.expiry_grace_ms, "tick": TICK, **values})

    async def run(self, name: str, *, repeatable: bool = False, **values: Any) -> Any:
        return await self.client.run(script(name), self.keys.prefix, self.arguments(**values), repeatable=repeatable)
