"""See what there is, and fetch what came of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from envelope.budget import MICROUSD_PER_USD
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskResult
from transport.base import TaskRecord

from ...errors import UnderWay
from ...pages import Wanted, page_of
from ...submit import DRIVERS
from ...words import reason_text
from ..text import DATA, Page, bounded, line, page, shown
from ..tool import Call, Said

# A minute is what clients, and proxies between, wait for an answer without another word.
MAX_WAIT_S = 60
MAX_WORKING = 20
MAX_FILES = 100

TaskId = Annotated[str, Field(pattern=r"^[0-9a-f-]{1,36}$", description="As the tool that started it returned it.")]
Offset = Annotated[int, Field(ge=0, le=10**9, description="Where to go on: `next_offset` of an earlier page.")]


class Nothing(Said): ...


class WhichTasks(Said):
    state: Annotated[
        Literal["", "pending", "running", "waiting", "completed", "error", "cancelled", "expired"],
        Field(description="Only those in this state; empty: all."),
    ] = ""
    limit: Annotated[int, Field(ge=1, le=50, description="How many on a page.")] = 20
    cursor: Annotated[str, Field(max_length=200, description="Where to go on: `cursor` of an earlier page.")] = ""


class WhichTask(Said):
    task_id: TaskId


class WhichResult(WhichTask):
    wait_s: Annotated[
        int, Field(ge=0, le=MAX_WAIT_S, description="How long to wait for its end; call again to wait longer.")
    ] = 0
    offset: Offset = 0


class WhichDiff(WhichTask):
    offset: Offset = 0


class Agent(BaseModel):
    name: str
    about: str
    reads_only: bool
    for_goals: bool  # else for fan_out


class Agents(BaseModel):
    note: str = DATA
    agents: list[Agent]


class TaskLine(BaseModel):
    task_id: str
    agent: str
    state: str
    goal: str


class Tasks(BaseModel):
    """`cursor`: what to ask for the next page with; empty at the end."""

    note: str = DATA
    tasks: list[TaskLine]
    cursor: str


class Working(BaseModel):
    task_id: str
    agent: str
    title: str
    turn: int
    doing: str


class Status(BaseModel):
    """`tasks`: how many of its trace are in which state. `asks`: ids of questions that wait for a person."""

    note: str = DATA
    task_id: str
    trace_id: str
    agent: str
    state: str
    why: str
    goal: str
    spent_usd: float
    tasks: dict[str, int]
    working: list[Working]
    asks: list[str]
    next: str


class Fault(BaseModel):
    code: str
    message: str
    hint: str


class Outcome(BaseModel):
    """`verified` is said by the platform alone, of goals and batches: their gate passed. `done` is the agent's word."""

    note: str = DATA
    task_id: str
    state: str
    ended: bool
    done: bool = False
    verified: bool | None = None
    errors: list[Fault] = []
    answer: Page | None = None
    structured: Any = None
    files: list[str] = []
    added: int = 0
    removed: int = 0
    cost_usd: float = 0
    next: str


class Diff(BaseModel):
    note: str = DATA
    task_id: str
    diff: Page
    next: str = "to take the change: `muster task apply` with this task_id, or GET /v1/tasks/{task_id}/diff"


async def list_agents(call: Call, said: Nothing) -> Agents:
    """Who can be asked for: the fleet's agents, what each is for, and whether it only reads."""
    cards = sorted(await call.caller.muster.agents(), key=lambda card: card.name)
    shown_cards = [card for card in cards if not card.hidden and card.mode in ("primary", "subagent", "all")]
    return Agents(
        agents=[
            Agent(
                name=card.name,
                about=line(card.description),
                reads_only=not any(grant.startswith("edit:") for grant in card.auth_scope),
                for_goals=card.mode != "subagent",
            )
            for card in shown_cards
        ]
    )


async def list_tasks(call: Call, said: WhichTasks) -> Tasks:
    """The latest goals, batches and fan-outs that you may see, newest first, page by page."""
    states = (State(said.state),) if said.state else ()
    wanted = Wanted(call.caller.seen_tenant, states, lambda record: not record.batch_id)  # no shards
    found = await page_of(call.caller.muster.transport, wanted, after=said.cursor, limit=said.limit)
    return Tasks(tasks=[_line(record) for record in found.records], cursor=found.cursor)


async def task_status(call: Call, said: WhichTask) -> Status:
    """How far a task is: its state, what its agents do now, what it has cost, and which questions wait for a person."""
    caller = call.caller
    record = await caller.record(said.task_id)
    session = await caller.muster.tree(record.trace_id)
    funds = await caller.muster.budget(record.trace_id)
    views = list(session.tasks.values())
    working = [view for view in views if view.state is State.RUNNING][:MAX_WORKING]
    asks = [ask_id for view in views if not view.ended for ask_id in view.asks]
    own = session.tasks.get(record.task_id)
    return Status(
        task_id=record.task_id,
        trace_id=record.trace_id,
        agent=record.agent,
        state=str(record.state),
        why=shown(reason_text(own.reason)) if own else "",
        goal=line(record.intent),
        spent_usd=funds.ledger.spent_microusd / MICROUSD_PER_USD,
        tasks=dict(Counter(str(view.state) for view in views)),
        working=[
            Working(
                task_id=view.task_id,
                agent=view.agent,
                title=line(view.title),
                turn=view.turn,
                doing=line(f"{tool.tool} {tool.title}") if (tool := view.current_tool) else "thinking",
            )
            for view in working
        ],
        asks=asks,
        next=_next(record, asks),
    )


async def task_result(call: Call, said: WhichResult) -> Outcome:
    """What a task came to: its answer, whether it is done and verified, which files it changed, what it cost.

    Waits up to `wait_s` seconds (60 at most) for its end. One that goes on says so with `ended: false`; call again.
    """
    caller = call.caller
    await caller.record(said.task_id)
    result = await caller.muster.result(said.task_id)
    if result is None and said.wait_s:
        async with call.waits.one(caller.name):
            result = await _end_of(call, said.task_id, said.wait_s)
    record = await caller.record(said.task_id)
    if result is None:
        return Outcome(
            task_id=said.task_id,
            state=str(record.state),
            ended=False,
            next="it is still running: call task_result again with wait_s, or task_status to see what it does",
        )
    return await _outcome(call, record, result, said.offset)


async def task_diff(call: Call, said: WhichDiff) -> Diff:
    """The change that a task made, as a diff to read, page by page. Empty when it changed nothing."""
    caller = call.caller
    await caller.record(said.task_id)
    if await caller.muster.result(said.task_id) is None:
        raise UnderWay(f"the task {said.task_id} has not ended yet", hint="wait for it: task_result with wait_s")
    diff = await caller.muster.diff(said.task_id)
    return Diff(task_id=said.task_id, diff=page(diff.decode(errors="replace"), said.offset))


async def _end_of(call: Call, task_id: str, wait_s: int) -> TaskResult | None:
    try:
        async with asyncio.timeout(wait_s), aclosing(call.caller.muster.results([task_id])) as results:
            return await anext(results)
    except TimeoutError:
        return None


async def _outcome(call: Call, record: TaskRecord, result: TaskResult, offset: int) -> Outcome:
    muster = call.caller.muster
    # what a driver says is the platform's word; what stands in an agent's result is a model's
    is_platforms = record.pool == DRIVERS
    structured: dict[str, Any] = result.output.structured or {}
    funds = await muster.budget(record.trace_id)
    patch = result.patch
    files = [f"{file.status} {line(file.path)}" for file in patch.files] if patch else []
    return Outcome(
        task_id=record.task_id,
        state=str(result.status),
        ended=True,
        done=result.status is State.COMPLETED,
        verified=structured.get("verified") is True if is_platforms and "verified" in structured else None,
        errors=[_fault(error) for error in result.errors],
        answer=page(await muster.answer(result), offset),
        structured=bounded(structured) or None,
        files=[*files[:MAX_FILES], *([f"… {len(files) - MAX_FILES} more"] if len(files) > MAX_FILES else [])],
        added=patch.added if patch else 0,
        removed=patch.removed if patch else 0,
        cost_usd=funds.ledger.spent_microusd / MICROUSD_PER_USD,
        next="see the change with task_diff" if files else "nothing was changed",
    )


def _fault(error: ErrorInfo) -> Fault:
    return Fault(code=str(error.code), message=line(error.message, 2_000), hint=line(error.hint, 2_000))


def _line(record: TaskRecord) -> TaskLine:
    return TaskLine(task_id=record.task_id, agent=record.agent, state=str(record.state), goal=line(record.intent))


def _next(record: TaskRecord, asks: list[str]) -> str:
    if record.finished_at_ms is not None:
        return "it has ended: call task_result"
    if asks:
        return "a person must answer: see list_asks, and tell your user"
    return "call task_result with wait_s to wait for its end"
