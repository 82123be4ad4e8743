"""Requests from what people mean. Pure builders: nothing is sent here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict, TypeVar, Unpack, cast

from pydantic import ValidationError

from envelope.agent_params import AgentParams
from envelope.agents import DRIVER_NAMES, DRIVERS, AgentCard
from envelope.asks import AskTerms
from envelope.budget import Budget
from envelope.gate import GateRules
from envelope.ids import BlobRef, content_key, new_task_id, new_trace_id
from envelope.messages import Attachment, ContextRef, Priority, TaskInput, TaskRequest, Workspace
from envelope.plan import Plan
from envelope.scope import Scope, common
from envelope.wire import Wire
from envelope.work import key_of_work

from .errors import BadInput, near_miss
from .planner.modes import PlanMode
from .settings import Settings

RUN, BATCH, FANOUT, EVAL = DRIVER_NAMES  # its agents
RECIPE, VERIFY, BUILD = "recipe", "verify", "build"
COMMANDS_ONLY = (RECIPE, VERIFY)  # no prompt reaches these
PLAN = "plan"  # what it plans, build carries out

# What a recipe or a gate needs to look around and run its commands; what it may edit comes on top.
RECIPE_SCOPE: Scope = ("read:**", "list:**", "glob:**", "grep:**", "bash:**")
FULL_SCOPE: Scope = (*RECIPE_SCOPE, "edit:**", "task:**", "skill:**", "todowrite:*", "todoread:*", "plan_update:*")


INTENT_CHARS = 72  # what a line of a list has room for, beside state, agent and times

P = TypeVar("P", bound=Wire)


class TaskFields(TypedDict):
    """What a caller says of a task; the rest has defaults.

    `Muster.submit` takes `pool` (the queue) and `auth_scope` from the agent's card when they are not given.
    """

    agent: str
    deadline_ms: int
    pool: NotRequired[str]
    prompt: NotRequired[str]
    params: NotRequired[dict[str, Any]]
    workspace: NotRequired[Workspace | None]
    auth_scope: NotRequired[Scope]
    budget: NotRequired[Budget]
    intent: NotRequired[str]
    idempotency_key: NotRequired[str]
    model: NotRequired[str]
    output_schema: NotRequired[dict[str, Any] | None]
    context_refs: NotRequired[tuple[ContextRef, ...]]
    attachments: NotRequired[tuple[Attachment, ...]]
    priority: NotRequired[Priority]
    tenant: NotRequired[str]
    batch_id: NotRequired[str]
    retry_of: NotRequired[str | None]
    resume_token: NotRequired[str]
    asks: NotRequired[AskTerms | None]  # None: nobody can be asked


class GoalFields(TypedDict, total=False):
    """What a caller says of a goal, beside its words and its agent."""

    workspace: Workspace | None
    gate: Sequence[str]  # the commands that the platform proves the change by; none: nothing is proved
    min_tests: int
    gate_rules: GateRules
    auth_scope: Scope | None  # instead of the agent's own
    budget: Budget | None
    deadline_ms: int | None
    model: str
    idempotency_key: str
    record: bool  # the agent's task keeps a cassette, which can be replayed
    sender: str
    asks: AskTerms | None  # None: nobody can be asked
    tenant: str
    attachments: tuple[Attachment, ...]
    session: str  # that its agent goes on with; empty: it opens one
    history: Sequence[SessionChange]  # of the session so far, the latest last
    ungated: str  # why the session goes on without a gate, for people
    near: str  # the trace where that session is


class RepositoryInput(Wire):
    """A repository of a batch: its name in reports, a bundle blob with the full history of `base`.

    `url`: where it was fetched from, with no credential in it; empty for a local one. `origin`: what stands for a local
    one's place (see `origin_of`); of a bundle nobody knows where it is from. `forge`: as its batch names it.
    """

    name: str
    bundle: str
    base: str
    url: str = ""
    origin: str = ""
    forge: str = ""


class GoalStep(Wire):
    """An agent that works on a goal, and what it may do."""

    agent: str
    pool: str
    auth_scope: Scope


class HiddenTests(Wire):
    """`base`: a commit on a goal's own, with tests that its agent does not see; it is in `bundle`."""

    bundle: BlobRef
    base: str


class SessionChange(Wire):
    """What a session had changed, `diff` on `base`, when its `goal` ended; `verified` by that one's gate, or not."""

    goal: str
    base: str
    diff: BlobRef
    tree: str
    verified: bool


class GoalParams(GoalStep):
    """`input.params` of a goal's driver, whose own scope covers its agents and its gate.

    `session`: the one that the agent goes on with; empty: it opens one. `history`: what it had changed at the end of
    each prompt so far, the latest last. `ungated`: why it goes on without a gate, for people. `subagent`: what holds
    its agent, where the session is a subagent's.

    `then`: who goes on in the agent's session, if a person lets it leave its plan for that. `plan`: how it is planned,
    `planner` by whom; `roster`: who may do a step of it. `given_plan`: the first one, if a person has made it.

    `hidden`: what the gate runs on in the place of the goal's base; nobody is told before the agent has ended. `replay`
    and `temperature` are the agent's (see `AgentParams`).
    """

    session: str = ""
    history: tuple[SessionChange, ...] = ()
    ungated: str = ""
    then: GoalStep | None = None
    gate: tuple[str, ...] = ()
    min_tests: int = 1
    gate_rules: GateRules = GateRules()
    record: bool = False
    plan: PlanMode = PlanMode.NONE
    planner: GoalStep | None = None
    roster: tuple[GoalStep, ...] = ()
    given_plan: Plan | None = None
    subagent: AgentParams | None = None
    hidden: HiddenTests | None = None
    replay: BlobRef | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Planning:
    """How a goal is planned: by whom, and who may do a step of the plan. `plan`: the first one, made by a person."""

    mode: PlanMode
    planner: AgentCard
    roster: Sequence[AgentCard]
    plan: Plan | None = None


def params_of(model: type[P], request: TaskRequest) -> P:
    """A driver's parameters; `BadInput` for what no client of ours writes."""
    try:
        return model.model_validate(request.input.params)
    except ValidationError as e:
        raise BadInput(f"params.{_first_fault(e)}") from e


def is_goal(request: TaskRequest) -> bool:
    return request.recipient == DRIVERS and request.agent == RUN


def repeated(request: TaskRequest, dead_task_id: str) -> TaskRequest:
    """The same work once more. Derived from the task that failed, so that whoever repeats it, too, finds it again."""
    again = {
        "task_id": new_task_id(),
        "retry_of": dead_task_id,
        "created_at_ms": time.time_ns() // 1_000_000,
    }
    return under_key(request.model_copy(update=again), content_key(request.idempotency_key, dead_task_id))


def keyed(request: TaskRequest, *more: str, code: Sequence[str] | None = None) -> TaskRequest:
    """Under a key made of all that it asks for, by which whoever asks the same finds it; see `key_of_work`."""
    return under_key(request, key_of_work(request, *more, code=code))


def under_key(request: TaskRequest, key: str) -> TaskRequest:
    """A trace that starts under a key lives where that says."""
    if request.parent_task_id:
        return request.model_copy(update={"idempotency_key": key})
    trace_id = _new_trace_id(request.tenant, key, near=request.trace_id if request.resume_token else "")
    return request.model_copy(update={"idempotency_key": key, "trace_id": trace_id})


def _new_trace_id(tenant: str, idempotency_key: str, *, near: str = "") -> str:
    """What one tenant submits under one key lives in one cell, where the second submission finds the first. A session
    is somewhere already, and comes before the key."""
    return new_trace_id(near=near, key=f"{tenant}:{idempotency_key}" if idempotency_key else "")


# What helps when a field of a task is refused, by the name that callers know it by.
HINTS = {
    "deadline_ms": "a task may take 30 days at most (2592000000 ms); make several of what takes longer",
    "budget": "a limit is a whole number and not negative; None is no limit",
    "auth_scope": "grants are `tool:pattern`, such as edit:src/**",
    **dict.fromkeys(("agent", "pool", "tenant"), "names have up to 100 of: letters, digits and . _ / -"),
}
CALLED = {"recipient": "pool"}  # where a message's field has another name than the caller's
NESTED: dict[str, type[Wire]] = {"budget": Budget, "workspace": Workspace, "asks": AskTerms}


def task_request(
    *,
    parent: TaskRequest | None = None,
    driver: TaskRequest | None = None,
    near: str = "",
    sender: str = "api",
    **fields: Unpack[TaskFields],
) -> TaskRequest:
    """One task: a root in a trace of its own, or a child of `parent` in the parent's. `driver`: for whom a root works.

    `near`: the trace of the session that `resume_token` names; the new one must be where that is.
    `BadInput` names the field that is wrong, unknown or missing.
    """
    if "pool" not in fields:
        raise BadInput("a request needs a pool", hint="name one, or give the fields to Muster.submit, which knows it")
    unknown = next((name for name in fields if name not in TaskFields.__annotations__), None)
    if unknown is not None:
        raise BadInput(f"a task has no field {unknown!r}", hint=near_miss(unknown, TaskFields.__annotations__))
    for name, model in NESTED.items():
        _require_known(name, fields.get(name), model)
    above = parent or driver
    tenant = fields.get("tenant") or (above.tenant if above else "default")
    key = fields.get("idempotency_key", "")
    values: dict[str, Any] = {
        "task_id": new_task_id(),
        "trace_id": parent.trace_id if parent else _new_trace_id(tenant, key, near=near),
        "parent_task_id": parent.task_id if parent else None,
        "tenant": tenant,
        "intent": intent_of(fields.get("prompt", "")) or fields.get("agent", ""),
        "sender": sender,
        "asks": above.asks if above else AskTerms(),
        "read_only": above.read_only if above else False,
        "created_at_ms": time.time_ns() // 1_000_000,
        **({"batch_id": driver.task_id, "priority": driver.priority} if driver else {}),
        **fields,
    }
    try:
        given = TaskInput(prompt=values.pop("prompt", ""), params=values.pop("params", {}))
        return TaskRequest(recipient=values.pop("pool"), input=given, **values)
    except ValidationError as e:
        fault = _first_fault(e)
        raise BadInput(fault, hint=HINTS.get(fault.partition(":")[0].partition(".")[0], "")) from e


def _require_known(name: str, value: object, model: type[Wire]) -> None:
    """A message passes over a key that it does not know; a caller meant something by it."""
    if isinstance(value, dict):
        given = cast(dict[str, Any], value)
        for unknown in given.keys() - model.model_fields.keys():
            raise BadInput(f"{name} has no field {unknown!r}", hint=near_miss(str(unknown), model.model_fields))


def intent_of(prompt: object) -> str:
    """What a task is for, in the words by which lists tell it from others; what is no text is refused elsewhere."""
    if not isinstance(prompt, str):
        return ""
    return (prompt.strip().splitlines() or [""])[0][:INTENT_CHARS]


def _first_fault(error: ValidationError) -> str:
    """The field by its caller's name, and what is wrong with it."""
    fault = error.errors(include_url=False, include_input=False)[0]
    field, *rest = fault["loc"] or ("task",)
    place = ".".join(map(str, (CALLED.get(str(field), field), *rest)))
    return f"{place}: {fault['msg'].removeprefix('Value error, ')}"


def is_resolved(task: TaskRequest | TaskFields) -> bool:
    """Does the caller say where the task goes and what it may do?"""
    if isinstance(task, TaskRequest):
        return "auth_scope" in task.model_fields_set
    return "auth_scope" in task and "pool" in task


def resolved(task: TaskRequest | TaskFields, card: AgentCard, *, near: str = "") -> TaskRequest:
    """The task with what its agent's card says where the caller says nothing."""
    if isinstance(task, TaskRequest):
        return task.model_copy(update={"auth_scope": scope_of(card)})
    fields = task.copy()
    fields.setdefault("pool", card.pool)
    fields.setdefault("auth_scope", scope_of(card))
    return task_request(near=near, **fields)


def scope_of(card: AgentCard) -> Scope:
    """What an agent may do when its caller names no scope."""
    return card.auth_scope or FULL_SCOPE


def step_of(card: AgentCard) -> GoalStep:
    return GoalStep(agent=card.name, pool=card.pool, auth_scope=scope_of(card))


def _step_within(scope: Scope, card: AgentCard, agent: AgentCard) -> GoalStep:
    """A step of a goal of `agent`, which may do what `scope` says: nobody who works on it may do more."""
    step = step_of(card)
    return step.model_copy(update={"auth_scope": scope if card == agent else common(step.auth_scope, scope)})


def goal_request(
    goal: str,
    *,
    agent: AgentCard,
    settings: Settings,
    then: AgentCard | None = None,
    planning: Planning | None = None,
    **fields: Unpack[GoalFields],
) -> TaskRequest:
    """A goal for one agent; what is not said of it comes from the settings.

    `then`: who carries out what the agent has planned. `planning`: None when its agent plans by itself.
    """
    params = _goal_params(agent, then, planning, fields)
    deadline_ms = fields.get("deadline_ms")
    return task_request(
        near=fields.get("near", ""),
        agent=RUN,
        pool=DRIVERS,
        prompt=goal,
        params=params.model_dump(mode="json"),
        workspace=fields.get("workspace"),
        auth_scope=scope_of_goal(params),
        budget=fields.get("budget") or Budget(max_cost_microusd=settings.budget_microusd),
        deadline_ms=settings.deadline_ms if deadline_ms is None else deadline_ms,
        model=fields.get("model", ""),
        idempotency_key=fields.get("idempotency_key", ""),
        tenant=fields.get("tenant") or settings.tenant,
        sender=fields.get("sender", "cli"),
        asks=fields.get("asks", AskTerms()),
        attachments=fields.get("attachments", ()),
    )


def _goal_params(agent: AgentCard, then: AgentCard | None, planning: Planning | None, fields: GoalFields) -> GoalParams:
    given = fields.get("auth_scope")
    scope = scope_of(agent) if given is None else given
    params = GoalParams(
        agent=agent.name,
        pool=agent.pool,
        auth_scope=scope,
        then=step_of(then) if then else None,
        gate=tuple(fields.get("gate", ())),
        min_tests=fields.get("min_tests", 1),
        gate_rules=fields.get("gate_rules", GateRules()),
        record=fields.get("record", False),
        session=fields.get("session", ""),
        history=tuple(fields.get("history", ())),
        ungated="" if fields.get("gate") else fields.get("ungated", ""),
    )
    if planning is None:
        return params
    planned = {
        "plan": planning.mode,
        "planner": _step_within(scope, planning.planner, agent),
        "roster": tuple(_step_within(scope, card, agent) for card in planning.roster),
        "given_plan": planning.plan,
    }
    return params.model_copy(update=planned)


def scope_of_goal(params: GoalParams) -> Scope:
    """All that is done for a goal fits into it: its agents' work, and its gate's."""
    after = params.then.auth_scope if params.then else ()
    return tuple(dict.fromkeys((*params.auth_scope, *after, *(RECIPE_SCOPE if params.gate else ()))))
