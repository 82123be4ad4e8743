"""The terms on which a session goes on: those of its last goal, but for what is said now. Every door asks here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from envelope.agent_params import UNDOING, AgentParams, inherited
from envelope.budget import Budget
from envelope.gate import GateRules
from envelope.lifecycle import TERMINAL, State
from envelope.messages import TaskRequest, TaskResult, Workspace
from envelope.scope import Scope, offers
from transport.admission import refusal
from transport.base import Transport
from transport.errors import Busy, NotFound, no_session

from .errors import BadInput
from .planner.modes import PlanMode
from .prompting import COMPACT, going_on, listener, session_of, undoing, without_people
from .submit import (
    BATCH,
    DRIVERS,
    RUN,
    GoalFields,
    GoalParams,
    SessionChange,
    intent_of,
    is_goal,
    params_of,
    scope_of_goal,
    task_request,
)

if TYPE_CHECKING:
    from .batch.spec import BatchSpec

MAX_HISTORY = 20  # changes of a session that are told from goal to goal; /undo may lead back to any of them
NO_GOAL = "no gate is run: the session was begun by no goal"
WITHOUT = "no gate is configured: the session was begun without one"
FORGOTTEN = "no gate is known: the goal that began the session is no longer kept"
ON_OTHERS = "no gate can run: the session's work is on top of changes that are no commit"


class ResumeFields(TypedDict, total=False):
    """What a caller may say of one prompt. What is left out, empty or None is as it was before."""

    budget: Budget | None
    deadline_ms: int | None
    no_input: bool  # nobody answers any more
    gate: Sequence[str]
    min_tests: int | None
    gate_rules: GateRules | None  # those that are set
    setup: Sequence[str]
    model: str
    allow: Scope  # grants beside those of before


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """`ResumeFields`, whole."""

    budget: Budget | None = None
    deadline_ms: int | None = None
    no_input: bool = False
    gate: Sequence[str] = ()
    min_tests: int | None = None
    gate_rules: GateRules | None = None
    setup: Sequence[str] = ()
    model: str = ""
    allow: Scope = ()

    @property
    def asks_for_proof(self) -> bool:
        return bool(self.gate or self.rules or self.min_tests is not None)

    @property
    def rules(self) -> dict[str, Any]:
        return self.gate_rules.model_dump(exclude_unset=True) if self.gate_rules else {}


class Gated(TypedDict):
    """How a goal is proved."""

    gate: tuple[str, ...]
    min_tests: int
    gate_rules: GateRules


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """`last`: the task that had the session last. `goal`: its last goal, None where none is known. `history`: what the
    session had changed at the end of each prompt, the latest last. `is_lost`: somebody took the work back to where no
    prompt had ended, and what of the history came before that is not known. `gated`: the gate to inherit; `ungated`:
    why there is none.

    `begun`: that goal; or for what the session was begun, as a subagent's or a shard's. `named`: what a task in the
    session names that works for no goal, so that whoever goes on after it finds the same.
    """

    last: TaskRequest
    goal: TaskRequest | None
    history: tuple[SessionChange, ...] = ()
    is_lost: bool = False
    gated: Gated | None = None
    ungated: str = ""
    begun: TaskRequest | None = None
    named: str = ""


async def resume_request(
    transport: Transport, task_id: str, prompt: str, options: ResumeOptions = ResumeOptions()
) -> TaskRequest:
    """The task that goes on with a task's session, or of a goal with its agent's.

    It is a goal where a goal or a batch began the session, or a gate is asked for; else an agent's task of its own.
    `Busy` while a task runs the session, `Refused` for one that never got to a turn, `BadInput` for what cannot be
    proved.
    """
    request = await listener(transport, task_id)
    if params := UNDOING.get(prompt.strip()):
        return undoing(request, params, goal=await goal_id(transport, request))
    terms = await terms_of(transport, request)
    if prompt.strip() == COMPACT or not (terms.begun or terms.ungated or options.asks_for_proof):
        return _as_task(going_on(request, prompt, goal=terms.named), options)
    await _require_free(transport, request)
    is_same = (terms.last.recipient, terms.last.agent) == (request.recipient, request.agent)
    return _as_goal(terms.last if is_same else request, prompt, terms, options)


def why_unproved(request: TaskRequest) -> str:
    """Why nothing will prove what comes of a task that goes on with a session; empty where its gate will."""
    if not is_goal(request):
        return "" if _takes_back(request) or request.input.prompt.strip() == COMPACT else NO_GOAL
    params = params_of(GoalParams, request)
    return "" if params.gate else params.ungated or WITHOUT


async def terms_of(transport: Transport, request: TaskRequest) -> SessionTerms:
    """Of the session of an agent's task. What belongs to another tenant is not looked at."""
    last = await _last_of(transport, request)
    begun, is_forgotten = None, False
    for each in (last, request, await _kept(transport, session_of(request))):
        if begun is None and each is not None:
            try:
                begun = await _begun_by(transport, each)
            except NotFound:
                is_forgotten = True
    if begun is None:
        return SessionTerms(last, None, ungated=FORGOTTEN if is_forgotten else "")
    goal = begun.driver if begun.is_own else None
    told = await _history(transport, goal, last) if goal else ()
    on_others = request.workspace is not None and request.workspace.changes is not None
    gated = None if on_others else _gate_of(begun.driver)
    why = "" if gated else ON_OTHERS if on_others else WITHOUT
    return SessionTerms(last, goal, told or (), told is None, gated, why, begun.driver, begun.named)


async def terms_in(transport: Transport, session: str, tenant: str) -> SessionTerms:
    """Of a tenant's session by its own id; `NotFound` when no task of it is kept."""
    request = await transport.request(await transport.session_task(session))
    if request.tenant != tenant:
        raise no_session(session)
    return await terms_of(transport, request)


def inherited_fields(terms: SessionTerms) -> GoalFields:
    """For a goal that goes on with the session, to be put over by what its caller says."""
    fields: GoalFields = {"history": terms.history, "ungated": terms.ungated}
    return {**fields, **terms.gated} if terms.gated else fields


async def goal_id(transport: Transport, request: TaskRequest) -> str:
    """`Terms.named`, for a task in the session that works for no goal; empty where none is known."""
    return (await terms_of(transport, request)).named


async def _last_of(transport: Transport, request: TaskRequest) -> TaskRequest:
    """The task that runs the session of this one, or had it last; this one where that is not kept."""
    found = await _kept(transport, await transport.session_task(session_of(request)))
    return found if found is not None and found.tenant == request.tenant else request


async def _kept(transport: Transport, task_id: str) -> TaskRequest | None:
    try:
        return await transport.request(task_id)
    except NotFound:
        return None


@dataclass(frozen=True, slots=True)
class _Begun:
    """`driver`: a goal's or a batch's. `is_own`: what it ends with is the session's work. `named`: what led to it."""

    driver: TaskRequest
    is_own: bool
    named: str


async def _begun_by(transport: Transport, request: TaskRequest) -> _Begun | None:
    """The goal or batch that a task works for, or whose terms it was given; `NotFound` when that is no longer kept.

    A subagent's is its caller's.
    """
    said = request.input.params.get("goal")  # whoever submits a task may name one: another tenant's counts for nothing
    named = above = said if isinstance(said, str) and said else _above(request)
    while above:
        found = await transport.request(above)
        if found.tenant != request.tenant:
            return None
        if found.recipient == DRIVERS:
            is_own = is_goal(found) and above == named
            return _Begun(found, is_own, named) if found.agent in (RUN, BATCH) else None
        above = _above(found)
    return None


def _above(request: TaskRequest) -> str:
    return request.parent_task_id or request.batch_id


def _gate_of(driver: TaskRequest) -> Gated | None:
    """Of a goal, or of all shards of a batch."""
    if driver.agent == BATCH:
        gate = _batch(driver).gate
        if gate is None:
            return None
        rules = gate.model_dump(exclude_unset=True, exclude={"commands", "min_tests"})
        return {"gate": gate.commands, "min_tests": gate.min_tests, "gate_rules": GateRules.model_validate(rules)}
    params = params_of(GoalParams, driver)
    told: Gated = {"gate": params.gate, "min_tests": params.min_tests, "gate_rules": params.gate_rules}
    return told if params.gate else None


def _batch(driver: TaskRequest) -> BatchSpec:
    from .batch.request import BatchParams  # only batches need their files' form, which takes long to load

    return params_of(BatchParams, driver).spec


async def _history(transport: Transport, goal: TaskRequest, last: TaskRequest) -> tuple[SessionChange, ...] | None:
    """Of a session up to the task `last`, and to where the work stands, if that task took it back (/undo). None: to
    where no prompt of those that are known had ended."""
    found = [*params_of(GoalParams, goal).history, *_ended(goal, await transport.result(goal.task_id))]
    back = await transport.result(last.task_id) if _takes_back(last) else None
    if back is not None and back.status is State.COMPLETED:
        if back.patch is None:  # all is taken back; or its agent could not have changed anything, and nobody knows
            return () if offers(last.auth_scope, "edit") else None
        trees = [change.tree for change in found]
        if back.patch.tree not in trees:
            return None if found else ()
        found = found[: len(trees) - trees[::-1].index(back.patch.tree)]
    latest = found[-MAX_HISTORY:]
    if not any(change.verified for change in latest):
        latest = [*[change for change in found if change.verified][-1:], *latest]
    return tuple(latest)


def _ended(goal: TaskRequest, result: TaskResult | None) -> Iterator[SessionChange]:
    """Only a driver's word counts: an agent may say what it likes. A plan's change is no session's."""
    if result is None or result.patch is None or params_of(GoalParams, goal).plan is not PlanMode.NONE:
        return
    told: dict[str, Any] = result.output.structured or {}
    verified = result.status is State.COMPLETED and told.get("verified") is True
    patch = result.patch
    yield SessionChange(goal=goal.task_id, base=patch.base, diff=patch.diff, tree=patch.tree, verified=verified)


def _takes_back(request: TaskRequest) -> bool:
    """A copy of a whole session takes nothing back."""
    told = request.input.params
    in_words = not request.parent_task_id and request.input.prompt.strip() in UNDOING
    return bool(in_words or told.get("undo") or told.get("unrevert") or told.get("revert_to") is not None)


async def _require_free(transport: Transport, request: TaskRequest) -> None:
    """As the queue would refuse a task of the session. Who comes between is waited for by the goal's driver."""
    session = session_of(request)
    try:
        last = await transport.record(await transport.session_task(session))
    except NotFound:
        return  # of the session itself the queue knows more
    if last.state not in TERMINAL:
        raise Busy(session, last.task_id)
    if last.checkpoint is None and not last.session_id:
        raise refusal(request.model_copy(update={"resume_token": session}), "session")


def _as_task(request: TaskRequest, options: ResumeOptions) -> TaskRequest:
    limits = {"budget": options.budget, "deadline_ms": options.deadline_ms, "model": options.model or None}
    update: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
    update |= {"workspace": _workspace(request, options), "auth_scope": (*request.auth_scope, *options.allow)}
    changed = request.model_copy(update=update)
    return without_people(changed) if options.no_input else changed


def _workspace(request: TaskRequest, options: ResumeOptions) -> Workspace | None:
    if not options.setup or request.workspace is None:
        return request.workspace
    return request.workspace.model_copy(update={"setup": tuple(options.setup)})


def _as_goal(request: TaskRequest, prompt: str, terms: SessionTerms, options: ResumeOptions) -> TaskRequest:
    begun = terms.begun
    before = params_of(GoalParams, begun) if begun and is_goal(begun) else None
    limits = begun if begun and before else request
    deadline_ms = (
        _batch(begun).limits.shard_deadline_ms(begun.deadline_ms) if begun and not before else limits.deadline_ms
    )
    held = inherited(request.input.params)
    params = GoalParams(
        agent=request.agent,
        pool=request.recipient,
        auth_scope=(*request.auth_scope, *options.allow),
        session=session_of(request),
        history=terms.history,
        hidden=before.hidden if before else None,
        subagent=AgentParams.model_validate(held) if held else None,
        **_gate(request, terms, options),
    )
    goal = task_request(
        near=request.trace_id,
        agent=RUN,
        pool=DRIVERS,
        prompt=prompt,
        intent=intent_of(prompt) or request.intent,
        params=params.model_dump(mode="json"),
        workspace=_workspace(request, options),
        auth_scope=scope_of_goal(params),
        budget=options.budget or limits.budget,
        deadline_ms=options.deadline_ms or deadline_ms,
        model=options.model or request.model,
        output_schema=request.output_schema,
        context_refs=request.context_refs,
        attachments=request.attachments,
        priority=request.priority,
        tenant=request.tenant,
        asks=limits.asks,
    )
    return without_people(goal) if options.no_input else goal


def _gate(request: TaskRequest, terms: SessionTerms, options: ResumeOptions) -> dict[str, Any]:
    """The fields of a goal that say how it is proved."""
    before = terms.gated
    gate = tuple(options.gate) or (before["gate"] if before else ())
    if not gate:
        if options.asks_for_proof:
            raise BadInput("there are rules for a gate, and the session has none", hint="name its commands beside them")
        return {"ungated": terms.ungated}
    if request.workspace is None:
        raise BadInput("a gate needs a repository, and the session has none", hint="give a new goal, with --repo")
    if request.workspace.changes is not None:
        raise BadInput(ON_OTHERS, hint="go on without --gate, take the change, commit it, and give a new goal")
    old = before["gate_rules"].model_dump(exclude_unset=True) if before else {}
    return {
        "gate": gate,
        "min_tests": options.min_tests if options.min_tests is not None else before["min_tests"] if before else 1,
        "gate_rules": GateRules.model_validate({**old, **options.rules}),
    }
