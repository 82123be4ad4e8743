"""Subagents: tasks of their own, through the queue, with no more than their caller has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envelope.budget import Budget, Metrics
from envelope.deadline import remaining_ms
from envelope.errors import ErrorCode, ScopeExceeded
from envelope.events import ChildEnded, ChildSpawned
from envelope.ids import content_key, new_task_id
from envelope.messages import ErrorInfo, TaskInput, TaskRequest, TaskResult, Workspace
from envelope.pattern import match
from envelope.scope import Scope, allows, narrow, split
from repo.errors import PatchRefused
from transport.base import Transport
from transport.errors import QueueFull, Refused

from .agents.base import Agent
from .attempt import Attempt
from .tools.base import ChildRequest
from .tools.errors import ToolError

# A caller needs time to make something of what its subagents found: they get nine tenths of what it has left.
DEADLINE_SHARE = 0.9
# Any number of subagents draw on the trace's budget; one alone never takes more than half of its caller's rest.
BUDGET_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class QueuedChildren:
    """See `Children`. `agents` are all that this worker knows; the catalogue holds those that the scope lets start."""

    transport: Transport
    attempt: Attempt
    agents: Mapping[str, Agent]
    tool_names: tuple[str, ...]

    def catalogue(self) -> Mapping[str, str]:
        return {
            agent.name: agent.description
            for agent in self.agents.values()
            if agent.mode in ("subagent", "all")
            and not agent.hidden
            and allows(self.attempt.request.auth_scope, "task", agent.name)
        }

    async def run(self, request: ChildRequest) -> TaskResult:
        """The child's result, its patch applied here; a collision is one more error in it."""
        report = self.attempt.reporter.report
        child = await self._request(request)
        try:
            [handle] = await self.transport.submit([child])
        except (Refused, QueueFull, ScopeExceeded) as e:
            raise ToolError(f"the subagent was not started: {e}") from e
        report(ChildSpawned(child_task_id=handle.task_id, agent=request.agent, title=request.description))
        result = await self._result(handle.task_id)
        error = str(result.errors[0].code) if result.errors else ""
        report(
            ChildEnded(
                child_task_id=handle.task_id,
                state=result.status,
                reused=handle.existing,
                cost_microusd=result.metrics.cost_microusd,
                error=error,
            )
        )
        return await self._take_in(result)

    async def _result(self, task_id: str) -> TaskResult:
        async for result in self.transport.results([task_id]):
            return result
        raise ToolError("the subagent left no result")

    async def _request(self, child: ChildRequest) -> TaskRequest:
        parent, agent = self.attempt.request, self.agents[child.agent]
        now_ms = await self.transport.now_ms()
        left_ms = remaining_ms(self.attempt.claim.expires_at_ms, now_ms=now_ms)
        return TaskRequest(
            task_id=new_task_id(now_ms=now_ms),
            trace_id=parent.trace_id,
            parent_task_id=parent.task_id,
            traceparent=parent.traceparent,
            sender=f"{parent.recipient}/{parent.agent}",
            recipient=agent.pool,
            agent=agent.name,
            intent=child.description[:100],
            input=TaskInput(prompt=child.prompt),
            workspace=await self._workspace(parent.workspace),
            auth_scope=child_scope(parent.auth_scope, agent.auth_scope, self.tool_names),
            budget=child_budget(parent.budget, self.attempt.reporter.totals.metrics),
            deadline_ms=max(1, int(left_ms * DEADLINE_SHARE)),
            # a call's id alone is not enough: some providers count them from 0 in every turn
            idempotency_key=content_key(parent.task_id, child.call_id, child.agent, child.prompt),
            priority=parent.priority,
            tenant=parent.tenant,
            model=agent.model or parent.model,
            batch_id=parent.batch_id,
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
        if result.errors or result.patch is None or not result.patch.files:
            return result
        try:
            await self.attempt.sandbox.apply(await self.transport.blobs.get(result.patch.diff))
        except PatchRefused as e:
            paths = ", ".join(file.path for file in result.patch.files)
            message = f"the subagent's change of {paths} collides with what was changed here meanwhile: {e}"
            collision = ErrorInfo.of(ErrorCode.COLLISION, message, "make the change yourself, or ask again")
            return result.model_copy(update={"errors": (*result.errors, collision)})
        return result


def child_scope(caller: Scope, wanted: Scope | None, tool_names: tuple[str, ...]) -> Scope:
    """What a subagent may do: the part of `wanted` that its caller holds (None: all of it), without `task`.

    Of two overlapping grants neither of which covers the other, nothing is kept: less than asked, never more.
    """
    kept = caller if wanted is None else (*_within(caller, wanted), *_within(wanted, caller))
    return tuple(dict.fromkeys(plain for grant in kept for plain in _without_task(grant, tool_names)))


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


def _within(outer: Scope, grants: Scope) -> Scope:
    """The grants that `outer` covers."""
    return tuple(grant for grant in grants if _covered(outer, grant))


def _covered(outer: Scope, grant: str) -> bool:
    try:
        narrow(outer, (grant,))
    except ScopeExceeded:
        return False
    return True


def _without_task(grant: str, tool_names: tuple[str, ...]) -> Scope:
    """The grant, if it is not for `task`; one for many tools becomes one for each of the others that it names."""
    tool, pattern = split(grant)
    if not match(tool, "task"):
        return (grant,)
    return tuple(f"{name}:{pattern}" for name in tool_names if name != "task" and match(tool, name))
