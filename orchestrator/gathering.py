"""When enough of several results are there, and which of them counts. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport.base import Handle

from .errors import BadInput
from .gating.text import proof_of


class Policy(StrEnum):
    """`all` waits for every one; `first` for one that completed; `quorum` for so many equal answers; `best` waits for
    every one, and takes the one that the gate has verified, else one that completed, and the cheapest of these."""

    ALL = "all"
    FIRST = "first"
    BEST = "best"
    QUORUM = "quorum"


@dataclass(frozen=True, slots=True)
class Want:
    """What somebody waits for. `quorum`: how many equal answers, for that policy alone."""

    policy: Policy = Policy.ALL
    quorum: int = 0

    def checked(self, count: int) -> Want:
        """`BadInput` when so many results can never be enough."""
        if (self.policy is Policy.QUORUM) != (self.quorum > 0):
            raise BadInput("a quorum is at least 1, and only for the policy quorum", hint="quorum 2 of 3, for example")
        if self.quorum > count:
            raise BadInput(f"a quorum of {self.quorum} cannot come from {count} tasks", hint="ask for fewer")
        return self

    def is_met(self, ended: Sequence[TaskResult]) -> bool:
        """Can the rest be spared?"""
        return self.policy in (Policy.FIRST, Policy.QUORUM) and self.chosen(ended) is not None

    def chosen(self, ended: Sequence[TaskResult]) -> TaskResult | None:
        """The one that counts; None where all do, and where none is good enough (yet). `ended`: in order of ending."""
        good = [result for result in ended if result.status is State.COMPLETED]
        if self.policy is Policy.FIRST:
            return next(iter(good), None)
        if self.policy is Policy.BEST:
            return min(good, key=_merit, default=None)
        if self.policy is Policy.QUORUM:
            return self._agreed(good)
        return None

    def _agreed(self, good: Iterable[TaskResult]) -> TaskResult | None:
        voices: dict[str, list[TaskResult]] = {}
        for result in good:
            voices.setdefault(_answer(result), []).append(result)
        return next((group[0] for group in voices.values() if len(group) >= self.quorum), None)


def _merit(result: TaskResult) -> tuple[bool, int]:
    verified, _ = proof_of(result)
    return not verified, result.metrics.cost_microusd


def _answer(result: TaskResult) -> str:
    """What has to be equal: the structured answer, else the words without regard to case and spaces."""
    structured = result.output.structured
    if structured is not None:
        return json.dumps(structured, sort_keys=True)
    return " ".join(result.output.text.casefold().split())


class Gathered(list[TaskResult]):
    """The results that are there, in the order of the handles.

    `chosen`: the one that the policy names, if it does. `missing`: of whom there is no result, because enough others
    were there, or the time was over.
    """

    def __init__(self, handles: Sequence[Handle], ended: Sequence[TaskResult], want: Want) -> None:
        by_id = {result.task_id: result for result in ended}
        super().__init__(by_id[handle.task_id] for handle in handles if handle.task_id in by_id)
        self.chosen = want.chosen(ended)
        self.missing = tuple(handle for handle in handles if handle.task_id not in by_id)
