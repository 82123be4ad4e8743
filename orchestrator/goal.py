"""The driver of one goal: an agent does it, the platform proves it."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

from envelope.errors import ErrorCode
from envelope.ids import content_key
from envelope.lifecycle import State
from envelope.messages import Attachment, ErrorInfo, PatchRef, TaskResult
from repo.merge import merge_patches
from repo.mirror import Mirror

from .driver import Driver, Work, completed, ended_with
from .errors import BadInput
from .gate import Gate, Judgement, Run, judge, read_run
from .repositories import as_shard, attach_bundle, fetch_mirror, tree_of
from .submit import GoalParams, task_request

BUNDLE_NAME = "change.bundle"
TITLE_CHARS = 72  # git's custom for the first line of a commit


@dataclass(frozen=True, slots=True)
class Landed:
    """The agent's patch as a commit of ours on the base."""

    mirror: Mirror
    commit: str
    tree: str


async def drive_goal(driver: Driver) -> TaskResult:
    """Run the agent and, beside it, the gate on the base; then the gate on the agent's change."""
    request = driver.request
    params = GoalParams.model_validate(request.input.params)
    gate = _gate(driver, params)
    answer, before = await _ask(driver, params, gate)
    told = {"provenance": answer.provenance, "patch": answer.patch}
    if not completed(answer):
        return ended_with(driver, *_errors_of(answer), output=answer.output, attachments=answer.attachments, **told)
    patch = answer.patch if answer.patch and answer.patch.files else None
    landed = await _land(driver, patch)
    attachments = (*answer.attachments, *await _bundled(driver, landed))
    judgement, after = await _judge(driver, params, gate, before, patch, landed)
    structured = _structured(answer, judgement, before, after, landed)
    output = answer.output.model_copy(update={"structured": structured})
    failed = gate is not None and patch is not None and not judgement.verified
    errors = [ErrorInfo.of(ErrorCode.GATE_FAILED, judgement.reason, judgement.hint)] if failed else []
    return ended_with(driver, *errors, output=output, attachments=attachments, **told)


def _errors_of(answer: TaskResult) -> tuple[ErrorInfo, ...]:
    """A cancelled or expired agent need not say why; its driver, which lives on, must."""
    code = {State.CANCELLED: ErrorCode.CANCELLED, State.EXPIRED: ErrorCode.DEADLINE}.get(answer.status)
    silent = ErrorInfo.of(code or ErrorCode.INTERNAL, f"the agent's task ended as {answer.status}")
    return answer.errors or (silent,)


def _gate(driver: Driver, params: GoalParams) -> Gate | None:
    if not params.gate:
        return None
    workspace = driver.request.workspace
    if workspace is None:
        raise BadInput("a gate needs a repository to run in", hint="name one with --repo")
    if workspace.changes is not None:
        raise BadInput("a gate needs a commit as its base, not uncommitted changes", hint="commit them first")
    return Gate(driver.request, params.gate, workspace)


async def _ask(driver: Driver, params: GoalParams, gate: Gate | None) -> tuple[TaskResult, Run | None]:
    """The agent's result and the gate's on the base. Whichever makes the other pointless ends both."""
    works = [_agent_work(driver, params), *([gate.before(deadline_ms=driver.remaining_ms)] if gate else [])]
    answer: TaskResult | None = None
    before: Run | None = None
    async with aclosing(driver.run(works)) as endings:
        async for ended in endings:
            if ended.work is not works[0]:
                before = read_run(ended.result)
                await driver.report(before.verdict("before"))
                continue
            answer = ended.result
            if not completed(answer):
                break
    assert answer is not None  # `run` ends after every work has
    return answer, before


def _agent_work(driver: Driver, params: GoalParams) -> Work:
    request = driver.request
    child = task_request(
        parent=request,
        agent=params.agent,
        pool=params.pool,
        prompt=request.input.prompt,
        workspace=request.workspace,
        auth_scope=params.auth_scope,
        budget=request.budget,
        deadline_ms=driver.remaining_ms,
        idempotency_key=content_key("goal", request.task_id),
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


async def _land(driver: Driver, patch: PatchRef | None) -> Landed | None:
    """The patch is applied again here: the tree that counts is git's, not the one that a worker names."""
    workspace = driver.request.workspace
    if patch is None or workspace is None or workspace.bundle is None or workspace.changes is not None:
        return None
    blobs = driver.transport.blobs
    mirror = await fetch_mirror(blobs, driver.office.cache_dir, bundle_ref=workspace.bundle, base=workspace.base)
    shard = await as_shard(blobs, "change", _title(driver.request.input.prompt), patch)
    merged = await merge_patches(mirror, workspace.base, [shard])
    if merged.collisions:
        raise BadInput(f"the agent's patch does not apply to its own base: {merged.collisions[0].detail}")
    return Landed(mirror, merged.commit, await tree_of(mirror, merged.commit))


async def _bundled(driver: Driver, landed: Landed | None) -> tuple[Attachment, ...]:
    if landed is None:
        return ()
    return (await attach_bundle(landed.mirror, driver.transport.blobs, landed.commit, BUNDLE_NAME),)


async def _judge(
    driver: Driver,
    params: GoalParams,
    gate: Gate | None,
    before: Run | None,
    patch: PatchRef | None,
    landed: Landed | None,
) -> tuple[Judgement, Run | None]:
    if gate is None or before is None:
        return Judgement(False, "no gate is configured"), None
    if patch is None:
        return Judgement(False, "nothing was changed, so there is nothing to verify"), None
    after: Run | None = None
    async for ended in driver.run([gate.after(patch.diff, deadline_ms=driver.remaining_ms)]):
        after = read_run(ended.result)
        await driver.report(after.verdict("after"))
    assert after is not None
    judgement = judge(before, after, tree=landed.tree if landed else patch.tree, min_tests=params.min_tests)
    driver.office.metrics.count_verdict(verified=judgement.verified)
    return judgement, after


def _structured(
    answer: TaskResult, judgement: Judgement, before: Run | None, after: Run | None, landed: Landed | None
) -> dict[str, object]:
    """For programs: `verified`, why not, the gate's two verdicts, and the agent's own structured answer."""
    return {
        "verified": judgement.verified,
        "reason": judgement.reason,
        "gate": {
            "before": before.verdict("before").model_dump(mode="json") if before else None,
            "after": after.verdict("after").model_dump(mode="json") if after else None,
        },
        "commit": landed.commit if landed else None,
        "agent_task_id": answer.task_id,
        "answer": answer.output.structured,
    }
