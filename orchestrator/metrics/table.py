"""Every metric of an orchestrator process beside those that all processes have. The names are a contract with
dashboards, alerts and whoever scales by them.

What is told of the whole fleet every orchestrator process shows: a query takes `max by (…)` of it.
"""

from __future__ import annotations

from envelope.lifecycle import State
from transport.metrics.common import COMMON, POOL
from transport.metrics.table import Label, Table, counter, gauge, histogram

from ..publication.book import Stage

# A small merge is done in a tenth of a second; one that an agent helps with, or that is bisected, takes an hour.
MERGE_BUCKETS_S = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
GATE_BUCKETS_S = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)

WAITS_FOR = Label(
    "reason", ("ask", "children", "money"), bound="`ask` (people), `children` (subagents), `money` (a raised cap)"
)
STAGE = Label("stage", ("patch", "resolve"), bound="`patch` (each shard's), `resolve` (an agent's try at a collision)")
MERGED = Label(
    "outcome",
    ("applied", "empty", "collision", "set_aside", "failed"),
    bound="of a patch: `applied`, `empty`, `collision`, `set_aside`; of a try: `applied`, `failed`",
)
VERDICT = Label("outcome", ("verified", "refused"), bound="`verified`, `refused`")
TENANT = Label("tenant", at_most=1000, bound="the 100 that spent most, the rest together as `other`")
ASK = Label(
    "kind",
    at_most=16,
    bound="the first 16 permissions that were asked for; `question`; `other` beyond the 200 traces that wait longest",
)
CHANGESET = Label("state", tuple(Stage), bound=", ".join(f"`{stage}`" for stage in Stage))
SHARD = Label("state", tuple(State), bound=", ".join(f"`{state}`" for state in State))
FORGE = Label("forge", at_most=16, bound="the first 16 of the settings' names; `git` for a plain remote")

ORCHESTRATOR: Table = (
    *COMMON,
    counter("tasks_submitted_total", "Tasks that goals, batches and fan-outs here submitted", POOL),
    gauge("queue_ready", "Tasks that wait for a slot", POOL, told=True),
    gauge("queue_running", "Tasks under a lease", POOL, told=True),
    gauge("queue_parked", "Tasks that wait for something", *(POOL, WAITS_FOR), told=True),
    gauge(
        "queue_oldest_ready_age_seconds",
        "Age of the task that waits longest for a slot",
        POOL,
        told=True,
        worry="Above 900 for 10 minutes: nobody serves the pool, or too few do.",
    ),
    gauge("queue_demand", "Ready and running together: scale by demand over slots", POOL, told=True),
    gauge("queue_slots", "Slots of the workers that are alive", POOL, told=True),
    gauge(
        "pool_workers",
        "Processes that have announced themselves within the last 15 s (25 s for orchestrators)",
        POOL,
        told=True,
        worry="0 while `queue_ready` is not.",
    ),
    counter(
        "fenced_writes_total",
        "Writes of workers that had lost their task, all refused; since the fleet began",
        told=True,
        worry="Any rise: some worker stood still for longer than its lease. Nothing is wrong with the data.",
    ),
    counter("leases_reaped_total", "Leases that ended without their worker; since the fleet began", told=True),
    counter("tasks_poisoned_total", "Tasks given up after too many lost workers; since the fleet began", told=True),
    gauge(
        "tasks_overdue",
        "Tasks that have not ended a minute after their deadline",
        told=True,
        worry="Any: nobody ends what is over, because nobody is alive or Redis takes no writes.",
    ),
    gauge(
        "dead_letter_tasks",
        "Tasks that nobody could do, until somebody takes them off the list",
        told=True,
        worry="Any rise: `muster dlq list` says why.",
    ),
    gauge(
        "budget_remaining_ratio",
        "Part of a tenant's cap that is neither spent nor set aside; of the 100 lowest that have a cap",
        TENANT,
        told=True,
        worry="Below 0.2; at 0 its tasks wait for money.",
    ),
    counter(
        "tenant_cost_usd_total",
        "What tenants have spent, in dollars, since the fleet began",
        TENANT,
        told=True,
        worry="An hour that costs thrice the usual.",
    ),
    gauge("approvals_pending", "Questions that people have not answered", ASK, told=True),
    gauge(
        "approval_oldest_age_seconds",
        "Age of the oldest of them",
        told=True,
        worry="Above 1,800: nobody looks at `muster ask list`.",
    ),
    counter("merge_total", "Patches and resolutions by what became of them", *(STAGE, MERGED)),
    histogram(
        "merge_seconds", "From a repository's last shard to its merged and proved line of commits", MERGE_BUCKETS_S,
    ),
    counter(
        "verify_total", "Changes by what the gate said of them", VERDICT, worry="`refused` above half of the usual."
    ),
    histogram("gate_seconds", "Runs of a project's own commands, each from its first start", GATE_BUCKETS_S),
    gauge("changesets", "Published changes by how they stand, as this machine's book has them", CHANGESET, told=True),
    gauge(
        "batch_shards",
        "Shards of batches and fan-outs under way; ended ones as far as they are among the latest 1,000 root tasks",
        SHARD,
        told=True,
    ),
    counter(
        "publications_total",
        "Changes of a publication's state, as this process saw them in this machine's book",
        *(FORGE, Label("outcome", tuple(Stage), bound="the new state, as in `changesets`")),
        worry="`refused` rises: `muster publish status` says what somebody must do.",
    ),
    gauge(
        "event_stream_lag_events",
        "Events that webhooks have not been told of yet, where there are any; of many some hundreds",
        told=True,
        worry="Above 100 for 10 minutes: no orchestrator process tells them.",
    ),
)  # fmt: skip
