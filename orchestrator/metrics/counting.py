"""What an orchestrator process counts itself."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from envelope.events import MergeStep
from transport.consumer import ConsumerEvent, What
from transport.metrics.common import NO_REASON, start_common
from transport.metrics.shown import Shown

from ..submit import DRIVERS
from .table import ORCHESTRATOR


class OrchestratorMetrics:
    """In a registry of their own, so that several can live in one process (tests).

    A task is counted as finished by the process that stored its result, so that no two count the same one.
    """

    def __init__(self) -> None:
        self.shown = Shown(ORCHESTRATOR)
        self.registry = self.shown.registry
        start_common(self.shown, DRIVERS)

    def observe(self, event: ConsumerEvent) -> None:
        """Hears of every goal and batch here, as a consumer's `on_event`."""
        self.shown.add("tasks_running", DRIVERS, by=1 if event.what is What.CLAIMED else -1)
        if event.result is not None:
            reason = event.result.errors[0].code if event.result.errors else NO_REASON
            self.shown.add("tasks_finished_total", DRIVERS, event.result.status, reason)

    def count_submitted(self, pool: str) -> None:
        self.shown.add("tasks_submitted_total", pool)

    def count_merge(self, step: MergeStep) -> None:
        self.shown.add("merge_total", "patch", step.outcome)

    def count_resolution(self, *, failed: bool) -> None:
        self.shown.add("merge_total", "resolve", "failed" if failed else "applied")

    def count_verdict(self, *, verified: bool) -> None:
        self.shown.add("verify_total", "verified" if verified else "refused")

    def count_publication(self, forge: str, stage: str) -> None:
        self.shown.add("publications_total", forge, stage)

    @contextmanager
    def timed(self, name: str, *, trace_id: str) -> Generator[None]:
        """How long it took, also when it failed."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            self.shown.observe(name, value=time.monotonic() - began_s, trace_id=trace_id)
