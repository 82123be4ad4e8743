"""What a worker counts, for Prometheus, and the loopback server that shows it.

Labels are bounded: pools, outcomes and codes are few, and models that the operator did not name count as `other`.
Whoever stores a task's result counts it: subagents are counted by the workers that ran them, never by their callers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from envelope.budget import MICROUSD_PER_USD
from envelope.events import Event, TurnFinished, TurnStarted, WarningRaised
from envelope.lifecycle import TERMINAL
from transport.base import Claim, Lease
from transport.consumer import ConsumerEvent, What

from .llm.arguments import ARGUMENTS_REPAIRED

# A worker that is free starts a task within milliseconds; a batch of thousands waits for an hour.
QUEUE_WAIT_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 1800, 3600)
# From a codemod on one file to four hours of an agent; the default deadline (1 h) is a border of its own.
DURATION_BUCKETS_S = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
# A call that need not wait asks Redis once; one in a long line waits until its deadline.
LIMITER_WAIT_BUCKETS_S = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
OTHER = "other"
NO_REASON = "none"  # an empty label reads as a missing one


class WorkerMetrics:
    """Counters of one worker process, in a registry of their own."""

    def __init__(self, pool: str, known_models: Collection[str] = ()) -> None:
        self.registry = registry = CollectorRegistry()
        self._started_s: dict[Lease, float] = {}
        self._known_models = frozenset(known_models)
        self._define_tasks(registry)
        self._define_models(registry)
        self._define_sandboxes(registry)
        # Ends of an attempt that are counted by themselves.
        self._ended_as = {What.LOST: self._lost, What.PARKED: self._parked, What.RETRIED: self._retried}
        self._start_at_zero(pool)

    def _define_tasks(self, registry: CollectorRegistry) -> None:
        self._running = Gauge("muster_tasks_running", "Tasks that run now", ["pool"], registry=registry)
        self._finished = Counter(
            "muster_tasks_finished_total", "Tasks that ended here", ["pool", "outcome", "reason"], registry=registry
        )
        self._queue_wait = Histogram(
            "muster_task_queue_wait_seconds",
            "From acceptance to the first start",
            ["pool"],
            buckets=QUEUE_WAIT_BUCKETS_S,
            registry=registry,
        )
        self._duration = Histogram(
            "muster_task_duration_seconds",
            "From the first start to the end",
            ["pool"],
            buckets=DURATION_BUCKETS_S,
            registry=registry,
        )
        self._lost = Counter(
            "muster_lease_lost_total", "Attempts whose task became another worker's", ["pool"], registry=registry
        )
        self._parked = Counter(
            "muster_tasks_parked_total", "Attempts that gave their slot back to wait", ["pool"], registry=registry
        )
        self._retried = Counter(
            "muster_tasks_retried_total", "Attempts that come again, for want of what they need", ["pool"],
            registry=registry,
        )  # fmt: skip

    def _define_models(self, registry: CollectorRegistry) -> None:
        self._tokens = Counter("muster_llm_tokens_total", "Tokens by kind", ["model", "type"], registry=registry)
        self._cost = Counter("muster_llm_cost_usd_total", "Money spent on models", registry=registry)
        self._repaired = Counter(
            "muster_llm_arguments_repaired_total", "Tool calls whose broken JSON was mended", ["model"],
            registry=registry,
        )  # fmt: skip
        self._limiter_wait = Histogram(
            "muster_llm_limiter_wait_seconds",
            "From a call's wish to its permit",
            ["model"],
            buckets=LIMITER_WAIT_BUCKETS_S,
            registry=registry,
        )
        self._limiter_limit = Gauge(
            "muster_llm_limiter_limit", "Calls (else tokens) a minute that the fleet may make, last heard", ["model"],
            registry=registry,
        )  # fmt: skip
        self._refused = Counter(
            "muster_llm_rate_limited_total", "Calls that a provider refused for want of capacity", ["model"],
            registry=registry,
        )  # fmt: skip

    def _define_sandboxes(self, registry: CollectorRegistry) -> None:
        self._sandboxes = Gauge("muster_sandbox_active", "Open sandboxes", registry=registry)
        self._sandboxes_created = Counter("muster_sandbox_created_total", "Sandboxes opened", registry=registry)
        self._warm = Gauge("muster_sandbox_warm_size", "Sandboxes that stand ready for a task", registry=registry)
        self._warm_hits = Counter("muster_sandbox_warm_hits_total", "Tasks that found one ready", registry=registry)
        self._warm_misses = Counter(
            "muster_sandbox_warm_misses_total", "Tasks that waited for one to be opened", registry=registry
        )

    def observe(self, event: ConsumerEvent) -> None:
        """What the consumer tells: each claim once, and once how it ended."""
        if event.what is What.CLAIMED:
            self._count_start(event.claim)
        else:
            self._count_end(event)

    def _count_start(self, claim: Claim) -> None:
        lease = claim.lease
        self._started_s[lease] = time.monotonic()
        self._running.labels(lease.pool).inc()
        if lease.attempt == 1:  # a later one waited for its turn again, and not for its start
            self._queue_wait.labels(lease.pool).observe(max(0, claim.started_at_ms - claim.accepted_at_ms) / 1000)

    def _count_end(self, event: ConsumerEvent) -> None:
        claim, pool = event.claim, event.claim.lease.pool
        took_s = time.monotonic() - self._started_s.pop(claim.lease)
        self._running.labels(pool).dec()
        if counter := self._ended_as.get(event.what):
            counter.labels(pool).inc()
        if event.result is not None:
            reason = str(event.result.errors[0].code) if event.result.errors else NO_REASON
            self._finished.labels(pool, event.result.status, reason).inc()
            earlier_ms = claim.started_at_ms - (claim.first_started_at_ms or claim.started_at_ms)
            self._duration.labels(pool).observe(max(0, earlier_ms) / 1000 + took_s)

    def count_sandbox(self, change: int) -> None:
        """+1: one was opened; -1: one was closed."""
        self._sandboxes.inc(change)
        if change > 0:
            self._sandboxes_created.inc()

    def warm_standing(self, count: int) -> None:
        self._warm.set(count)

    def warm_asked(self, *, hit: bool) -> None:
        (self._warm_hits if hit else self._warm_misses).inc()

    def waited(self, model: str, seconds: float, per_minute: float) -> None:
        """A call got its permit from the limiter, whose limit is `per_minute` now."""
        self._limiter_wait.labels(self._label(model)).observe(seconds)
        self._limiter_limit.labels(self._label(model)).set(per_minute)

    def refused(self, model: str) -> None:
        self._refused.labels(self._label(model)).inc()

    def observer(self) -> Callable[[Event], None]:
        """Watches the events of one task for what its models cost."""
        model = OTHER

        def observe(event: Event) -> None:
            nonlocal model
            match event:
                case TurnStarted(model=name):
                    model = self._label(name)
                case TurnFinished():
                    self._count_turn(model, event)
                case WarningRaised(code=code) if code == ARGUMENTS_REPAIRED:
                    self._repaired.labels(model).inc()
                case _:
                    pass

        return observe

    @contextmanager
    def serve(self, port: int, host: str) -> Generator[int]:
        """Show the metrics over HTTP until the end of the context; the port (0 asks for any free one)."""
        server, thread = start_http_server(port, addr=host, registry=self.registry)
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _count_turn(self, model: str, turn: TurnFinished) -> None:
        usage = turn.usage
        kinds = {
            "input": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
            "output": usage.output_tokens - usage.reasoning_tokens,
            "cache_read": usage.cached_tokens,
            "cache_write": usage.cache_write_tokens,
            "reasoning": usage.reasoning_tokens,
        }
        for kind, tokens in kinds.items():
            self._tokens.labels(model, kind).inc(max(0, tokens))
        self._cost.inc(turn.cost_microusd / MICROUSD_PER_USD)

    def _label(self, model: str) -> str:
        return model if model in self._known_models else OTHER

    def _start_at_zero(self, pool: str) -> None:
        """Series that appear with their first event lose it in every rate."""
        self._running.labels(pool)
        self._queue_wait.labels(pool)
        self._duration.labels(pool)
        for counter in self._ended_as.values():
            counter.labels(pool)
        for model in (*self._known_models, OTHER):
            self._refused.labels(model)
        for state in sorted(TERMINAL):
            self._finished.labels(pool, state, NO_REASON)
