"""The series of one process, made from its tables. The only module that names Prometheus's client library.

However hostile a label's value is, the number of series has a bound: what is not listed, and what comes after the first
so many, counts as `other`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from .table import OTHER, Kind, Label, Metric, Table

# Closed label sets are shown from the start, since a series that appears with its first event loses it in every rate.
# A larger set is for its process to choose from.
STARTED_AT_MOST = 32
TRACE_ID = re.compile(r"[0-9a-f]{1,64}")

Rows = Mapping[tuple[str, ...], float]
Labels = tuple[str, ...]

# a second series for each, of when it began: nobody asks for it
disable_created_metrics()


class Shown:
    """Counts by the metric's name (without prefix) and its labels in the table's order. Safe in any thread."""

    def __init__(self, table: Table, *, listed: Mapping[str, Collection[str]] | None = None) -> None:
        """`listed`: by label, the values that this process tells apart."""
        self.registry = CollectorRegistry()
        self.table = {metric.name: metric for metric in table}
        self._listed = {name: frozenset(values) for name, values in (listed or {}).items()}
        self._seen: dict[str, set[str]] = {}
        self._families = {metric.name: _family(metric, self.registry) for metric in table if not metric.told}
        self._series: dict[tuple[str, Labels], Counter | Gauge | Histogram] = {}
        self._told = Told()
        self.registry.register(self._told)
        ProcessCollector(registry=self.registry)
        for metric in table:
            if not metric.told:
                self._start(metric)

    def add(self, name: str, *labels: str, by: float = 1) -> None:
        series = self._of(name, labels)
        assert not isinstance(series, Histogram)
        series.inc(by)

    def put(self, name: str, *labels: str, value: float) -> None:
        series = self._of(name, labels)
        assert isinstance(series, Gauge)
        series.set(value)

    def read(self, name: str, *labels: str, now: Callable[[], float]) -> None:
        """A gauge that is asked whenever somebody looks, in their thread."""
        series = self._of(name, labels)
        assert isinstance(series, Gauge)
        series.set_function(now)

    def observe(self, name: str, *labels: str, value: float, trace_id: str = "") -> None:
        """`trace_id` stands as an exemplar beside the bucket that the value falls into."""
        series = self._of(name, labels)
        assert isinstance(series, Histogram)
        series.observe(value, {"trace_id": trace_id} if TRACE_ID.fullmatch(trace_id) else None)

    def start(self, name: str, *labels: str) -> None:
        """Show it at zero."""
        self._of(name, labels)

    def tell(self, name: str, rows: Rows) -> None:
        """These rows, and no others any more."""
        metric = self.table[name]
        bounded: dict[Labels, float] = {}
        for labels, value in rows.items():
            where = self._bounded(metric, labels)
            bounded[where] = bounded.get(where, 0) + value
        self._told.rows[metric] = bounded

    def untell(self, names: Iterable[str]) -> None:
        """Nobody knows these any more."""
        for name in names:
            self._told.rows.pop(self.table[name], None)

    def text(self, accept: str = "") -> tuple[str, bytes]:
        """Content type and page, in the format that was asked for; exemplars are in OpenMetrics alone."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self.registry)

    def _of(self, name: str, labels: Labels) -> Counter | Gauge | Histogram:
        if found := self._series.get((name, labels)):
            return found
        bounded = self._bounded(self.table[name], labels)
        family = self._families[name]
        series = family.labels(*bounded) if bounded else family
        self._series[name, bounded] = series  # never under what was asked for: that has no bound
        return series

    def _bounded(self, metric: Metric, labels: Labels) -> Labels:
        return tuple(self._word(label, value) for label, value in zip(metric.labels, labels, strict=True))

    def _word(self, label: Label, value: str) -> str:
        if label.values or label.listed:
            known = label.values or self._listed.get(label.name, ())
            if value not in known:
                return OTHER
        seen = self._seen.setdefault(label.name, set())
        if value in seen or value == OTHER:
            return value
        if len(seen) >= label.at_most:
            return OTHER
        seen.add(value)
        return value

    def _start(self, metric: Metric) -> None:
        choices = [label.values for label in metric.labels]
        count = 1
        for values in choices:
            count *= len(values)
        if 0 < count <= STARTED_AT_MOST:
            for labels in product(*choices):
                self._of(metric.name, labels)


class Told(Collector):
    """Rows that were counted elsewhere, each metric's as they were told last."""

    def __init__(self) -> None:
        self.rows: dict[Metric, Mapping[Labels, float]] = {}

    def collect(self) -> Iterator[Family]:
        for metric, rows in list(self.rows.items()):
            names = [label.name for label in metric.labels]
            kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
            family = kind(metric.full_name.removesuffix("_total"), metric.help, labels=names)
            for labels, value in rows.items():
                family.add_metric(labels, value)
            yield family


def _family(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    names = [label.name for label in metric.labels]
    if metric.kind is Kind.HISTOGRAM:
        return Histogram(metric.full_name, metric.help, names, buckets=metric.buckets, registry=registry)
    make = Counter if metric.kind is Kind.COUNTER else Gauge
    return make(metric.full_name, metric.help, names, registry=registry)
