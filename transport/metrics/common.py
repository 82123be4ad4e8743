"""What every process that serves a queue counts: its tasks, its Redis, itself."""

from __future__ import annotations

import platform
from importlib.metadata import version

from envelope.errors import ErrorCode
from envelope.lifecycle import TERMINAL

from ..errors import Misconfigured, QueueFull, Unreachable
from .shown import Shown
from .table import Label, Table, counter, gauge, histogram

# A fleet has a handful of pools; whoever invents more of them cannot make series without end.
POOL = Label("pool", at_most=16, bound="the first 16 pools that were seen, else `other`")
OUTCOME = Label("outcome", tuple(sorted(TERMINAL)), bound="how a task ends: docs/protocol.md")
NO_REASON = "none"  # an empty label reads as a missing one
REASON = Label("reason", (NO_REASON, *ErrorCode), bound="`none`, or an error code: docs/protocol.md")

# The scripts that take part in a task's life; `plain`: all single commands, and batches of them.
SCRIPTS = ("announce", "claim", "notice", "rate", "reap", "renew", "submit", "write")
PLAIN = "plain"
COMMAND = Label("command", (*SCRIPTS, PLAIN), bound="our scripts on the hot path, `plain` for single commands")
REDIS_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10)
ERRORS = {QueueFull: "full", Misconfigured: "misconfigured", Unreachable: "unreachable"}
FAULT = Label("kind", (*ERRORS.values(),), bound="`full`, `misconfigured` (rights, too), `unreachable`, else `other`")

# Of every process, also of one that serves no queue (`muster serve`).
PROCESS: Table = (
    gauge(
        "worker_claim_loop_age_seconds",
        "For how long the loop that claims tasks has shown no sign of life; about 1 when it is well, idle or full",
        worry="Above 30: the event loop is blocked. Above 120 people are called; at MUSTER_LIVENESS_S /healthz is 503.",
    ),
    gauge("worker_draining", "1 from the first SIGTERM on", worry="For longer than MUSTER_DRAIN_GRACE_S and a minute."),
    histogram(
        "redis_command_seconds",
        "Round trips to Redis that do not wait on purpose",
        REDIS_BUCKETS_S,
        COMMAND,
        worry="p99 above 0.1 s: Redis is busy, swaps, or is far away.",
    ),
    counter("redis_errors_total", "Round trips that failed", FAULT, worry="Any `full` or `misconfigured`."),
    gauge("redis_up", "1 when the last round trip was answered", worry="0 for a minute: a failover takes 20 s."),
    gauge(
        "certificate_expiry_timestamp_seconds",
        "When the certificate ends that was shown to us last, since 1970",
        Label("what", ("redis",), bound="`redis`, where it is reached over TLS"),
        told=True,
        worry="Less than two weeks away.",
    ),
    gauge(
        "build_info",
        "1; what runs here",
        Label("version", bound="ours"),
        Label("python", bound="the interpreter's"),
    ),
)
COMMON: Table = (
    gauge("tasks_running", "Tasks that this process is at", POOL),
    counter(
        "tasks_finished_total",
        "Tasks whose result this process has stored",
        *(POOL, OUTCOME, REASON),
        worry="`reason` in `sandbox`, `internal`, `model_failed` or `poison` rises: the platform fails, not the work.",
    ),
    *PROCESS,
)


def start_process(shown: Shown) -> None:
    """What is known from the start."""
    shown.put("build_info", version("muster"), platform.python_version(), value=1)


def start_common(shown: Shown, pool: str) -> None:
    """As `start_process`, of a process that serves `pool`."""
    start_process(shown)
    shown.start("tasks_running", pool)
    for state in OUTCOME.values:
        shown.start("tasks_finished_total", pool, state, NO_REASON)


class StoreCounts:
    """See `StoreWatch`."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._up = True
        shown.read("redis_up", now=lambda: float(self._up))

    def answered(self, command: str, seconds: float) -> None:
        self._shown.observe("redis_command_seconds", command, value=seconds)
        self._up = True

    def reached(self) -> None:
        self._up = True

    def failed(self, error: Exception) -> None:
        kind = next((word for each, word in ERRORS.items() if isinstance(error, each)), "other")
        self._shown.add("redis_errors_total", kind)
        if isinstance(error, Unreachable):
            self._up = False

    def certificate(self, expires_at_s: float) -> None:
        self._shown.tell("certificate_expiry_timestamp_seconds", {("redis",): expires_at_s})
