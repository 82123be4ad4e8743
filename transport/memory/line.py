"""The fair queue of one pool: lanes of tenants by virtual time, in a lane flows, in a flow tasks."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from ..limits import LANE_STRIDE, STRIDE, TICK

Flow = tuple[str, str, str]  # tenant, priority, and what its tasks have in common: `admission.flow_of`


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
class Lane:
    virtual_time: int = TICK
    due: dict[Flow, int] = field(default_factory=dict[Flow, int])

    def first(self) -> Flow | None:
        return min(self.due, key=lambda flow: (self.due[flow], ":".join(flow)), default=None)


@dataclass(slots=True)
class Line:
    """What is empty stays until its turn comes, so that it gains nothing by leaving. What a cap holds back stands aside
    until something leaves from under the cap, with its distance from the virtual time: it keeps its place in line, and
    saves up nothing."""

    virtual_time: int = 0
    due: dict[str, int] = field(default_factory=dict[str, int])  # of the lanes that stand in line
    lanes: defaultdict[str, Lane] = field(default_factory=lambda: defaultdict[str, Lane](Lane))
    flows: defaultdict[Flow, deque[str]] = field(default_factory=lambda: defaultdict[Flow, deque[str]](deque))
    held_lanes: dict[str, int] = field(default_factory=dict[str, int])
    held_flows: dict[str, dict[Flow, int]] = field(default_factory=dict[str, dict[Flow, int]])  # by trace

    def put(self, flow: Flow, task_id: str, *, head: bool = False) -> None:
        """At its flow's end, or head. A flow that was held keeps its distance; a new one starts where time is now."""
        queue, (tenant, _, group) = self.flows[flow], flow
        (queue.appendleft if head else queue.append)(task_id)
        lane = self._stand(tenant)
        if flow in lane.due:
            return
        distance = self.held_flows.get(group, {}).pop(flow, None)
        if distance is None:
            distance = 0
            lane.virtual_time += TICK  # flows of a single task start in the order in which they came
        lane.due[flow] = lane.virtual_time + distance

    def take(self, rules: Rules, but_of: Collection[str] = ()) -> str | None:
        """The next task that may start, of other tenants than these."""
        while waiting := [tenant for tenant in self.due if tenant not in but_of]:
            tenant = min(waiting, key=lambda tenant: (self.due[tenant], tenant))
            if rules.is_full(tenant):
                self.held_lanes[tenant] = max(0, self.due.pop(tenant) - self.virtual_time)
            elif flow := self._next_flow(self.lanes[tenant], rules):
                self._serve(tenant, flow, rules.weight(tenant))
                return self.flows[flow].popleft()
            else:
                self._forget(tenant)
        return None

    def release_tenant(self, tenant: str) -> None:
        """Something has left from under the tenant's cap."""
        if (distance := self.held_lanes.pop(tenant, None)) is not None:
            self.due[tenant] = self.virtual_time + distance

    def release_trace(self, trace: str) -> bool:
        """The same of a trace. Whether anything came back."""
        back = self.held_flows.pop(trace, {})
        for flow, distance in sorted(back.items(), key=lambda held: (held[1], ":".join(held[0]))):
            lane = self._stand(flow[0])
            lane.due[flow] = lane.virtual_time + distance
        return bool(back)

    def sweep(self) -> None:
        """Nobody in line is left to start: what lanes were due is counted as had."""
        for lane in self.lanes.values():
            for flow in lane.due:
                del self.flows[flow]
        self.virtual_time = max([self.virtual_time, *self.due.values()])
        self.due.clear()
        self.held_lanes.clear()
        self.lanes.clear()

    def _stand(self, tenant: str) -> Lane:
        """The tenant's lane, in line."""
        if tenant not in self.due:
            distance = self.held_lanes.pop(tenant, None)
            if distance is None:
                distance = 0
                self.virtual_time += TICK
            self.due[tenant] = self.virtual_time + distance
        return self.lanes[tenant]

    def _forget(self, tenant: str) -> None:
        self.virtual_time = max(self.virtual_time, self.due.pop(tenant))
        del self.lanes[tenant]

    def _next_flow(self, lane: Lane, rules: Rules) -> Flow | None:
        """The flow whose first task may start."""
        while flow := lane.first():
            queue = self.flows[flow]
            while queue and not rules.is_ready(queue[0]):
                queue.popleft()
            if not queue:
                lane.virtual_time = max(lane.virtual_time, lane.due.pop(flow))
                del self.flows[flow]
            elif rules.is_crowded(queue[0]):
                distance = max(0, lane.due.pop(flow) - lane.virtual_time)
                self.held_flows.setdefault(flow[2], {})[flow] = distance
            else:
                return flow
        return None

    def _serve(self, tenant: str, flow: Flow, weight: float) -> None:
        lane = self.lanes[tenant]
        self.virtual_time = max(self.virtual_time, self.due[tenant])
        lane.virtual_time = max(lane.virtual_time, lane.due[flow])
        self.due[tenant] += int(LANE_STRIDE / weight)
        lane.due[flow] += STRIDE[flow[1]]
