"""The money of traces and tenants, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Ledger:
    """The money of a trace, whose `cap_microusd` is its root's `max_cost_microusd`, or of a tenant; None means no cap.

    `tenant`: of a trace that a worker spends from also its tenant's, where that has a cap.
    """

    spent_microusd: int
    cap_microusd: int | None
    reserved_microusd: int = 0
    tenant: Ledger | None = None

    @property
    def exhausted(self) -> Literal["", "trace", "tenant"]:
        """Whose money is spent, if it is."""
        tightest = self.tightest
        if tightest.cap_microusd is None or tightest.spent_microusd < tightest.cap_microusd:
            return ""
        return "trace" if tightest is self else "tenant"

    @property
    def tightest(self) -> Ledger:
        """The one of the two that leaves less to be spent; the trace's own when none has a cap."""
        capped = (ledger for ledger in (self, self.tenant) if ledger is not None and ledger.cap_microusd is not None)
        return min(capped, key=lambda ledger: (ledger.cap_microusd or 0) - ledger.spent_microusd, default=self)
