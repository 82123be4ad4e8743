"""What a worker counts, for Prometheus, and the loopback server that shows it.

Labels are bounded: pools, outcomes and codes are few, and models that the operator did not name count as `other`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from envelope.events import Event, TurnFinished, TurnStarted
from envelope.lifecycle import TERMINAL
from envelope.messages import TaskResult

MICROUSD_PER_USD = 1_000_000
QUEUE_WAIT_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 1800, 3600)
DURATION_BUCKETS_S = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
OTHER = "other"


class WorkerMetrics:
    """Counters of one worker process, in a registry of their own."""

    def __init__(self, pool: str, known_models: Collection[str] = ()) -> None:
        self.registry = registry = CollectorRegistry()
        self._known_models = frozenset(known_models)
        self._running = Gauge("muster_tasks_running", "Tasks that run now", ["pool"], registry=registry)
        self._finished = Counter(
            "muster_tasks_finished_total", "Tasks that ended here", ["pool", "outcome", "reason"], registry=registry
        )
        self._queue_wait = Histogram(
            "muster_task_queue_wait_seconds",
            "From acceptance to start",
            ["pool"],
            buckets=QUEUE_WAIT_BUCKETS_S,
            registry=registry,
        )
        self._duration = Histogram(
            "muster_task_duration_seconds",
            "From start to end",
            ["pool"],
            buckets=DURATION_BUCKETS_S,
            registry=registry,
        )
        self._tokens = Counter("muster_llm_tokens_total", "Tokens by kind", ["model", "type"], registry=registry)
        self._cost = Counter("muster_llm_cost_usd_total", "Money spent on models", registry=registry)
        self._sandboxes = Gauge("muster_sandbox_active", "Open sandboxes", registry=registry)
        self._sandboxes_created = Counter("muster_sandbox_created_total", "Sandboxes opened", registry=registry)
        self.fenced = Counter("muster_fenced_writes_total", "Writes refused after a lost lease", registry=registry)
        self._start_at_zero(pool)

    @contextmanager
    def running(self, pool: str, *, queue_ms: int) -> Generator[None]:
        """Count a task as running."""
        self._queue_wait.labels(pool).observe(queue_ms / 1000)
        with self._running.labels(pool).track_inprogress():
            yield

    def finished(self, pool: str, result: TaskResult) -> None:
        reason = str(result.errors[0].code) if result.errors else ""
        self._finished.labels(pool, result.status, reason).inc()
        self._duration.labels(pool).observe(result.metrics.latency_ms / 1000)

    def count_sandbox(self, change: int) -> None:
        """+1: one was opened; -1: one was closed."""
        self._sandboxes.inc(change)
        if change > 0:
            self._sandboxes_created.inc()

    def observer(self) -> Callable[[Event], None]:
        """Watches the events of one task for what its models cost."""
        model = OTHER

        def observe(event: Event) -> None:
            nonlocal model
            match event:
                case TurnStarted(model=name):
                    model = name if name in self._known_models else OTHER
                case TurnFinished():
                    self._count_turn(model, event)
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
            "input": usage.input_tokens - usage.cached_tokens,
            "output": usage.output_tokens - usage.reasoning_tokens,
            "cache_read": usage.cached_tokens,
            "reasoning": usage.reasoning_tokens,
        }
        for kind, tokens in kinds.items():
            self._tokens.labels(model, kind).inc(max(0, tokens))
        self._cost.inc(turn.cost_microusd / MICROUSD_PER_USD)

    def _start_at_zero(self, pool: str) -> None:
        """Series that appear with their first event lose it in every rate."""
        self._running.labels(pool)
        self._queue_wait.labels(pool)
        self._duration.labels(pool)
        for state in sorted(TERMINAL):
            self._finished.labels(pool, state, "")
