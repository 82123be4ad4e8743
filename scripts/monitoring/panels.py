"""What the dashboards show: every panel as a value. `python -m scripts.monitoring` makes Grafana's files of them.

Queries are written for one fleet; `grafana.py` adds the `fleet` matcher. Gauges of the whole fleet are shown by each
orchestrator process, so that they are read by `max by (...)`; what a process counts for itself is summed.
"""

# A panel in a line or two reads as the table that it is.
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass

RATE = "[$__rate_interval]"


@dataclass(frozen=True)
class Panel:
    """`worry` says when the picture is bad; `alert` names the alert whose runbook goes on from there."""

    title: str
    unit: str  # Grafana's name of it
    worry: str
    queries: tuple[tuple[str, str], ...]  # legend, query
    alert: str = ""
    kind: str = "timeseries"


@dataclass(frozen=True)
class Dashboard:
    """`variables`: name → the series and the label whose values it offers."""

    uid: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[tuple[str, str], ...] = ()


def panel(title: str, unit: str, worry: str, *queries: str, alert: str = "", kind: str = "timeseries") -> Panel:
    """Each query is `legend | query`."""
    parted = tuple((legend.strip(), query.strip()) for legend, _, query in (text.partition("|") for text in queries))
    return Panel(title, unit, worry, parted, alert, kind)


def stat(title: str, unit: str, worry: str, query: str, alert: str = "") -> Panel:
    return Panel(title, unit, worry, (("", query),), alert, "stat")


def quantiles(histogram: str, by: str, matchers: str = "") -> tuple[str, str]:
    """The half and the slowest twentieth of a histogram."""
    chosen = f"{{{matchers}}}" if matchers else ""
    rates = f"sum by (le, {by}) (rate({histogram}_bucket{chosen}{RATE}))"
    return tuple(f"p{p} {{{{{by}}}}} | histogram_quantile(0.{p}, {rates})" for p in (50, 95))  # type: ignore[return-value]


OVERVIEW = Dashboard(
    "muster-overview", "Muster / Overview",
    (
        stat("Running", "short", "Zero while tasks wait: nobody claims.", "sum(max by (pool) (muster_queue_running))", "MusterNoWorkers"),
        stat("Waiting", "short", "Growing for hours: the pools are too small.", "sum(max by (pool) (muster_queue_ready))", "MusterQueueWaitsLong"),
        stat("Workers alive", "short", "Fewer than you deployed.", "sum(max by (pool) (muster_pool_workers))", "MusterNoWorkers"),
        stat("Slots in use", "percentunit", "At 100 % for long while tasks wait: scale out.",
             "sum(max by (pool) (muster_queue_running)) / sum(max by (pool) (muster_queue_slots) > 0)", "MusterQueueWaitsLong"),
        stat("Dead letters", "short", "Any new one: somebody's work was given up.", "max(muster_dead_letter_tasks)", "MusterDeadLettersGrow"),
        stat("Overdue", "short", "Above zero: tasks have not ended a minute after their deadline.", "max(muster_tasks_overdue)", "MusterTasksOverdue"),
        stat("Cost, last hour", "currencyUSD", "Several times the usual hour.", "sum(increase(muster_llm_cost_usd_total[1h]))", "MusterCostUnusual"),
        stat("People are asked", "short", "Old ones: tasks stand still until somebody answers.", "sum(max by (kind) (muster_approvals_pending))", "MusterApprovalsWait"),
        panel("Tasks ended", "cps", "`error` and `expired` beside `completed`: what share is it?",
              f"{{{{outcome}}}} | sum by (outcome) (rate(muster_tasks_finished_total{RATE}))", alert="MusterErrorBudgetBurnsFast"),
        panel("Why tasks failed", "cps", "`sandbox`, `model_failed`, `poison`, `internal` are the platform's; the others are the tasks' own.",
              f"{{{{reason}}}} | sum by (reason) (rate(muster_tasks_finished_total{{reason!=\"none\"}}{RATE}))", alert="MusterErrorBudgetBurnsFast"),
        panel("Oldest waiting task", "s", "Above a quarter of an hour; or rising as fast as the clock: nobody claims.",
              "{{pool}} | max by (pool) (muster_queue_oldest_ready_age_seconds)", alert="MusterQueueWaitsLong"),
        panel("Error budgets: rate of burning over one hour", "none", "Above 1 for long the month's budget will not last; above 14.4 somebody is called.",
              "{{slo}} | muster:slo_errors:ratio1h / on (slo) group_left () muster:slo_budget", alert="MusterErrorBudgetBurnsSlowly"),
        panel("Versions", "short", "Two for longer than a roll-out takes.", "{{version}} | count by (version) (muster_build_info)"),
        panel("Alerts", "short", "Anything here.", "{{alertname}} | sum by (alertname, severity) (ALERTS{alertname=~\"Muster.*\", alertstate=\"firing\"})"),
    ),
)  # fmt: skip

QUEUES = Dashboard(
    "muster-queues", "Muster / Queues and pools",
    (
        panel("Waiting", "short", "A pool that only grows is too small or has no workers.", '{{pool}} | max by (pool) (muster_queue_ready{pool=~"$pool"})', alert="MusterQueueWaitsLong"),
        panel("Running", "short", "Flat at the slots while others wait: scale out.", '{{pool}} | max by (pool) (muster_queue_running{pool=~"$pool"})'),
        panel("Oldest waiting task", "s", "Above a quarter of an hour.", '{{pool}} | max by (pool) (muster_queue_oldest_ready_age_seconds{pool=~"$pool"})', alert="MusterQueueWaitsLong"),
        panel("Demand beside slots", "percentunit", "Above 100 % tasks wait; the autoscaler aims below it.",
              '{{pool}} | max by (pool) (muster_queue_demand{pool=~"$pool"}) / (max by (pool) (muster_queue_slots{pool=~"$pool"}) > 0)', alert="MusterQueueWaitsLong"),
        panel("Workers alive", "short", "Zero with tasks waiting.", '{{pool}} | max by (pool) (muster_pool_workers{pool=~"$pool"})', alert="MusterNoWorkers"),
        panel("Slots of all workers", "short", "`busy` at all of them; `free` while tasks wait: look at caps and at the model's limiter.",
              "{{state}} | sum by (state) (muster_worker_slots)"),
        panel("Wait for a slot", "s", "p95 above 30 s: people notice.", *quantiles("muster_task_queue_wait_seconds", "pool", 'pool=~"$pool"'), alert="MusterErrorBudgetBurnsSlowly"),
        panel("From first start to end", "s", "p95 near the deadline: tasks are about to expire.", *quantiles("muster_task_duration_seconds", "pool", 'pool=~"$pool"')),
        panel("Submitted", "cps", "Above what ends, for long.", f'{{{{pool}}}} | sum by (pool) (rate(muster_tasks_submitted_total{{pool=~"$pool"}}{RATE}))'),
        panel("Ended", "cps", "Below what is submitted, for long.", f'{{{{pool}}}} {{{{outcome}}}} | sum by (pool, outcome) (rate(muster_tasks_finished_total{{pool=~"$pool"}}{RATE}))'),
        panel("Deliveries", "cps", "`redelivered`: workers die or lose leases; `poison`: a task kills its workers.",
              f'{{{{kind}}}} | sum by (kind) (rate(muster_task_deliveries_total{{pool=~"$pool"}}{RATE}))', alert="MusterWorkersDie"),
        panel("Leases lost, reaped; writes fenced off", "short", "Fenced writes: a worker was late and another has its task; its work was thrown away.",
              f'lost {{{{pool}}}} | sum by (pool) (increase(muster_lease_lost_total{{pool=~"$pool"}}{RATE}))',
              f"reaped | max(increase(muster_leases_reaped_total{RATE}))",
              f"fenced | max(increase(muster_fenced_writes_total{RATE}))", alert="MusterFencedWrites"),
        panel("Tasks given up", "short", "A step: a task that takes its workers down with it, or one that nobody can read.",
              "dead letters | max(muster_dead_letter_tasks)", f"poisoned | max(increase(muster_tasks_poisoned_total{RATE}))", alert="MusterDeadLettersGrow"),
        panel("Parked", "short", "Many for money or for people: somebody has to act.", '{{pool}} {{reason}} | max by (pool, reason) (muster_queue_parked{pool=~"$pool"})', alert="MusterApprovalsWait"),
        panel("Attempts parked and retried", "cps", "Retries that go on: what tasks need is away.",
              f'parked {{{{pool}}}} | sum by (pool) (rate(muster_tasks_parked_total{{pool=~"$pool"}}{RATE}))',
              f'retried {{{{pool}}}} | sum by (pool) (rate(muster_tasks_retried_total{{pool=~"$pool"}}{RATE}))'),
        panel("Age of the claim loop", "s", "Above 30: its event loop is blocked; above 120 somebody is called.", "{{instance}} | max by (instance) (muster_worker_claim_loop_age_seconds)", alert="MusterWorkerStuck"),
        panel("Draining workers", "short", "Above zero for longer than the grace period.", "draining | sum(muster_worker_draining)"),
        panel("Worker memory", "bytes", "A slope that does not end.", "{{instance}} | process_resident_memory_bytes and on (instance) muster_worker_draining"),
    ),
    (("pool", "muster_queue_ready"),),
)  # fmt: skip

MODELS = Dashboard(
    "muster-models", "Muster / Models and cost",
    (
        panel("Cost", "currencyUSD", "An hour that costs several times the usual one.", '{{model}}, per hour | sum by (model) (rate(muster_llm_cost_usd_total{model=~"$model"}[1h])) * 3600', alert="MusterCostUnusual"),
        stat("Cost of an ended task, last hour", "currencyUSD", "Rising: agents go in circles, or the cache no longer helps.",
             'sum(increase(muster_llm_cost_usd_total[1h])) / sum(increase(muster_tasks_finished_total{pool!="orchestrator"}[1h]) > 0)'),
        panel("Requests", "reqps", "Codes other than `ok`.", f'{{{{model}}}} {{{{code}}}} | sum by (model, code) (rate(muster_llm_requests_total{{model=~"$model"}}{RATE}))', alert="MusterModelFails"),
        panel("Refused for want of capacity", "percentunit", "Above 1 % in a steady state; above 5 % work is slowed down.",
              f'{{{{model}}}} | sum by (model) (rate(muster_llm_rate_limited_total{{model=~"$model"}}{RATE})) / (sum by (model) (rate(muster_llm_requests_total{{model=~"$model"}}{RATE})) > 0)', alert="MusterModelRefuses"),
        panel("Time of a request", "s", "p95 far above its usual: the provider is slow.", *quantiles("muster_llm_request_seconds", "model", 'model=~"$model"'), alert="MusterModelFails"),
        panel("Tokens", "cps", "`input` growing while `cache_read` does not: prompts have changed at their beginning.", f'{{{{type}}}} | sum by (type) (rate(muster_llm_tokens_total{{model=~"$model"}}{RATE}))'),
        panel("Input that came from the cache", "percentunit", "A fall: cost follows.",
              f'{{{{model}}}} | sum by (model) (rate(muster_llm_tokens_total{{model=~"$model", type="cache_read"}}{RATE})) / (sum by (model) (rate(muster_llm_tokens_total{{model=~"$model", type=~"input|cache_read|cache_write"}}{RATE})) > 0)'),
        panel("The limiter's limit, a minute", "short", "Falling in steps: the provider refuses.", '{{model}} | min by (model) (muster_llm_limiter_limit{model=~"$model"})', alert="MusterModelRefuses"),
        panel("Wait for the limiter", "s", "p95 of minutes: more agents than the model carries.", *quantiles("muster_llm_limiter_wait_seconds", "model", 'model=~"$model"')),
        panel("Broken arguments mended", "cps", "A jump after a change of model.", f'{{{{model}}}} | sum by (model) (rate(muster_llm_arguments_repaired_total{{model=~"$model"}}{RATE}))'),
        panel("Turns", "cps", "None while tasks run: look at requests.", f"{{{{agent}}}} | sum by (agent) (rate(muster_turns_total{RATE}))"),
        panel("Tool calls", "cps", "Errors or denials that outnumber the rest: rules or prompts are wrong.", f"{{{{tool}}}} {{{{outcome}}}} | sum by (tool, outcome) (rate(muster_tool_calls_total{RATE}))"),
        panel("Time of a tool call", "s", "p95 at the tool's time-out.", *quantiles("muster_tool_seconds", "tool")),
    ),
    (("model", "muster_llm_tokens_total"),),
)  # fmt: skip

SANDBOXES = Dashboard(
    "muster-sandboxes", "Muster / Sandboxes",
    (
        panel("Open", "short", "Rising while running tasks do not: something leaks.", "{{instance}} | sum by (instance) (muster_sandbox_active)", alert="MusterSandboxOrphans"),
        panel("Opened", "cps", "None while tasks start: the engine does not answer.", f"opened | sum(rate(muster_sandbox_created_total{RATE}))", alert="MusterSandboxesLost"),
        panel("Time to open", "s", "cold p95 above some seconds: the engine is overloaded.", *quantiles("muster_sandbox_create_seconds", "kind"), alert="MusterSandboxesLost"),
        panel("Ready and waiting", "short", "Zero for long where warm ones are asked for.", "{{instance}} | sum by (instance) (muster_sandbox_warm_size)"),
        panel("Tasks that found one ready", "percentunit", "Low: more warm ones would help.",
              f"found | sum(rate(muster_sandbox_warm_hits_total{RATE})) / (sum(rate(muster_sandbox_warm_hits_total{RATE})) + sum(rate(muster_sandbox_warm_misses_total{RATE})) > 0)"),
        panel("Lost under their tasks", "short", "Any: the engine died, or memory ran out.", f"lost | sum(increase(muster_sandbox_lost_total{RATE}))", alert="MusterSandboxesLost"),
        panel("Orphans removed", "short", "Some after a worker was killed; else something forgets them.", f"{{{{phase}}}} | sum by (phase) (increase(muster_sandbox_orphans_reaped_total{RATE}))", alert="MusterSandboxOrphans"),
        panel("Time of a command", "s", "p50 rising: CPU or disk of the engine's machine.", f"p50 | histogram_quantile(0.50, sum by (le) (rate(muster_sandbox_command_seconds_bucket{RATE})))",
              f"p95 | histogram_quantile(0.95, sum by (le) (rate(muster_sandbox_command_seconds_bucket{RATE})))"),
        panel("Tasks that failed by it", "cps", "`sandbox`: the engine; `setup_failed`: the project's own setup.", f'{{{{reason}}}} | sum by (reason) (rate(muster_tasks_finished_total{{reason=~"sandbox|setup_failed"}}{RATE}))', alert="MusterSandboxesLost"),
    ),
)  # fmt: skip

GATE = Dashboard(
    "muster-gate", "Muster / Merge and gate",
    (
        panel("Patches by what became of them", "cps", "More conflicts than merges: shards overlap.", f"{{{{stage}}}} {{{{outcome}}}} | sum by (stage, outcome) (rate(muster_merge_total{RATE}))"),
        panel("Time of a merge", "s", "p95 of minutes: large repositories, or a slow disk.", f"p50 | histogram_quantile(0.50, sum by (le) (rate(muster_merge_seconds_bucket{RATE})))",
              f"p95 | histogram_quantile(0.95, sum by (le) (rate(muster_merge_seconds_bucket{RATE})))"),
        panel("Verdicts", "cps", "Refusals that outnumber the verified: agents, gate or base are broken.", f"{{{{outcome}}}} | sum by (outcome) (rate(muster_verify_total{RATE}))"),
        panel("Time of a gate", "s", "p95 near the gate's time-out.", f"p50 | histogram_quantile(0.50, sum by (le) (rate(muster_gate_seconds_bucket{RATE})))",
              f"p95 | histogram_quantile(0.95, sum by (le) (rate(muster_gate_seconds_bucket{RATE})))"),
        panel("Share that was verified, last hour", "percentunit", "A fall after a change of agent, model or gate.",
              'verified | sum(increase(muster_verify_total{outcome="verified"}[1h])) / (sum(increase(muster_verify_total[1h])) > 0)'),
        panel("Publications", "short", "`refused`: token, forge or rules.", f"{{{{forge}}}} {{{{outcome}}}} | sum by (forge, outcome) (increase(muster_publications_total{RATE}))"),
        panel("Change sets", "short", "Open ones that never become merged: nobody reviews.", "{{state}} | max by (state) (muster_changesets)"),
    ),
)  # fmt: skip

BATCHES = Dashboard(
    "muster-batches", "Muster / Batches",
    (
        panel("Shards of batches under way", "short", "Failed ones that grow; ready ones that do not fall.", "{{state}} | max by (state) (muster_batch_shards)", alert="MusterQueueWaitsLong"),
        panel("Shards done", "percentunit", "Standing still while workers are free.",
              'done | sum(max by (state) (muster_batch_shards{state="completed"})) / (sum(max by (state) (muster_batch_shards)) > 0)'),
        panel("Batches and goals under way here", "short", "At the orchestrator's slots: more wait for a driver.", '{{pool}} | sum by (pool) (muster_tasks_running{pool="orchestrator"})'),
        panel("Batches and goals that wait", "short", "Above zero for long: more orchestrator slots.", '{{pool}} | max by (pool) (muster_queue_ready{pool="orchestrator"})', alert="MusterQueueWaitsLong"),
        panel("How batches and goals ended", "cps", "`gate_failed`, `partial`, `collision`: see the report (`muster batch report`).",
              f'{{{{outcome}}}} {{{{reason}}}} | sum by (outcome, reason) (rate(muster_tasks_finished_total{{pool="orchestrator"}}{RATE}))'),
        panel("Change sets", "short", "Held ones for long: a window, or nobody approves.", "{{state}} | max by (state) (muster_changesets)"),
    ),
)  # fmt: skip

REDIS = Dashboard(
    "muster-redis", "Muster / Redis",
    (
        panel("Memory", "bytes", "Beyond 80 % of the maximum old events go; then submissions are refused.", '{{instance}} | redis_memory_used_bytes{instance=~"$instance"}', 'maximum {{instance}} | redis_memory_max_bytes{instance=~"$instance"}', alert="MusterRedisMemoryFull"),
        panel("Share of its memory", "percentunit", "Above 80 %.", '{{instance}} | redis_memory_used_bytes{instance=~"$instance"} / (redis_memory_max_bytes{instance=~"$instance"} > 0)', alert="MusterRedisMemoryFull"),
        panel("CPU of the one thread", "percentunit", "Above 80 %: the server is the bottleneck; more cells or another fleet.",
              f'{{{{instance}}}} | rate(redis_cpu_user_main_thread_seconds_total{{instance=~"$instance"}}{RATE}) + rate(redis_cpu_sys_main_thread_seconds_total{{instance=~"$instance"}}{RATE})'),
        panel("Commands", "cps", "A fall while workers run.", f'{{{{instance}}}} | rate(redis_commands_processed_total{{instance=~"$instance"}}{RATE})'),
        panel("Time of our commands", "s", "p95 above 20 ms: slow network, a rewrite, a full core.", *quantiles("muster_redis_command_seconds", "command")),
        panel("Our errors", "cps", "Any that last.", f"{{{{kind}}}} | sum by (kind) (rate(muster_redis_errors_total{RATE}))", alert="MusterRedisUnreachable"),
        panel("Reached by our processes", "none", "Below 1: that share cannot work.", "reached | avg(muster_redis_up)", "exporter {{instance}} | redis_up", alert="MusterRedisUnreachable"),
        panel("Connections", "short", "A slope; blocked ones are idle workers.", '{{instance}} | redis_connected_clients{instance=~"$instance"}', 'blocked {{instance}} | redis_blocked_clients{instance=~"$instance"}'),
        panel("Append-only file", "none", "0 is bad: the last write or rewrite failed, or it is off.",
              'write {{instance}} | redis_aof_last_write_status{instance=~"$instance"}', 'rewrite {{instance}} | redis_aof_last_bgrewrite_status{instance=~"$instance"}',
              'on {{instance}} | redis_aof_enabled{instance=~"$instance"}', alert="MusterRedisAofError"),
        panel("Replicas", "s", "Lag above 10 s: a failover would forget that much.", 'lag {{slave_ip}} | redis_connected_slave_lag_seconds{instance=~"$instance"}', alert="MusterRedisReplicaLags"),
        panel("Keys thrown away, connections refused", "cps", "Anything but zero: tasks are lost.",
              f'evicted {{{{instance}}}} | rate(redis_evicted_keys_total{{instance=~"$instance"}}{RATE})', f'refused {{{{instance}}}} | rate(redis_rejected_connections_total{{instance=~"$instance"}}{RATE})', alert="MusterRedisEvicts"),
        panel("Events that webhooks were not told of", "short", "Above 100 (it is counted up to some hundreds).", "lag | max(muster_event_stream_lag_events)", alert="MusterEventsLag"),
    ),
    (("instance", "redis_up"),),
)  # fmt: skip

TENANTS = Dashboard(
    "muster-tenants", "Muster / Tenants",
    (
        panel("Money left", "percentunit", "Below 20 %: it will run out; at 0 its tasks wait.", '{{tenant}} | min by (tenant) (muster_budget_remaining_ratio{tenant=~"$tenant"})', alert="MusterBudgetLow"),
        panel("Spent, per hour", "currencyUSD", "One tenant far above its usual.", '{{tenant}} | max by (tenant) (rate(muster_tenant_cost_usd_total{tenant=~"$tenant"}[1h])) * 3600', alert="MusterCostUnusual"),
        panel("People are asked", "short", "Each stands for a task that waits.", "{{kind}} | max by (kind) (muster_approvals_pending)", alert="MusterApprovalsWait"),
        panel("Oldest open ask", "s", "Above half an hour.", "oldest | max(muster_approval_oldest_age_seconds)", alert="MusterApprovalsWait"),
        panel("Until people answered", "s", "p95 of hours: whom does it reach?", *quantiles("muster_approval_wait_seconds", "kind"), alert="MusterApprovalsWait"),
        panel("Until certificates expire", "s", "Below two weeks.", "{{what}} | min by (what) (muster_certificate_expiry_timestamp_seconds) - time()", alert="MusterCertificateExpires"),
    ),
    (("tenant", "muster_budget_remaining_ratio"),),
)  # fmt: skip

DASHBOARDS = (OVERVIEW, QUEUES, MODELS, SANDBOXES, GATE, BATCHES, REDIS, TENANTS)
