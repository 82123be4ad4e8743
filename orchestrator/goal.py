"""The driver of one goal: an agent does it, the platform proves it."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

from envelope.agent_params import AgentParams
from envelope.errors import CODES, ErrorCode
from envelope.ids import content_key
from envelope.lifecycle import State
from envelope.messages import Attachment, ErrorInfo, PatchRef, TaskResult
from repo.merge import merge_patches
from repo.mirror import Mirror

from .driver import Driver, Work, completed, ended_with
from .errors import BadInput, TaskFailed
from .gate import NO_GATE, Gate, Proof
from .judgement import Judgement, Run
from .repositories import as_changeset, attach_bundle
from .submit import GoalParams, GoalStep, params_of, task_request

BUNDLE_NAME = "change.bundle"
CARRY_OUT = (
    "Your plan was approved; carry it out now. You are the engineer who makes the change: your workspace can be"
    " written, you may edit files and run commands, and what was said above of planning only no longer holds. Read a"
    " file before you change it, make the smallest change that does the job, run the tests that cover it, and report"
    " what you changed, how you checked it, and what you did not do."
)
TITLE_CHARS = 72  # git's custom for the first line of a commit
NO_CHANGE = Judgement(False, "nothing was changed, so there is nothing to verify")


@dataclass(frozen=True, slots=True)
class Committed:
    """The agent's patch as a commit of ours on the base."""

    mirror: Mirror
    commit: str
    tree: str


async def drive_goal(driver: Driver) -> TaskResult:
    """Run the agent and, beside it, the gate on the base; then the gate on the agent's change."""
    request = driver.request
    params = params_of(GoalParams, request)
    gate = _gate(driver, params)
    answer, before = await _ask(driver, params, gate)
    if after := _step_after(params, answer):
        answer = await _carried_out(driver, after, answer)
    if not completed(answer):
        return _passed_on(driver, answer)
    patch = answer.patch if answer.patch and answer.patch.files else None
    committed = await _commit(driver, patch)
    attachments = (*answer.attachments, *await _bundled(driver, committed))
    proof = await _prove(gate, before, patch, committed)
    output = answer.output.model_copy(update={"structured": _structured(answer, proof, committed)})
    judgement = proof.judgement
    failed = gate is not None and patch is not None and not judgement.verified
    errors = [ErrorInfo.of(ErrorCode.GATE_FAILED, judgement.reason, judgement.hint)] if failed else []
    return ended_with(
        driver, *errors, output=output, attachments=attachments, provenance=answer.provenance, patch=answer.patch
    )


def _passed_on(driver: Driver, answer: TaskResult) -> TaskResult:
    """A cancelled or expired agent need not say why; its driver, which lives on, must."""
    said_by_state = (code for code, info in CODES.items() if info.state is answer.status is not State.ERROR)
    silent = ErrorInfo.of(next(said_by_state, ErrorCode.INTERNAL), f"the agent's task ended as {answer.status}")
    return ended_with(
        driver,
        *(answer.errors or (silent,)),
        output=answer.output,
        attachments=answer.attachments,
        provenance=answer.provenance,
        patch=answer.patch,
    )


def _gate(driver: Driver, params: GoalParams) -> Gate | None:
    if not params.gate:
        return None
    workspace = driver.request.workspace
    if workspace is None:
        raise BadInput("a gate needs a repository to run in", hint="name one with --repo")
    if workspace.changes is not None:
        raise BadInput("a gate needs a commit as its base, not uncommitted changes", hint="commit them first")
    return Gate(driver, params.gate, workspace, params.min_tests)


async def _ask(driver: Driver, params: GoalParams, gate: Gate | None) -> tuple[TaskResult, Run | None]:
    """The agent's result and the gate's on the base. Whichever makes the other pointless ends both."""
    works = [_agent_work(driver, params), *([gate.before()] if gate else [])]
    answer: TaskResult | None = None
    before: Run | None = None
    async with aclosing(driver.run(works)) as endings:
        async for ended in endings:
            if gate is not None and ended.work is not works[0]:
                before = await gate.read("before", ended.result)
                continue
            answer = ended.result
            if not completed(answer):
                break
    assert answer is not None  # `run` ends after every work has
    return answer, before


def _step_after(params: GoalParams, answer: TaskResult) -> GoalStep | None:
    """Who goes on in the agent's session, when a person has approved its plan."""
    then = params.then
    return then if then is not None and completed(answer) and answer.next_agent == then.agent else None


async def _carried_out(driver: Driver, step: GoalStep, plan: TaskResult) -> TaskResult:
    async with aclosing(driver.run([_agent_work(driver, step, plan)])) as endings:
        async for ended in endings:
            return ended.result
    raise AssertionError("`run` ends after every work has")


def _agent_work(driver: Driver, step: GoalStep, plan: TaskResult | None = None) -> Work:
    request = driver.request
    is_recorded = params_of(GoalParams, request).record
    child = task_request(
        parent=request,
        agent=step.agent,
        pool=step.pool,
        prompt=CARRY_OUT if plan else request.input.prompt,
        params=AgentParams(record=True).model_dump() if is_recorded else {},
        resume_token=plan.resume_token if plan else "",
        workspace=request.workspace,
        auth_scope=step.auth_scope,
        budget=request.budget,
        deadline_ms=driver.remaining_ms,
        idempotency_key=content_key("goal", request.task_id, *([plan.task_id] if plan else [])),
        model=request.model,
        output_schema=request.output_schema,
        context_refs=request.context_refs,
        attachments=request.attachments,
        priority=request.priority,
        sender=request.agent,
    )
    return Work("agent", child, _title(request.input.prompt))


def _title(prompt: str) -> str:
    return (prompt.strip().splitlines() or [""])[0][:TITLE_CHARS]


async def _commit(driver: Driver, patch: PatchRef | None) -> Committed | None:
    """The patch is applied again here: the tree that counts is git's, not the one that a worker names."""
    workspace = driver.request.workspace
    if patch is None or workspace is None or workspace.bundle is None or workspace.changes is not None:
        return None
    blobs = driver.transport.blobs
    mirror = await driver.mirror(workspace.bundle, workspace.base)
    changeset = await as_changeset(blobs, "change", _title(driver.request.input.prompt), patch)
    merged = await merge_patches(mirror, workspace.base, [changeset])
    if merged.collisions:
        why = f"the agent's patch does not apply to its own base: {merged.collisions[0].detail}"
        raise TaskFailed(ErrorInfo.of(ErrorCode.INTERNAL, why))
    return Committed(mirror, merged.commit, await mirror.tree(merged.commit))


async def _bundled(driver: Driver, committed: Committed | None) -> tuple[Attachment, ...]:
    if committed is None:
        return ()
    return (await attach_bundle(committed.mirror, driver.transport.blobs, committed.commit, BUNDLE_NAME),)


async def _prove(gate: Gate | None, before: Run | None, patch: PatchRef | None, committed: Committed | None) -> Proof:
    if gate is None or before is None:
        return NO_GATE
    if patch is None:
        return Proof(NO_CHANGE, before.verdict("before"))
    return await gate.prove(before, changes=patch.diff, tree=committed.tree if committed else patch.tree)


def _structured(answer: TaskResult, proof: Proof, committed: Committed | None) -> dict[str, object]:
    """For programs: `verified`, why not, the gate's two verdicts, and the agent's own structured answer."""
    return {
        "verified": proof.judgement.verified,
        "reason": proof.judgement.reason,
        "gate": {
            "before": proof.before.model_dump(mode="json") if proof.before else None,
            "after": proof.after.model_dump(mode="json") if proof.after else None,
        },
        "commit": committed.commit if committed else None,
        "agent_task_id": answer.task_id,
        "answer": answer.output.structured,
    }
