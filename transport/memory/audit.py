"""The audit log in memory: one chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from envelope.signature import Keyring

from ..audit import AuditEntry, Chain, Decision, End, Seal, chained, sealed


class MemoryAudit:
    def __init__(self, clock: Callable[[], int], keyring: Keyring, max_entries: int) -> None:
        self._max_entries = max_entries
        self._clock = clock
        self._keyring = keyring
        self._entries: list[AuditEntry] = []
        self._seal: Seal | None = None

    def append(self, decision: Decision) -> None:
        head = self._head()
        body, hash_ = chained(decision, seq=head[0] + 1, time_ms=self._clock(), prev_hash=head[1])
        self._entries.append(AuditEntry(0, body, hash_))
        if len(self._entries) > self._max_entries:
            del self._entries[0]

    async def note(self, decision: Decision) -> None:
        self.append(decision)

    async def latest(self, limit: int) -> list[AuditEntry]:
        return list(reversed(self._entries))[:limit]

    async def chains(self) -> list[Chain]:
        is_full = len(self._entries) >= self._max_entries
        return [Chain(0, tuple(self._entries), self._head(), self._seal, is_full)]

    async def seal(self, known: Mapping[int, End]) -> Mapping[int, End]:
        """Nobody can do anything to this log, so it holds whatever is known of it."""
        head = self._head()
        if not head[0]:
            return {}
        if self._seal is None or (self._seal.seq, self._seal.hash) != head:
            self._seal = sealed(self._keyring, cell=0, head=head, at_ms=self._clock(), first=self._entries[0].seq)
        return {0: head}

    def _head(self) -> End:
        return (self._entries[-1].seq, self._entries[-1].hash) if self._entries else (0, "")
