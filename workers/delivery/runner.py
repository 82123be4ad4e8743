"""One delivery in, one TaskResult out; the only place where an exception becomes an error code."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from envelope.deadline import remaining_ms
from envelope.errors import ErrorCode
from envelope.events import WarningRaised
from envelope.logs import get_logger
from envelope.messages import NOT_AT_ALL, Attachment, ErrorInfo, Output, Provenance, TaskRequest, TaskResult
from envelope.scope import allows, narrow, offers
from sandbox.base import Limits, Sandbox, SandboxDriver
from sandbox.errors import SandboxLost
from transport.base import Claim, Transport
from transport.consumer import Again, Delivery, Ending, Pause, StopReason
from transport.errors import Fenced, Unreachable
from transport.watchdog import watched_steps

from ..acp.task import EngineTasks
from ..agent_task.attachments import furnish
from ..agent_task.task import AgentTasks
from ..agents.base import Agent
from ..agents.layers import Known
from ..agents.project import ProjectAgents
from ..kit import Kit
from ..metrics import WorkerMetrics
from ..permissions.guard import Guard
from ..recipes.task import run_recipe_task
from ..sandboxes.egress_log import EgressLog
from ..sandboxes.of_task import Furnished, TaskSandbox
from ..sandboxes.permits import CommandPermits
from ..sandboxes.turns import Turns
from ..sandboxes.workspace import Prepared, Workspaces
from ..subagents.inheritance import as_its_caller, guard_of
from .artifacts import attached
from .attempt import Attempt, resume_token
from .failures import again, code_of, error_info, told_by_cause
from .provenance import provenance_of
from .reporter import Reporter
from .results import TaskOutcome, out_of_scope, result_of, store_patch, store_refused, that_travels
from .unserved import refuse_unserved

# After its deadline a task has this long to be ended by its worker (a large patch takes a minute to collect on a busy
# machine); then the sandbox ends itself.
LIFETIME_GRACE_S = 300

STOPPED: Mapping[StopReason, tuple[ErrorCode, str]] = {
    StopReason.CANCELLED: (ErrorCode.CANCELLED, "the task was cancelled"),
    StopReason.EXPIRED: (ErrorCode.DEADLINE, "the deadline has passed"),
}

BroughtAlong = tuple[tuple[Provenance, ...], tuple[Attachment, ...]]

log = get_logger("runner")


@dataclass(frozen=True, slots=True)
class Runner:
    transport: Transport
    driver: SandboxDriver
    workspaces: Workspaces
    agents: ProjectAgents
    agent_tasks: AgentTasks
    metrics: WorkerMetrics
    turns: Turns
    permits: CommandPermits

    async def handle(self, delivery: Delivery) -> Ending | Pause | Again:
        """See `transport.consumer.Handler`. Raises only for a lost lease, a lost store, and a drain."""
        observers = (self.metrics.observer(delivery.request.agent, delivery.request.trace_id),)
        async with Reporter(self.transport, delivery.claim.lease, observers=observers) as reporter:
            outcome = await self._handle(delivery, reporter)
            if isinstance(outcome, TaskResult):
                return await reporter.ending(await that_travels(outcome, self.transport.blobs))
            await reporter.flush()
        return outcome

    async def _handle(self, delivery: Delivery, reporter: Reporter) -> TaskResult | Pause | Again:
        started_s = time.monotonic()
        try:
            with watched_steps():  # here, so that the result has its costs
                async with told_by_cause(self.driver):
                    outcome = await self._work(delivery, reporter)
        except (Fenced, Unreachable) as e:
            if outage := again(e, retries=delivery.claim.retries):
                return outage
            raise
        except asyncio.CancelledError:
            if (stopped := _stopped(delivery, reporter)) is None:
                raise
            outcome = stopped
        except Exception as e:  # whatever happens, the task has one result; what was not foreseen is logged whole
            if outage := again(e, retries=delivery.claim.retries):
                return outage
            if isinstance(e, SandboxLost):
                self.metrics.lost_sandbox()
            foreseen = code_of(e) is not ErrorCode.INTERNAL
            log.info("task_failed", task_id=delivery.request.task_id, error=str(e), exc_info=None if foreseen else e)
            outcome = _failed(delivery, reporter, e)
        return _timed(outcome, delivery.claim, started_s) if isinstance(outcome, TaskResult) else outcome

    async def _work(self, delivery: Delivery, reporter: Reporter) -> TaskResult | Pause:
        request, claim = delivery.request, delivery.claim
        self.workspaces.credentials.require_lent(request)
        known = await self._known(request)
        agent = as_its_caller(known.named(request.agent), request)
        refuse_unserved(request, agent)
        self.workspaces.credentials.require_known(request.auth_scope)
        await self._check_scope(request)
        guard = guard_of(request, agent)

        async def prepare() -> Prepared:
            return await self._prepare(request, claim, agent, guard, EgressLog(request.task_id, reporter.report))

        async def furnish_it(sandbox: Sandbox) -> Furnished:
            return await furnish(sandbox, request.attachments, self.transport.blobs)

        lender = self.turns.lender(request, agent)
        permit = partial(self.permits.permit, request.task_id)
        async with TaskSandbox(lender, prepare, self.metrics.count_sandbox, furnish_it, permit) as sandbox:
            attempt = Attempt(claim, request, agent, guard, sandbox, reporter, lambda: delivery.stop_reason in STOPPED)
            _tell_faults(attempt, known)
            outcome = await _done(attempt, replace(self.agent_tasks.kit, agents=known.agents))
            return outcome if isinstance(outcome, Pause) else await self._with_patch(attempt, outcome)

    async def _with_patch(self, attempt: Attempt, outcome: TaskOutcome) -> TaskResult:
        """The result with what the work changed; paths outside of the `edit` grants end it as an error."""
        scope, metrics = attempt.request.auth_scope, attempt.reporter.totals.metrics
        provenance, artifacts = await self._brought_along(attempt, outcome)
        patch = None
        if attempt.agent.returns_patch:
            patch = await attempt.sandbox.patch(lambda path: allows(scope, "edit", path))
        if patch is None:
            return result_of(attempt.claim, outcome, metrics=metrics, attachments=artifacts, provenance=provenance)
        for warning in patch.warnings:
            attempt.reporter.report(WarningRaised(message=warning))
        return result_of(
            attempt.claim,
            replace(outcome, errors=(*out_of_scope(patch), *outcome.errors)),
            metrics=metrics,
            patch=None if patch.empty else await store_patch(self.transport.blobs, patch),
            attachments=(*await store_refused(self.transport.blobs, patch), *artifacts),
            provenance=provenance,
        )

    async def _known(self, request: TaskRequest) -> Known:
        """The agents of this worker and of the repository, which takes no name of a recipe: gates need not look."""
        own = self.agents.own.agents.get(request.agent)
        is_recipe = own is not None and own.mode == "recipe"
        return self.agents.own if is_recipe else await self.agents.of(request.workspace)

    async def _brought_along(self, attempt: Attempt, outcome: TaskOutcome) -> BroughtAlong:
        """What a result holds beside its answer and its patch."""

        def warn(message: str) -> None:
            attempt.reporter.report(WarningRaised(message=message))

        is_recipe, sandbox = attempt.agent.mode == "recipe", attempt.sandbox.current
        places = () if is_recipe else await provenance_of(attempt, outcome.output.text, warn)
        return places, () if sandbox is None else await attached(sandbox, self.transport.blobs, warn)

    async def _check_scope(self, request: TaskRequest) -> None:
        """The queue has checked this at submit; whoever runs the task trusts the signature, and counts again."""
        if request.parent_task_id is not None:
            parent = await self.transport.request(request.parent_task_id)
            narrow(parent.auth_scope, request.auth_scope)

    async def _prepare(
        self, request: TaskRequest, claim: Claim, agent: Agent, guard: Guard, egress: EgressLog
    ) -> Prepared:
        left_ms = remaining_ms(claim.expires_at_ms, now_ms=await self.transport.now_ms())
        limits = Limits(lifetime_s=left_ms // 1000 + LIFETIME_GRACE_S)
        # Recipes run what a person wrote, which may need to write: tests do, and a gate has no grant to edit. Their
        # patch is checked against the grants. Not so what strangers sent, which comes without a person's trust.
        is_looking = request.workspace is not None and request.workspace.trusted == NOT_AT_ALL
        read_only = guard.bans("edit") and (agent.mode != "recipe" or is_looking)
        labels = {"task": request.task_id, "trace": request.trace_id, "attempt": str(claim.lease.attempt)}
        return await self.workspaces.prepare(
            request.workspace,
            read_only=read_only,
            limits=limits,
            labels=labels,
            scope=request.auth_scope,
            tell=egress.tell,
        )


async def _done(attempt: Attempt, kit: Kit) -> TaskOutcome | Pause:
    """By whoever leads such an agent's session: nobody, a program of others, our own loop."""
    if attempt.agent.mode == "recipe":
        return await run_recipe_task(attempt)
    if attempt.agent.engine == "acp":
        return await EngineTasks(kit).run(attempt)
    return await AgentTasks(kit).run(attempt)


def _tell_faults(attempt: Attempt, known: Known) -> None:
    """What is wrong with agent files, once, to whom it concerns: who runs such an agent or may start one."""
    if attempt.claim.checkpoint is not None:
        return
    may_start = offers(attempt.request.auth_scope, "task")
    for fault in known.faults:
        if may_start or fault.name == attempt.agent.name:
            attempt.reporter.report(WarningRaised(message=f"{fault.path}: {fault.message}", hint=fault.hint))


def _stopped(delivery: Delivery, reporter: Reporter) -> TaskResult | None:
    """What there is of a task that was stopped from outside; None when its end is not ours to tell."""
    if delivery.stop_reason is None or delivery.stop_reason not in STOPPED:
        return None
    code, words = STOPPED[delivery.stop_reason]
    error = ErrorInfo.of(code, delivery.stop_detail or words)
    text = Output(text=reporter.totals.partial_output)
    token = resume_token(delivery.claim, delivery.request, reporter)
    return result_of(delivery.claim, TaskOutcome(text, (error,), resume_token=token), metrics=reporter.totals.metrics)


def _failed(delivery: Delivery, reporter: Reporter, error: Exception) -> TaskResult:
    token = resume_token(delivery.claim, delivery.request, reporter)
    outcome = TaskOutcome(errors=(error_info(error),), resume_token=token)
    return result_of(delivery.claim, outcome, metrics=reporter.totals.metrics)


def _timed(result: TaskResult, claim: Claim, started_s: float) -> TaskResult:
    """How long it waited for its first start, and how long it took from there, waiting and other attempts included."""
    first_ms = claim.first_started_at_ms or claim.started_at_ms
    own_ms = round((time.monotonic() - started_s) * 1000)
    times = {
        "latency_ms": max(0, claim.started_at_ms - first_ms) + own_ms,
        "queue_ms": max(0, first_ms - claim.accepted_at_ms),
    }
    return result.model_copy(update={"metrics": result.metrics.model_copy(update=times)})
