"""Subagents: tasks of their own, through the queue, with no more than their caller has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envelope.budget import Budget, Metrics
from envelope.deadline import remaining_ms
from envelope.errors import ErrorCode, ScopeExceeded
from envelope.events import ChildEnded, ChildSpawned
from envelope.ids import content_key, new_task_id
from envelope.messages import ErrorInfo, PatchRef, TaskInput, TaskRequest, TaskResult, Workspace
from envelope.pattern import match
from envelope.scope import Scope, common, split
from envelope.tracing.spans import link_attempt
from repo.errors import PatchRefused, RepoError
from sandbox.errors import SandboxError, SandboxLost
from transport.base import Transport
from transport.errors import Busy, NotFound, QueueFull, Refused
from transport.outbox import Outbox

from ..agents.base import Agent
from ..delivery.attempt import Attempt, session_of
from ..delivery.failures import OUTAGES, error_info
from ..permissions.guard import Denied
from ..tools.base import ChildRequest, Target
from ..tools.errors import ToolError
from .inheritance import handed_down
from .room import Room

# Waiting this long costs less than to give the sandbox back and open another: who has not ended by then has its caller
# parked.
PARK_AFTER_S = 2.0
# A caller needs time to make something of what its subagents found: they get nine tenths of what it has left.
DEADLINE_SHARE = 0.9
# Any number of subagents draw on the trace's budget; one alone never takes more than half of its caller's rest.
BUDGET_SHARE = 0.5
OR_NEW = "use the id that an answer of task names, or leave task_id out to start a new one"
ADDED = "The agent that started you adds:"


@dataclass(frozen=True, slots=True)
class QueuedChildren:
    """See `Children`. `agents` are all that this worker knows; the catalogue holds those that the scope lets start."""

    transport: Transport
    outbox: Outbox
    attempt: Attempt
    agents: Mapping[str, Agent]
    tool_names: tuple[str, ...]
    room: Room
    levels: int  # of subagents that may be below this task
    park_after_s: float = PARK_AFTER_S

    def catalogue(self) -> Mapping[str, str]:
        return {
            agent.name: agent.description
            for agent in self.agents.values()
            if agent.mode in ("subagent", "all")
            and not agent.hidden
            and self.levels > 0
            and not isinstance(self.attempt.guard.judge([Target("task", agent.name)]), Denied)
        }

    def in_background(self, agent: str) -> bool:
        return self.agents[agent].in_background

    async def start(self, request: ChildRequest) -> str:
        """Waits for room among the trace's children; `ToolError` tells the model why not, and what to do."""
        if request.session:
            await self._require_own(request.session)
        await self.room.take()
        child = await self._request(request)
        try:
            [handle] = await self.outbox.submit([child], under=self.attempt.claim.lease)
        except Busy as e:
            raise ToolError(f"it still works: {e}; with background: true your prompt is passed on to it") from e
        except (Refused, QueueFull, ScopeExceeded, NotFound) as e:
            hint = f"; {OR_NEW}" if request.session else ""
            raise ToolError(f"the subagent was not started: {e}{hint}") from e
        spawned = ChildSpawned(
            child_task_id=handle.task_id,
            agent=request.agent,
            title=request.description,
            background=request.in_background,
        )
        self.attempt.reporter.report(spawned)
        return handle.task_id

    async def tell(self, session: str, text: str) -> bool:
        await self._require_own(session)
        caller = self.attempt.request
        try:
            # said by whom, for a word that begins with a slash is a command where a person says it
            await self.transport.prompt(session, f"{ADDED}\n{text}", by=f"{caller.recipient}/{caller.agent}")
        except NotFound:  # it has ended
            return False
        except QueueFull as e:
            raise ToolError(f"it was not told: {e}; {e.hint}") from e
        return True

    async def _require_own(self, session: str) -> None:
        if not await self._is_own(session):
            raise ToolError(f"you have started no subagent with the id {session!r}; {OR_NEW}")

    async def _is_own(self, session: str) -> bool:
        """A model can name any session of the fleet; its own are those that this session's tasks have started."""
        try:
            opened = await self.transport.request(session)
            caller = await self.transport.request(opened.parent_task_id or "")
        except NotFound:
            return False
        return session_of(caller) == session_of(self.attempt.request)

    async def sent_to_background(self, task_ids: Sequence[str]) -> Sequence[str]:
        own = await self.transport.record(self.attempt.request.task_id)
        return [task_id for task_id in task_ids if task_id in own.background]

    async def ended(self, task_ids: Sequence[str]) -> Mapping[str, TaskResult]:
        return {result.task_id: await self._take_in(result) for result in await self._soon(task_ids)}

    async def ended_by_now(self, task_ids: Sequence[str]) -> Mapping[str, TaskResult]:
        known = await asyncio.gather(*map(self._result, task_ids))
        return {result.task_id: await self._take_in(result) for result in known if result is not None}

    async def _result(self, task_id: str) -> TaskResult | None:
        try:
            return await self.transport.result(task_id)
        except NotFound:  # the server has forgotten it
            await self.outbox.submit_forgotten([task_id])
            return None

    async def _soon(self, task_ids: Sequence[str]) -> list[TaskResult]:
        """Results in the order in which they came, within `park_after_s`."""
        came: list[TaskResult] = []
        try:
            async with asyncio.timeout(self.park_after_s):
                async for result in self.outbox.results(task_ids):
                    came.append(result)  # noqa: PERF401  a comprehension would lose them when the time is over
        except TimeoutError:
            pass  # the others take long
        return came

    async def _request(self, child: ChildRequest) -> TaskRequest:
        parent, agent = self.attempt.request, self.agents[child.agent]
        metrics = self.attempt.reporter.totals.metrics
        told = handed_down(self.attempt.guard, self.attempt.agent, self.levels)
        now_ms = await self.transport.now_ms()
        left_ms = remaining_ms(self.attempt.claim.expires_at_ms, now_ms=now_ms)
        return TaskRequest(
            task_id=new_task_id(now_ms=now_ms),
            trace_id=parent.trace_id,
            parent_task_id=parent.task_id,
            sender=f"{parent.recipient}/{parent.agent}",
            recipient=agent.pool,
            agent=agent.name,
            intent=child.description[:100],
            input=TaskInput(prompt=child.prompt, params=told.model_dump(mode="json", exclude_defaults=True)),
            workspace=await self._workspace(parent.workspace),
            auth_scope=child_scope(parent.auth_scope, agent.auth_scope, self.tool_names, levels=self.levels - 1),
            budget=child_budget(parent.budget, metrics),
            deadline_ms=max(1, int(left_ms * DEADLINE_SHARE)),
            # a call's id alone is not enough: some providers count them from 0 in every turn
            idempotency_key=content_key(
                parent.task_id, str(metrics.turns), child.call_id, child.agent, child.prompt, child.session
            ),
            resume_token=child.session,
            priority=parent.priority,
            tenant=parent.tenant,
            model=agent.model or parent.model,
            batch_id=parent.batch_id,
            asks=parent.asks,
            read_only=parent.read_only,
            created_at_ms=now_ms,
        )

    async def _workspace(self, workspace: Workspace | None) -> Workspace | None:
        """The caller's workspace as it is now: its request's changes, and its own on top of them."""
        if workspace is None:
            return None
        # git applies one diff after the other from the same input, also to a file that stands in both
        diff = (await self.attempt.sandbox.prepared()).request_diff + await self.attempt.sandbox.work_diff()
        changes = await self.transport.blobs.put(diff) if diff else None
        return workspace.model_copy(update={"changes": changes})

    async def _take_in(self, result: TaskResult) -> TaskResult:
        """The result, its patch applied here."""
        error = str(result.errors[0].code) if result.errors else ""
        cost_microusd = result.metrics.cost_microusd
        link_attempt(result.task_id, result.attempt, result.trace_id)
        self.attempt.reporter.report(
            ChildEnded(child_task_id=result.task_id, state=result.status, cost_microusd=cost_microusd, error=error)
        )
        if result.errors or result.patch is None or not result.patch.files:
            return result
        diff = await self.transport.blobs.get(result.patch.diff)
        try:
            await self.attempt.sandbox.apply(diff)
        except (SandboxLost, *OUTAGES):
            raise
        except (SandboxError, RepoError) as e:
            return result.model_copy(update={"errors": (*result.errors, _not_taken_in(result.patch, e))})
        return result


def _not_taken_in(patch: PatchRef, error: SandboxError | RepoError) -> ErrorInfo:
    if not isinstance(error, PatchRefused):
        return error_info(error)
    paths = ", ".join(file.path for file in patch.files)
    message = f"the subagent's change of {paths} collides with what was changed here meanwhile: {error}"
    return ErrorInfo.of(ErrorCode.COLLISION, message, "make the change yourself, or ask again")


def child_scope(caller: Scope, wanted: Scope | None, tool_names: tuple[str, ...], *, levels: int = 0) -> Scope:
    """What a subagent may do: the part of `wanted` that its caller holds (None: all of it).

    With `task` only where some levels of subagents may be below it.

    Of two overlapping grants neither of which covers the other, nothing is kept: less than asked, never more.
    """
    kept = caller if wanted is None else common(wanted, caller)
    if levels < 1:
        kept = (plain for grant in kept for plain in _without_task(grant, tool_names))
    return tuple(dict.fromkeys(kept))


def child_budget(caller: Budget, spent: Metrics) -> Budget:
    """Half of what the caller has left of money and tokens; turns and calls are counted for each task anew."""
    cost, tokens = caller.max_cost_microusd, caller.max_tokens
    return caller.model_copy(
        update={
            "max_cost_microusd": None if cost is None else _share(cost - spent.cost_microusd),
            "max_tokens": None if tokens is None else _share(tokens - spent.usage.total_tokens),
        }
    )


def _share(left: int) -> int:
    return max(0, int(left * BUDGET_SHARE))


def _without_task(grant: str, tool_names: tuple[str, ...]) -> Scope:
    """The grant, if it is not for `task`; one for many tools becomes one for each of the others that it names."""
    tool, pattern = split(grant)
    if not match(tool, "task"):
        return (grant,)
    return tuple(f"{name}:{pattern}" for name in tool_names if name != "task" and match(tool, name))
