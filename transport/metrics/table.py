"""What a metric is, as data: its name, its labels with their bounds, and when a person should worry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "muster_"
OTHER = "other"  # what a label says of a value that is not among those it may have


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Label:
    """`values`: all that there are. Empty: those that the process lists at its start, if it does so (`listed`).

    `at_most`: so many different ones are told apart; every further one is `other`.
    """

    name: str
    values: tuple[str, ...] = ()
    at_most: int = 100
    listed: bool = False
    bound: str = ""  # in words, for people


@dataclass(frozen=True, slots=True)
class Metric:
    """`name` is without the prefix. `told`: its rows come whole, from what the fleet counts; nothing is added up here.

    `worry`: when a person should look, and at what.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    told: bool = False
    worry: str = ""

    @property
    def full_name(self) -> str:
        return PREFIX + self.name


Table = Sequence[Metric]


def counter(name: str, says: str, *labels: Label, told: bool = False, worry: str = "") -> Metric:
    return Metric(name, Kind.COUNTER, says, labels, told=told, worry=worry)


def gauge(name: str, says: str, *labels: Label, told: bool = False, worry: str = "") -> Metric:
    return Metric(name, Kind.GAUGE, says, labels, told=told, worry=worry)


def histogram(name: str, says: str, buckets: tuple[float, ...], *labels: Label, worry: str = "") -> Metric:
    return Metric(name, Kind.HISTOGRAM, says, labels, buckets, worry=worry)
