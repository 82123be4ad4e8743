"""What a worker counts, where it happens: told by the consumer, the events of tasks, the limiter and the sandboxes.

Whoever stores a task's result counts it: subagents are counted by the workers that ran them, never by their callers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Literal

from envelope.events import Event
from transport.base import Claim, Lease
from transport.consumer import ConsumerEvent, What
from transport.metrics.common import NO_REASON, start_common
from transport.metrics.shown import Shown
from transport.metrics.table import OTHER

from ..tools.registry import all_tools
from ..tools.web import WEB_TOOLS
from .table import WORKER
from .task_events import Asks, TaskEvents

# What `Limits` allows by default: with the third lost lease a task is given up.
POISON_AFTER = 3
ENDED_AS = {What.LOST: "lease_lost_total", What.PARKED: "tasks_parked_total", What.RETRIED: "tasks_retried_total"}
STARTED_MODELS = 8  # of those that are named first; a long price list must not take all the places
Phase = Literal["start", "sweep", "elsewhere"]


class WorkerMetrics:
    """Of one worker process. `agents`: whose turns are told apart; `slots`: how many it has."""

    def __init__(
        self,
        pool: str,
        known_models: Collection[str] = (),
        *,
        agents: Collection[str] = (),
        slots: int = 0,
        poison_after: int = POISON_AFTER,
    ) -> None:
        models = [model for model in known_models if model]
        listed = {
            "model": models,
            "provider": [provider_of(model) for model in models],
            "tool": (*all_tools(), *WEB_TOOLS),
            "agent": agents,
        }
        self.shown = Shown(WORKER, listed=listed)
        self.registry = self.shown.registry
        self._started_s: dict[Lease, float] = {}
        self._poison_after = poison_after
        self._asks = Asks()
        start_common(self.shown, pool)
        for name in ("task_queue_wait_seconds", "task_duration_seconds", *ENDED_AS.values()):
            self.shown.start(name, pool)
        for kind in ("first", "redelivered", "poison"):
            self.shown.start("task_deliveries_total", pool, kind)
        for model in (*models[:STARTED_MODELS], OTHER):
            self.shown.start("llm_rate_limited_total", model)
            self.shown.start("llm_cost_usd_total", model)
        self.shown.read("worker_slots", "busy", now=lambda: len(self._started_s))
        self.shown.read("worker_slots", "free", now=lambda: max(0, slots - len(self._started_s)))

    def observe(self, event: ConsumerEvent) -> None:
        """What the consumer tells: each claim once, and once how it ended."""
        if event.what is What.CLAIMED:
            self._count_start(event.claim)
        else:
            self._count_end(event)

    def _count_start(self, claim: Claim) -> None:
        lease = claim.lease
        self._started_s[lease] = time.monotonic()
        self.shown.add("tasks_running", lease.pool)
        self.shown.add("task_deliveries_total", lease.pool, self._kind_of(claim))
        if lease.attempt == 1:  # a later one waited for its turn again, and not for its start
            waited_s = max(0, claim.started_at_ms - claim.accepted_at_ms) / 1000
            self.shown.observe("task_queue_wait_seconds", lease.pool, value=waited_s, trace_id=lease.trace_id)

    def _kind_of(self, claim: Claim) -> str:
        if claim.lost_leases and claim.lost_leases >= self._poison_after - 1:
            return "poison"
        return "first" if claim.lease.attempt == 1 else "redelivered"

    def _count_end(self, event: ConsumerEvent) -> None:
        claim, pool = event.claim, event.claim.lease.pool
        took_s = time.monotonic() - self._started_s.pop(claim.lease)
        self.shown.add("tasks_running", pool, by=-1)
        if name := ENDED_AS.get(event.what):
            self.shown.add(name, pool)
        if event.result is not None:
            earlier_ms = claim.started_at_ms - (claim.first_started_at_ms or claim.started_at_ms)
            whole_s = max(0, earlier_ms) / 1000 + took_s
            self.shown.observe("task_duration_seconds", pool, value=whole_s, trace_id=claim.lease.trace_id)
            reason = str(event.result.errors[0].code) if event.result.errors else NO_REASON
            self.shown.add("tasks_finished_total", pool, event.result.status, reason)

    # -- sandboxes

    def count_sandbox(self, change: int) -> None:
        """+1: one was opened; -1: one was closed."""
        self.shown.add("sandbox_active", by=change)
        if change > 0:
            self.shown.add("sandbox_created_total")

    def opened(self, start: Literal["cold", "warm"], seconds: float) -> None:
        self.shown.observe("sandbox_create_seconds", start, value=seconds)

    def ran(self, seconds: float) -> None:
        self.shown.observe("sandbox_command_seconds", value=seconds)

    def lost_sandbox(self) -> None:
        self.shown.add("sandbox_lost_total")

    def reaped(self, phase: Phase, count: int) -> None:
        self.shown.add("sandbox_orphans_reaped_total", phase, by=count)

    def warm_standing(self, count: int) -> None:
        self.shown.put("sandbox_warm_size", value=count)

    def warm_asked(self, *, hit: bool) -> None:
        self.shown.add("sandbox_warm_hits_total" if hit else "sandbox_warm_misses_total")

    # -- models

    def waited(self, model: str, seconds: float, per_minute: float) -> None:
        """A call got its permit from the limiter, whose limit is `per_minute` now."""
        self.shown.observe("llm_limiter_wait_seconds", model, value=seconds)
        self.shown.put("llm_limiter_limit", model, value=per_minute)

    def refused(self, model: str) -> None:
        self.shown.add("llm_rate_limited_total", model)

    def tried(self, model: str, code: str, seconds: float, trace_id: str) -> None:
        self.shown.add("llm_requests_total", provider_of(model), model, code)
        if code == "ok":
            self.shown.observe("llm_request_seconds", model, value=seconds, trace_id=trace_id)

    def observer(self, agent: str = "", trace_id: str = "") -> Callable[[Event], None]:
        """Watches the events of one task."""
        return TaskEvents(self.shown, agent, trace_id, self._asks).observe


def provider_of(model: str) -> str:
    """As the model's name begins.

    >>> provider_of("anthropic/claude-x")
    'anthropic'
    """
    return model.partition("/")[0]
