"""Every metric that a worker shows beside those that all processes have. The names are a contract with dashboards,
alerts and whoever scales by them."""

from __future__ import annotations

from transport.metrics.common import COMMON, POOL
from transport.metrics.table import Label, Table, counter, gauge, histogram

from ..llm.base import Failure

# A worker that is free starts a task within milliseconds; a batch of thousands waits for an hour.
QUEUE_WAIT_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 1800, 3600)
# From a codemod on one file to four hours of an agent; the default deadline (1 h) is a border of its own.
DURATION_BUCKETS_S = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
# A call that need not wait asks Redis once; one in a long line waits until its deadline.
LIMITER_WAIT_BUCKETS_S = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
# Doublings, as OpenTelemetry has them for models: nobody answers in less, and nobody waits for longer.
MODEL_BUCKETS_S = (0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68)
TOOL_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600)
# One that stands ready answers in a millisecond; a cold one takes a fifth of a second, or a minute on a busy machine.
SANDBOX_BUCKETS_S = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
# People answer at once, after lunch, or tomorrow.
APPROVAL_BUCKETS_S = (5, 15, 60, 300, 900, 1800, 3600, 14400, 43200, 86400)

DELIVERY = Label(
    "kind",
    ("first", "redelivered", "poison"),
    bound="`first`; `redelivered` (it waited, or its worker was lost); `poison` (one more loss, and it is given up)",
)
SLOT = Label("state", ("busy", "free"), bound="`busy`, `free`")
START = Label("kind", ("cold", "warm"), bound="`cold` (made now), `warm` (it stood ready)")
PHASE = Label(
    "phase",
    ("start", "sweep", "elsewhere"),
    bound="when they were found: at this worker's `start`, in a `sweep`, of a worker `elsewhere`",
)
TOOL = Label("tool", at_most=24, listed=True, bound="our own tools; MCP servers' and invented ones are `other`")
DONE = Label("outcome", ("completed", "error"), bound="`completed`, `error`")
AGENT = Label("agent", at_most=32, listed=True, bound="agents of the worker's own files; a repository's are `other`")
# Of each there are about 50 series.
MODEL = Label(
    "model", at_most=16, listed=True, bound="up to 16 that the operator named (settings, prices), else `other`"
)
PROVIDER = Label("provider", at_most=16, listed=True, bound="of the models that are told apart, else `other`")
ANSWER = Label(
    "code",
    ("ok", "cut_off", *Failure),
    bound="`ok`, `cut_off` (the task was stopped), or what failed: " + ", ".join(f"`{failure}`" for failure in Failure),
)
TOKENS = Label(
    "type",
    ("input", "output", "cache_read", "cache_write", "reasoning"),
    bound="`input`, `output`, `cache_read`, `cache_write`, `reasoning`, which together are all",
)
PERMISSIONS = ("bash", "bash_unparsed", "edit", "external_directory", "webfetch", "question", "plan_exit", "doom_loop")
ASK = Label("kind", PERMISSIONS, bound="the permission that is asked for, else `other`")

WORKER: Table = (
    *COMMON,
    counter("tasks_parked_total", "Attempts that gave their slot back to wait", POOL),
    counter(
        "tasks_retried_total",
        "Attempts that come again, for want of what they need (an engine, room on a disk)",
        POOL,
        worry="Any in a row: the log line `task_interrupted` or the task's events say what is missing.",
    ),
    histogram(
        "task_queue_wait_seconds",
        "From a task's acceptance to its first start",
        QUEUE_WAIT_BUCKETS_S,
        POOL,
        worry="p95 above 30 s where people wait: the pool needs slots.",
    ),
    histogram(
        "task_duration_seconds", "From a task's first start to its end, with all waits in between",
        DURATION_BUCKETS_S, POOL,
    ),
    counter(
        "task_deliveries_total",
        "Starts of tasks here",
        *(POOL, DELIVERY),
        worry="Any `poison`: some task takes its workers down with it.",
    ),
    counter(
        "lease_lost_total",
        "Attempts whose task became another worker's meanwhile",
        POOL,
        worry="More than three in a quarter of an hour, and one start in twenty: the worker stands still for longer "
        "than a lease, or cannot reach Redis.",
    ),
    gauge("worker_slots", "Slots by what they are at", SLOT),
    gauge("sandbox_active", "Sandboxes that tasks have now"),
    counter("sandbox_created_total", "Sandboxes that tasks were given"),
    histogram(
        "sandbox_create_seconds",
        "Until a sandbox could be used; those that were made to stand ready, or for a setup, too",
        SANDBOX_BUCKETS_S,
        START,
        worry="p95 of `cold` above 10 s: the engine or its disk is overloaded.",
    ),
    counter("sandbox_lost_total", "Attempts that ended because their sandbox did", worry="More than a handful a day."),
    counter(
        "sandbox_orphans_reaped_total",
        "Sandboxes of dead workers that were removed",
        PHASE,
        worry="Together with workers that restart.",
    ),
    gauge("sandbox_warm_size", "Sandboxes that stand ready"),
    counter("sandbox_warm_hits_total", "Tasks that found one ready"),
    counter("sandbox_warm_misses_total", "Tasks that waited for one to be made"),
    histogram("sandbox_command_seconds", "Commands in sandboxes", TOOL_BUCKETS_S),
    counter("tool_calls_total", "Calls of tools that have ended", *(TOOL, DONE)),
    histogram("tool_seconds", "Calls of tools that ran", TOOL_BUCKETS_S, TOOL),
    counter("turns_total", "Turns of agents that have ended", AGENT),
    counter(
        "llm_requests_total",
        "Calls of models, each try by itself",
        *(PROVIDER, MODEL, ANSWER),
        worry="`rate_limit` above 5 % of all; any `auth` or `unknown_model`.",
    ),
    histogram(
        "llm_request_seconds", "Until a model's reply was whole, of those that came", MODEL_BUCKETS_S, MODEL,
    ),
    counter("llm_tokens_total", "Tokens of turns that have ended", *(MODEL, TOKENS)),
    counter(
        "llm_cost_usd_total", "What those turns cost, in dollars", MODEL, worry="An hour that costs thrice the usual."
    ),
    gauge("llm_limiter_limit", "Calls (else tokens) a minute that the fleet may make, last heard", MODEL),
    histogram(
        "llm_limiter_wait_seconds",
        "From a call's wish to its permit",
        LIMITER_WAIT_BUCKETS_S,
        MODEL,
        worry="p95 above 10 s: the provider allows less than the fleet wants.",
    ),
    counter("llm_rate_limited_total", "Calls that a provider refused for want of capacity", MODEL),
    counter("llm_arguments_repaired_total", "Tool calls whose broken JSON was mended", MODEL),
    histogram(
        "approval_wait_seconds",
        "From a question to its answer, where this process saw both",
        APPROVAL_BUCKETS_S,
        ASK,
        worry="p50 above 30 min: nobody looks at `muster ask list`.",
    ),
)  # fmt: skip
