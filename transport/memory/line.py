"""The fair queue of one pool: flows by virtual time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from ..limits import STRIDE, TICK

Flow = tuple[str, str, str]  # priority, tenant, trace


class Rules(Protocol):
    """What the line asks about tenants and tasks."""

    def weight(self, tenant: str) -> float: ...
    def is_full(self, tenant: str) -> bool: ...
    def is_ready(self, task_id: str) -> bool:
        """False: it ended while it stood in line."""
        ...

    def is_crowded(self, task_id: str) -> bool:
        """Its trace has as many children at work as it may have."""
        ...


@dataclass(slots=True)
class Line:
    """An emptied flow stays until its turn comes, so that it gains nothing by leaving. One that a cap holds back is
    passed over, and keeps its virtual time: it has not had its turn."""

    virtual_time: int = 0
    flows: dict[Flow, deque[str]] = field(default_factory=dict[Flow, deque[str]])
    due: dict[Flow, int] = field(default_factory=dict[Flow, int])

    def put(self, flow: Flow, task_id: str, *, head: bool = False) -> None:
        if flow not in self.due:
            self.virtual_time += TICK  # flows of a single task start in the order in which they came
            self.due[flow] = self.virtual_time
        queue = self.flows.setdefault(flow, deque())
        (queue.appendleft if head else queue.append)(task_id)

    def take(self, rules: Rules) -> str | None:
        """The next task that may start."""
        passed_over: set[Flow] = set()
        while flow := min(self.due.keys() - passed_over, key=self._rank, default=None):
            if not self._may_serve(flow, rules):
                passed_over.add(flow)
                continue
            self.virtual_time = max(self.virtual_time, self.due[flow])
            if queue := self.flows[flow]:
                priority, tenant, _ = flow
                self.due[flow] += int(STRIDE[priority] / rules.weight(tenant))
                return queue.popleft()
            del self.due[flow], self.flows[flow]
        return None

    def sweep(self) -> None:
        """Nobody in line is left to start: what flows were due is counted as had."""
        self.virtual_time = max([self.virtual_time, *self.due.values()])
        self.flows.clear()
        self.due.clear()

    def _may_serve(self, flow: Flow, rules: Rules) -> bool:
        _, tenant, _ = flow
        if rules.is_full(tenant):
            return False
        queue = self.flows[flow]
        while queue and not rules.is_ready(queue[0]):
            queue.popleft()
        return not queue or not rules.is_crowded(queue[0])

    def _rank(self, flow: Flow) -> tuple[int, str]:
        return self.due[flow], ":".join(flow)
