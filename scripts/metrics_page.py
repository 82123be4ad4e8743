"""Write docs/metrics.md from the tables of both sides: `python -m scripts.metrics_page`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from orchestrator.metrics.table import ORCHESTRATOR
from transport.metrics.common import COMMON, PROCESS
from transport.metrics.table import Label, Metric
from workers.metrics.table import WORKER

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"
SIDES = {
    "Every process": PROCESS,
    "Workers and orchestrators": [metric for metric in COMMON if metric not in PROCESS],
    "Workers": [metric for metric in WORKER if metric not in COMMON],
    "Orchestrators": [metric for metric in ORCHESTRATOR if metric not in COMMON],
}

HEAD = """\
    # Metrics and health

    <!-- Written by `python -m scripts.metrics_page` from the tables in transport/metrics, workers/metrics and
    orchestrator/metrics; a test holds it to them. -->

    Every worker and every orchestrator process has a small HTTP server of its own, on loopback unless
    `MUSTER_METRICS_HOST` says otherwise, at `MUSTER_METRICS_PORT` (by default a free port; `muster doctor` tells
    which). It answers three pages, to GET and HEAD, and nothing else:

    - `/metrics`: what is listed below. In OpenMetrics for whoever asks for it, with trace ids as exemplars.
    - `/healthz`: 503 when the loop that claims tasks has shown no sign of life for `MUSTER_LIVENESS_S` (120): end the
      process. Waiting at an idle queue, for a free slot, or for a Redis that is away, is healthy.
    - `/readyz`: 503 with a word: `redis` or (workers) `sandbox engine` while that does not answer, `busy` while the
      event loop does not, and `draining` from the first SIGTERM on.

    ```console
    $ muster doctor 2>&1 | grep metrics     # which port
    $ curl -s http://127.0.0.1:PORT/metrics | grep -v '^#'
    $ curl -s -H 'Accept: application/openmetrics-text' http://127.0.0.1:PORT/metrics | grep trace_id
    ```

    `muster serve` says where its three are, with what stands under *Every process*; `/healthz` and `/readyz` are on the
    API's own port, too.

    **Good to know**

    - Names begin with `muster_`. Counters start at zero where all values of their labels are known.
    - No label can be made to grow: what is not listed, and what comes after the first so many, is `other`. A worker has
      fewer than 2,000 series, whatever its tasks, models and tools are called. Trace ids stand in exemplars alone; task
      ids, paths, prompts and errors' texts stand nowhere.
    - Whoever stores a task's result counts it: a sum over all processes counts each task once.
    - *Fleet-wide* rows are what Redis says; every orchestrator process shows the same, so take `max by (...)` of them
      and never a sum. They are renewed every 10 s (what needs a look into the tasks: every 30 s) and vanish while Redis
      is away. A counter of them that is kept by tenant may fall when a tenant leaves the 100 that spent most.
    - `process_*` (CPU seconds, resident memory, open file descriptors, start time) is there as in every Prometheus
      client. Dashboards and alerts: `helm/muster`.
    - What is published is seen by the orchestrator process of the machine whose state folder has the book. API tokens
      have no end, so that no metric tells of one.
    """


def page() -> str:
    parts = [inspect.cleandoc(HEAD)]
    for title, table in SIDES.items():
        parts += [f"## {title}", *map(_section, table)]
    return "\n\n".join(parts) + "\n"


def _section(metric: Metric) -> str:
    return "\n".join(_lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    yield f"### `{metric.full_name}`"
    yield ""
    whose = ", fleet-wide" if metric.told and metric not in COMMON else ""
    yield f"{metric.kind.capitalize()}{whose}. {metric.help}."
    if metric.worry:
        yield ""
        yield f"*Worry*: {metric.worry}"
    if metric.labels:
        yield ""
        yield from map(_label, metric.labels)
    if metric.buckets:
        yield ""
        yield f"Buckets (s): {', '.join(f'{bucket:g}' for bucket in metric.buckets)}."


def _label(label: Label) -> str:
    return f"- `{label.name}`: {label.bound}"


if __name__ == "__main__":
    PAGE.write_text(page())
