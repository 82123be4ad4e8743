"""What Prometheus reads of an orchestrator process. Labels are bounded: pools, outcomes, error codes."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from envelope.events import MergeStep
from transport.base import PoolStats
from transport.consumer import ConsumerEvent, What

from .submit import DRIVERS

# What `Transport.counters` counts, of which an alert must see the first one, too.
COUNTERS = ("fenced_writes", "lost_leases", "retries", "poisoned")


class OrchestratorMetrics:
    """Counters and gauges in a registry of their own, so that several can live in one process (tests).

    A task is counted as finished by the process that stored its result, so that no two count the same one.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.submitted = Counter(
            "muster_tasks_submitted", "Tasks that goals and batches here submitted", ["pool"], registry=registry
        )
        self.finished = Counter(
            "muster_tasks_finished", "Tasks that ended here", ["pool", "outcome", "reason"], registry=registry
        )
        self.running = Gauge("muster_tasks_running", "Tasks that run here", ["pool"], registry=registry)
        self.queue_ready = Gauge("muster_queue_ready", "Tasks that wait for a slot", ["pool"], registry=registry)
        self.queue_running = Gauge("muster_queue_running", "Tasks under a lease", ["pool"], registry=registry)
        self.queue_oldest_s = Gauge(
            "muster_queue_oldest_ready_age_seconds", "Age of the longest waiting task", ["pool"], registry=registry
        )
        self.fleet = Gauge("muster_fleet_count", "Since the fleet began, in all of it", ["what"], registry=registry)
        self.merges = Counter("muster_merge", "Patches by what became of them", ["outcome"], registry=registry)
        self.verdicts = Counter("muster_verify", "Gate runs after a change", ["outcome"], registry=registry)
        self.running.labels(DRIVERS)

    def observe(self, event: ConsumerEvent) -> None:
        """Hears of every goal and batch here, as a consumer's `on_event`."""
        self.running.labels(DRIVERS).inc(1 if event.what is What.CLAIMED else -1)
        if event.result is not None:
            reason = event.result.errors[0].code if event.result.errors else "none"
            self.finished.labels(DRIVERS, event.result.status, reason).inc()

    def count_submitted(self, pool: str) -> None:
        self.submitted.labels(pool).inc()

    def count_merge(self, step: MergeStep) -> None:
        self.merges.labels(step.outcome).inc()

    def count_verdict(self, *, verified: bool) -> None:
        self.verdicts.labels("verified" if verified else "refused").inc()

    def show_queues(self, stats: Iterable[PoolStats]) -> None:
        for pool in stats:
            self.queue_ready.labels(pool.pool).set(pool.ready)
            self.queue_running.labels(pool.pool).set(pool.running)
            self.queue_oldest_s.labels(pool.pool).set(pool.oldest_ready_age_s)

    def show_fleet(self, counters: Mapping[str, int]) -> None:
        for what in COUNTERS:
            self.fleet.labels(what).set(counters.get(what, 0))

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
