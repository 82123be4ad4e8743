"""Tasks that leave their worker without an end: given back, to be tried again, or waiting."""

from __future__ import annotations

from envelope.lifecycle import State

from ..approvals import Answer
from ..base import Wait
from ..errors import NotFound, no_trace
from ..money import Ledger
from ..notices import Kind
from ..raising import ASK_FOR_MORE, TENANTS, ask_for_more_of_tenant
from .ends import IS_THERE, arrived, ends_instead
from .fleet import Fleet
from .tasks import Task, Trace


def give_back(fleet: Fleet, task: Task) -> None:
    if not ends_instead(fleet, task):
        fleet.requeue(task, "its worker gave it back")


def retry(fleet: Fleet, task: Task, delay_ms: int, reason: str) -> None:
    if ends_instead(fleet, task):
        return
    task.retries += 1
    fleet.counters["retries"] += 1
    task.lease = None
    fleet.move(task, State.PENDING, reason=reason)
    task.due_at_ms = fleet.now() + delay_ms


def park(fleet: Fleet, task: Task, wait: Wait) -> bool:
    children = {child for child in wait.children if child in task.children and fleet.tasks[child].live}
    if not wait.first:
        children.difference_update(task.background)
    asks = frozenset(ask for ask in wait.asks if _is_open(fleet, task, ask))
    if not children and not asks:
        return False
    if wait.first and (len(children) + len(asks) < len(wait.children) + len(wait.asks) or _has_mail(fleet, task)):
        return False
    if ends_instead(fleet, task):
        return True
    task.lease = None
    if asks:
        fleet.tell_others(Kind.ASKED, task, asks=tuple(asks))
    fleet.move(task, State.WAITING, reason=f"waits for {len(children)} children, {len(asks)} asks")
    task.waits_for, task.due_at_ms, task.wakes_at_first = children | asks, wait.until_ms, wait.first
    task.asks_since_ms = fleet.now()
    return True


def background(fleet: Fleet, child: Task) -> bool:
    parent = fleet.tasks.get(child.request.parent_task_id or "")
    if not child.live or parent is None or not parent.live:
        return False
    if child.id in parent.background:
        return True
    is_parked = parent.state is State.WAITING
    if is_parked and (parent.wakes_at_first or child.id not in parent.waits_for):
        return False
    parent.background.append(child.id)
    if is_parked:
        parent.waits_for.remove(child.id)
        if not parent.waits_for:
            fleet.requeue(parent, "what it waited for goes on in the background")
    return True


def hold(fleet: Fleet, task: Task, asks: frozenset[str]) -> None:
    was_held = bool(task.waits_for)
    task.asks_since_ms = task.asks_since_ms if was_held else fleet.now()
    task.waits_for = {ask for ask in asks if _is_open(fleet, task, ask)}
    if task.waits_for:
        fleet.tell_others(Kind.ASKED, task, asks=tuple(task.waits_for))
    if was_held != bool(task.waits_for):
        fleet.tell(task, reason=f"waits for 0 children, {len(task.waits_for)} asks" if task.waits_for else IS_THERE)


def _is_open(fleet: Fleet, task: Task, ask: str) -> bool:
    """An ask for more of a tenant's money is answered by another cap, of a trace's by a higher one."""
    if ask.startswith(ASK_FOR_MORE) and ask.removeprefix(ASK_FOR_MORE).isdecimal():
        return not _is_raised(fleet.traces[task.trace_id], ask)
    if not ask.startswith(TENANTS):
        return ask not in task.answers
    cap = fleet.purses[task.request.tenant].cap_microusd
    return cap is not None and ask == ask_for_more_of_tenant(cap)


def _is_raised(trace: Trace, ask: str) -> bool:
    asked = ask.removeprefix(ASK_FOR_MORE)
    return asked != ask and asked.isdecimal() and int(asked) < (trace.cap_microusd or 0)


def _has_mail(fleet: Fleet, task: Task) -> bool:
    return bool(fleet.sessions[task.session_id].inbox)


def come_due(fleet: Fleet, task: Task) -> None:
    """The pause of a retry is over, or a wait took long enough."""
    if task.state is State.WAITING:
        fleet.requeue(task, "it waited long enough")
    else:
        task.due_at_ms = None
        fleet.lines[task.pool].put(task.flow, task.id, head=True)


def answer(fleet: Fleet, task: Task, ask_id: str, given: Answer) -> Answer:
    if ask_id not in task.answers:
        if not task.live:
            raise NotFound(f"the task {task.id} has ended", hint="its ask needs no answer any more")
        task.answers[ask_id] = given
    arrived(fleet, task, ask_id)  # a tenant's cap may be waited for, and answered, more than once
    return task.answers[ask_id]


def trace_of(fleet: Fleet, trace_id: str) -> Trace:
    if (trace := fleet.traces.get(trace_id)) is None:
        raise no_trace(trace_id)
    return trace


def raise_cap(fleet: Fleet, trace_id: str, cap_microusd: int, by: str) -> Ledger:
    """The money as it is then. Who waits for a higher cap goes on."""
    trace = trace_of(fleet, trace_id)
    before = trace.cap_microusd
    if before is not None and before < cap_microusd:
        trace.cap_microusd = cap_microusd
        for task in [fleet.tasks[task_id] for task_id in trace.tasks]:
            for ask in [each for each in task.waits_for if _is_raised(trace, each)]:
                answer(fleet, task, ask, Answer("raised", by, fleet.now()))
    return trace.ledger()


def fund(fleet: Fleet, tenant: str, cap_microusd: int | None, by: str) -> Ledger:
    purse = fleet.purses[tenant]
    before, purse.cap_microusd = purse.cap_microusd, cap_microusd
    if before is not None and (cap_microusd is None or cap_microusd > before):
        for task in [one for one in fleet.tasks.values() if one.request.tenant == tenant and one.live]:
            for ask in [
                each for each in task.waits_for if each.startswith(TENANTS) and not _is_open(fleet, task, each)
            ]:
                answer(fleet, task, ask, Answer("raised", by, fleet.now()))
    return purse.ledger()
