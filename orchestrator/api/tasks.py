"""Tasks: hand over, look at, stop, talk to."""

from __future__ import annotations

from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from envelope.agents import DRIVER_NAMES
from envelope.asks import AskTerms
from envelope.budget import Budget
from envelope.gate import GateRules
from envelope.ids import require_own_key
from envelope.lifecycle import State
from envelope.messages import MAX_DEADLINE_MS, Attachment, ContextRef, Name, Priority, TaskResult, Workspace
from envelope.plan import Plan
from envelope.scope import Scope
from transport.base import Handle, TaskRecord

from ..errors import BadInput
from ..planner.modes import PlanMode
from ..session.told import cost_as_json, tree_as_json
from ..submit import DRIVERS, TaskFields
from .access import Caller, Submitter, Viewer
from .answers import told_at_once
from .known import MAX_IN_LIST, too_long_in, unknown_in
from .prefix import prefix_of
from .problems import Problem
from .reading import BodyRoute

router = APIRouter(route_class=BodyRoute, prefix="/v1", tags=["tasks"])

MAX_LISTED = 1000
MAX_UNKNOWN = 20  # of a body's own fields; each is an error of its own
NEXT = "Next-Cursor"
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=150,
        description="The same work under the same key gives the first task back; other work is refused.",
    ),
    AfterValidator(require_own_key),
]

Model = Annotated[str, Field(max_length=200)]


class Body(BaseModel):
    """What people and programs send: a key that is not known was meant for something."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, said: Any) -> Any:
        """At the first: what is wrong a thousand times would be a thousand errors."""
        if place := next(too_long_in(cls, said), None):
            raise ValueError(f"{place} has more than {MAX_IN_LIST:,} elements")
        for number, place in enumerate(unknown_in(cls, said)):
            if "." in place or number == MAX_UNKNOWN:
                raise ValueError(f"there is no field {place[:200]!r}")
        return said


class NewTask(Body):
    """One task for an agent. What is left out comes from the agent's card."""

    agent: Name
    prompt: Annotated[str, Field(min_length=1)]
    deadline_ms: Annotated[int, Field(gt=0, le=MAX_DEADLINE_MS)]
    pool: Name | None = None
    params: dict[str, Any] = {}
    workspace: Workspace | None = None
    auth_scope: Scope | None = None
    budget: Budget = Budget()
    model: Model = ""
    output_schema: dict[str, Any] | None = None
    context_refs: tuple[ContextRef, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    priority: Priority = Priority.NORMAL
    resume_token: Annotated[str, Field(pattern=r"^[0-9a-f-]{0,36}$")] = ""


class NewGoal(Body):
    """A goal for an agent that people start, with the commands that prove its change.

    `plan`: how it is planned; `given_plan`: the first plan, whose steps are dispatched.
    """

    goal: Annotated[str, Field(min_length=1)]
    agent: Name = "build"
    workspace: Workspace | None = None
    gate: tuple[str, ...] = ()
    min_tests: Annotated[int, Field(ge=0, le=10**9)] = 1
    gate_rules: GateRules = GateRules()
    budget: Budget | None = None
    deadline_ms: Annotated[int, Field(gt=0, le=MAX_DEADLINE_MS)] | None = None
    model: Model = ""
    plan: PlanMode = PlanMode.NONE
    given_plan: Plan | None = None
    attachments: tuple[Attachment, ...] = ()


class Accepted(BaseModel):
    """`existing`: the key was known, and this is the task that it stands for."""

    task_id: str
    trace_id: str
    existing: bool


class Task(BaseModel):
    """A task's record; times are the queue's, in ms."""

    record: dict[str, Any]
    result: TaskResult | None = None


class Stop(Body):
    reason: str = "asked for"


class Stopped(BaseModel):
    stopped: int


class Wish(Body):
    """What the next plan should know."""

    reason: str = "asked for"


class Words(Body):
    text: Annotated[str, Field(min_length=1)]


class Background(BaseModel):
    background: Literal[True] = True


class GoOn(Body):
    """What is left out is as before; without a prompt the agent takes up its work where that stopped. `gate_rules`:
    each by itself."""

    prompt: str = ""
    gate: tuple[str, ...] = ()
    min_tests: Annotated[int, Field(ge=0, le=10**9)] | None = None
    gate_rules: GateRules | None = None
    setup: tuple[str, ...] = ()
    model: Model = ""
    budget: Budget | None = None
    deadline_ms: Annotated[int, Field(gt=0, le=MAX_DEADLINE_MS)] | None = None


def told(record: TaskRecord) -> dict[str, Any]:
    """Without the session's checkpoint: whoever has its digest could ask for the session by that."""
    return {name: value for name, value in asdict(record).items() if name != "checkpoint"}


def accepted(handle: Handle, caller: Caller, response: Response) -> Accepted:
    response.status_code = HTTPStatus.OK if handle.existing else HTTPStatus.CREATED
    response.headers["Location"] = f"{prefix_of(caller.muster.settings)}/v1/tasks/{handle.task_id}"
    return Accepted(task_id=handle.task_id, trace_id=handle.trace_id, existing=handle.existing)


@router.post("/tasks", status_code=201)
async def submit_task(task: NewTask, caller: Submitter, response: Response, key: IdempotencyKey = "") -> Accepted:
    """Hand over one task. When this answers, it will have exactly one result."""
    if task.pool == DRIVERS or task.agent in DRIVER_NAMES:
        hint = "see POST /v1/goals, /v1/fanouts and /v1/batches"
        raise BadInput("goals, fan-outs and batches are not submitted as tasks", hint=hint)
    workspace = reachable(task.workspace, caller)
    if task.resume_token:
        await caller.record(task.resume_token)
    fields: TaskFields = {
        **task.model_dump(exclude_none=True, include={"agent", "prompt", "deadline_ms", "pool", "params", "model"}),  # pyright: ignore[reportAssignmentType]
        "workspace": workspace,
        "budget": task.budget,
        "output_schema": task.output_schema,
        "context_refs": task.context_refs,
        "attachments": task.attachments,
        "priority": task.priority,
        "resume_token": task.resume_token,
        "idempotency_key": key,
        "tenant": caller.tenant,
        "asks": AskTerms(),
    }
    if task.auth_scope is not None:
        fields["auth_scope"] = task.auth_scope
    return accepted(await caller.muster.submit(**fields), caller, response)


@router.post("/goals", status_code=201)
async def submit_goal(goal: NewGoal, caller: Submitter, response: Response, key: IdempotencyKey = "") -> Accepted:
    """Give an agent a goal, and prove its change by the gate, if one is named."""
    return accepted(await give_goal(caller, goal, key), caller, response)


async def give_goal(caller: Caller, goal: NewGoal, key: str) -> Handle:
    """Submit it under the caller's name and tenant, with a workspace that the caller may reach."""
    fields = {name: getattr(goal, name) for name in NewGoal.model_fields}
    fields["workspace"] = reachable(goal.workspace, caller)
    request = await caller.muster.goal(
        **fields,
        idempotency_key=key,
        sender=caller.name,
        tenant=caller.tenant,
    )
    return await caller.muster.submit(request)


def reachable(workspace: Workspace | None, caller: Caller) -> Workspace | None:
    """The workspace as a caller over the network may have it: no folder of the server, no repository's settings
    trusted, and for who sees one tenant no key of the workers' and no host of their own network."""
    if workspace is None:
        return None
    if workspace.path is not None:
        raise BadInput("workspace.path names a folder of the workers' host", hint="send a bundle, or name a URL")
    if workspace.trusted:
        raise BadInput("workspace.trusted is set by `muster trust` alone", hint="leave it out")
    if workspace.url is None or caller.seen_tenant is None:
        return workspace
    if not workspace.url.startswith("https://"):
        hint = "by ssh it would come with the workers' own keys: send a bundle, or have a token of tenant * submit it"
        raise BadInput("workspace.url is no https:// address", hint=hint)
    return workspace.model_copy(update={"public": True})


@router.get("/tasks")
async def list_tasks(
    caller: Viewer,
    response: Response,
    trace: Annotated[str, Query(description="Of this trace; else the latest roots.")] = "",
    state: Annotated[tuple[State, ...], Query(description="In one of these states; else in any.")] = (),
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
    cursor: Annotated[str, Query(description="Go on where an earlier page ended: its `Next-Cursor` header.")] = "",
) -> list[dict[str, Any]]:
    """The caller's tasks: a trace's in order of submission, else the latest roots first, page by page.

    The header `Next-Cursor` says that there is more; a page may be short, or empty, and yet have one.
    """
    if trace:
        found = [task for task in await caller.trace(trace) if not state or task.state in state]
        return [told(task) for task in found[:limit]]
    page = await caller.muster.roots(tenant=caller.seen_tenant, states=state, after=cursor, limit=limit)
    if page.cursor:
        response.headers[NEXT] = page.cursor
    return [told(task) for task in page.records]


@router.get("/tasks/{task_id}")
async def show_task(task_id: str, caller: Viewer) -> Task:
    """A task as it is now; with its result once it has ended."""
    record = await caller.record(task_id)
    return Task(record=told(record), result=await caller.muster.result(task_id))


@router.get("/tasks/{task_id}/tree", response_model=dict[str, Any])
async def show_tree(task_id: str, caller: Viewer) -> Response:
    """The tasks of this one's trace as they are now, folded from its events."""
    record = await caller.record(task_id)
    return told_at_once(tree_as_json(await caller.muster.tree(record.trace_id), record.trace_id))


@router.get("/tasks/{task_id}/cost", response_model=dict[str, Any])
async def show_cost(task_id: str, caller: Viewer) -> Response:
    """What this one's trace has cost, by model and by agent, beside its cap."""
    record = await caller.record(task_id)
    return told_at_once(cost_as_json(await caller.muster.cost(record.trace_id)))


@router.get("/tasks/{task_id}/plan")
async def show_plans(task_id: str, caller: Viewer) -> dict[str, Plan]:
    """How far the plan is, by the task that keeps it; of a goal also those of the tasks below it."""
    await caller.record(task_id)
    return await caller.muster.plans(task_id)


@router.post("/tasks/{task_id}/replan")
async def replan_task(task_id: str, wish: Wish, caller: Submitter) -> Stopped:
    """Have the rest of a goal planned again; how many of its steps that were under way are stopped for that."""
    await caller.record(task_id)
    return Stopped(stopped=len(await caller.muster.replan(task_id, wish.reason, by=caller.name)))


@router.get("/tasks/{task_id}/diff", response_class=Response)
async def show_diff(task_id: str, caller: Viewer) -> Response:
    """The change as git reads it; empty when there is none. 409 while the task is under way."""
    result = await _ended(task_id, caller)
    return Response(await caller.muster.diff(result.task_id), media_type="text/x-diff")


@router.get("/tasks/{task_id}/attachments/{name:path}", response_class=Response)
async def show_attachment(task_id: str, name: str, caller: Viewer) -> Response:
    """An artefact of a result. Always as a download: what an agent made is shown by nobody's browser."""
    result = await _ended(task_id, caller)
    content = await caller.muster.attachment(result, name)
    headers = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type="application/octet-stream", headers=headers)


async def _ended(task_id: str, caller: Caller) -> TaskResult:
    await caller.record(task_id)
    result = await caller.muster.result(task_id)
    if result is None:
        raise Problem(HTTPStatus.CONFLICT, f"the task {task_id} has not ended yet", hint="follow its trace's events")
    return result


@router.post("/tasks/{task_id}/cancel")
async def cancel_task(task_id: str, stop: Stop, caller: Submitter) -> Stopped:
    """Stop a task and everything below it."""
    await caller.record(task_id)
    return Stopped(stopped=await caller.muster.cancel(task_id, stop.reason, by=caller.name))


@router.post("/tasks/{task_id}/prompt", status_code=201)
async def prompt_task(task_id: str, words: Words, caller: Submitter, response: Response) -> Accepted:
    """Say something to the task's session; the task that answers."""
    await caller.record(task_id)
    return accepted(await caller.muster.prompt(task_id, words.text, by=caller.name), caller, response)


@router.post("/tasks/{task_id}/background")
async def background_task(task_id: str, caller: Submitter) -> Background:
    """Let the caller of a subagent go on without it: it hears of its end later. 422 where nobody waits for it."""
    await caller.record(task_id)
    await caller.muster.background(task_id)
    return Background()


@router.post("/tasks/{task_id}/resume", status_code=201)
async def resume_task(task_id: str, more: GoOn, caller: Submitter, response: Response) -> Accepted:
    """Go on, in a new task, with the session of one that has ended: a goal where one began it. 409 while it runs."""
    await caller.record(task_id)
    said = {name: getattr(more, name) for name in GoOn.model_fields}
    return accepted(await caller.muster.resume(task_id, **said), caller, response)
