"""What Prometheus reads of an orchestrator process. Labels are bounded: pools, outcomes, error codes."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from envelope.events import MergeStep
from envelope.messages import TaskResult
from transport.base import PoolStats


class OrchestratorMetrics:
    """Counters and gauges in a registry of their own, so that several can live in one process (tests)."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.submitted = Counter("muster_tasks_submitted", "Tasks handed to a pool", ["pool"], registry=registry)
        self.finished = Counter(
            "muster_tasks_finished", "Results received", ["pool", "outcome", "reason"], registry=registry
        )
        self.ready = Gauge("muster_queue_ready", "Tasks that wait for a slot", ["pool"], registry=registry)
        self.running = Gauge("muster_queue_running", "Tasks under a lease", ["pool"], registry=registry)
        self.oldest_s = Gauge(
            "muster_queue_oldest_ready_age_seconds", "Age of the longest waiting task", ["pool"], registry=registry
        )
        self.merges = Counter("muster_merge", "Patches by what became of them", ["outcome"], registry=registry)
        self.verdicts = Counter("muster_verify", "Gate runs after a change", ["outcome"], registry=registry)
        self.drivers = Gauge("muster_tasks_running", "Goals and batches under way here", ["pool"], registry=registry)

    def count_submitted(self, pool: str) -> None:
        self.submitted.labels(pool).inc()

    def count_result(self, pool: str, result: TaskResult) -> None:
        reason = result.errors[0].code if result.errors else "none"
        self.finished.labels(pool, result.status, reason).inc()

    def count_merge(self, step: MergeStep) -> None:
        self.merges.labels(step.outcome).inc()

    def count_verdict(self, *, verified: bool) -> None:
        self.verdicts.labels("verified" if verified else "refused").inc()

    def show_queues(self, stats: Iterable[PoolStats]) -> None:
        for pool in stats:
            self.ready.labels(pool.pool).set(pool.ready)
            self.running.labels(pool.pool).set(pool.running)
            self.oldest_s.labels(pool.pool).set(pool.oldest_ready_age_s)

    @contextmanager
    def serve(self, port: int, host: str) -> Generator[int]:
        """Show the metrics over HTTP while the context lasts; the port (0 asks for a free one)."""
        server, thread = start_http_server(port, addr=host, registry=self.registry)
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
