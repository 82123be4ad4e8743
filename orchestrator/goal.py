"""The driver of one goal: an agent does it, the platform proves it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial

from envelope.agent_params import AgentParams
from envelope.errors import CODES, ErrorCode
from envelope.lifecycle import State
from envelope.messages import Attachment, ErrorInfo, Output, PatchRef, TaskResult
from envelope.tracing.names import COLLISIONS, MERGE, PATCHES
from envelope.tracing.spans import span
from repo.merge import merge_patches
from repo.mirror import Mirror
from transport.errors import Busy

from .driver import Driver, Work, completed, ended_with
from .errors import BadInput, TaskFailed
from .gate import Gate
from .gating.granted import within_scope
from .gating.run import Run
from .goal_session import history_before, proved_already, verified_base
from .goal_work import agent_work, title_of
from .hidden import Judged, behind
from .judgement import Judgement
from .planner.drive import drive_plan
from .planner.lead import Lead
from .planner.modes import PlanMode
from .repositories import as_changeset, attach_bundle
from .submit import GoalParams, GoalStep, SessionChange, params_of
from .trial import NO_GATE, Proof, prove, refused

BUNDLE_NAME = "change.bundle"
NO_CHANGE = Judgement(False, "nothing was changed, so there is nothing to verify")
TAKEN_OUT = Judgement(False, "all that the session had changed was taken out again: nothing is left to verify")


@dataclass(frozen=True, slots=True)
class Committed:
    """The agent's patch as a commit of ours on the base."""

    mirror: Mirror
    commit: str
    tree: str


async def drive_goal(driver: Driver) -> TaskResult:
    """Run the gate on the base, then the agent, then the gate on the agent's change.

    The agent begins when the gate is known to run: without it nothing could be proved of what it is paid for. Of hidden
    tests there is no run while an agent could look.
    """
    request = driver.request
    params = params_of(GoalParams, request)
    gate = _gate(driver, params)
    before = await gate.base() if gate and params.hidden is None else None
    if gate and before and (refusal := gate.refusal(before)):
        return _refused(driver, refused(before, refusal))
    asked, history = await _ask_in_turn(driver, params)
    answer, lead = asked.answer, asked.lead
    if after := _step_after(params, answer):
        answer = await _carried_out(driver, after, answer)
    while completed(answer):
        patch, restored = await within_scope(driver, answer.patch)
        committed = await _commit(driver, patch)
        if restored:  # what counts is what is handed over
            tree = {"tree": committed.tree} if committed else {}
            answer = answer.model_copy(update={"patch": patch and patch.model_copy(update=tree)})
        before = before or (await gate.base() if gate else None)
        judged = Judged(patch.diff, committed.tree if committed else patch.tree) if patch else None
        if judged and params.hidden:
            judged = await behind(driver, params.hidden, judged.diff)
        proof = await _prove(driver, params, gate, before, history, judged, restored)
        is_lost = patch is not None and not proof.after
        failed = gate is not None and (proof.evidence.result == "rejected" or is_lost)
        if failed and lead is not None and await lead.again(_why_not(proof)):
            answer = await lead.result()
            continue
        return await _concluded(driver, answer, committed, proof, failed=failed)
    return _passed_on(driver, answer)


def _refused(driver: Driver, proof: Proof) -> TaskResult:
    assert proof.failure is not None
    return ended_with(driver, proof.failure, output=Output(structured=_structured(driver, None, proof, None)))


async def _concluded(
    driver: Driver, answer: TaskResult, committed: Committed | None, proof: Proof, *, failed: bool
) -> TaskResult:
    judgement = proof.judgement
    return ended_with(
        driver,
        *([ErrorInfo.of(ErrorCode.GATE_FAILED, judgement.reason, judgement.hint)] if failed else []),
        output=answer.output.model_copy(update={"structured": _structured(driver, answer, proof, committed)}),
        attachments=(*answer.attachments, *await _bundled(driver, committed)),
        provenance=answer.provenance,
        patch=answer.patch,
    )


def _why_not(proof: Proof) -> str:
    seen = f"\n{proof.after.detail}" if proof.after and proof.after.detail else ""
    return f"All steps were done, but their work together is not acceptable: {proof.judgement.reason}{seen}"


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
    if params.hidden is not None:
        workspace = workspace.model_copy(update={**params.hidden.model_dump(), "trusted": ""})
    return Gate(
        driver,
        params.gate,
        workspace,
        params.min_tests,
        rules=params.gate_rules,
        scope=driver.request.auth_scope,
        needs_base=params.hidden is None,
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """The agent's result. `lead`: who may have more done, where a plan leads."""

    answer: TaskResult
    lead: Lead | None = None


async def _ask_in_turn(driver: Driver, params: GoalParams) -> tuple[Asked, tuple[SessionChange, ...] | None]:
    """As `_ask`; in a session that goes on, once all others are done there. And its history until then, if known."""
    while params.session:
        history = await history_before(driver, params)
        with suppress(Busy):  # somebody was quicker
            return await _ask(driver, params), history
    return await _ask(driver, params), ()


async def _ask(driver: Driver, params: GoalParams) -> Asked:
    if params.plan is not PlanMode.NONE:
        if params.hidden is not None:
            raise BadInput("the gate's hidden tests would be told to the agents of a plan", hint="leave the plan out")
        return Asked(*await drive_plan(driver, params))
    return Asked(
        await _done(driver, agent_work(driver, params, told=params.subagent or AgentParams(), session=params.session))
    )


def _step_after(params: GoalParams, answer: TaskResult) -> GoalStep | None:
    """Who goes on in the agent's session, when a person has approved its plan."""
    then = params.then
    return then if then is not None and completed(answer) and answer.next_agent == then.agent else None


async def _carried_out(driver: Driver, step: GoalStep, plan: TaskResult) -> TaskResult:
    return await _done(driver, agent_work(driver, step, plan=plan))


async def _done(driver: Driver, work: Work) -> TaskResult:
    async with aclosing(driver.run([work])) as endings:
        async for ended in endings:
            return ended.result
    raise AssertionError("`run` ends after every work has")


async def _commit(driver: Driver, patch: PatchRef | None) -> Committed | None:
    """The patch is applied again here: the tree that counts is git's, not the one that a worker names."""
    workspace = driver.request.workspace
    if patch is None or workspace is None or workspace.bundle is None or workspace.changes is not None:
        return None
    blobs = driver.transport.blobs
    mirror = await driver.mirror(workspace.bundle, workspace.base)
    changeset = await as_changeset(
        blobs, "change", title_of(driver.request.input.prompt or driver.request.intent), patch
    )
    with span(MERGE, {PATCHES: 1}) as merging:
        merged = await merge_patches(mirror, workspace.base, [changeset])
        merging.set({COLLISIONS: len(merged.collisions)})
    if merged.collisions:
        why = f"the agent's patch does not apply to its own base: {merged.collisions[0].detail}"
        raise TaskFailed(ErrorInfo.of(ErrorCode.INTERNAL, why))
    return Committed(mirror, merged.commit, await mirror.tree(merged.commit))


async def _bundled(driver: Driver, committed: Committed | None) -> tuple[Attachment, ...]:
    if committed is None:
        return ()
    return (await attach_bundle(committed.mirror, driver.transport.blobs, committed.commit, BUNDLE_NAME),)


async def _prove(
    driver: Driver,
    params: GoalParams,
    gate: Gate | None,
    before: Run | None,
    history: Sequence[SessionChange] | None,
    judged: Judged | None,
    restored: Sequence[str],
) -> Proof:
    """`before`: the gate's run on the base. `history`: of the session before this prompt, None where it is not
    known."""
    if gate is None or before is None:
        return Proof(Judgement(False, params.ungated)) if params.ungated else NO_GATE
    if judged is None and not any(change.verified for change in history or ()):
        return Proof(NO_CHANGE, before.verdict("before"))
    if judged and not restored and (known := await proved_already(driver, gate, history or (), judged)):
        return known
    tree = judged.tree if judged else before.tree
    proof = await prove(
        gate,
        before,
        changes=judged.diff if judged else None,
        tree=tree,
        restored=restored,
        verified_base=partial(verified_base, driver, gate, history, tree),
    )
    if judged is None and proof.judgement.verified:  # the base was, which is nobody's work
        return replace(proof, judgement=TAKEN_OUT, evidence=proof.evidence.model_copy(update={"result": "done"}))
    return proof


def _structured(
    driver: Driver, answer: TaskResult | None, proof: Proof, committed: Committed | None
) -> dict[str, object]:
    """For programs: `verified`, why not, the gate's two verdicts, and the agent's own structured answer (None: no agent
    was asked).

    `hidden`: the commit with hidden tests that the gate was run on, where there are some.
    """
    hidden = params_of(GoalParams, driver.request).hidden
    return {
        **({"hidden": hidden.base} if hidden else {}),
        "verified": proof.judgement.verified,
        "reason": proof.judgement.reason,
        "gate": {
            "before": proof.before.model_dump(mode="json") if proof.before else None,
            "after": proof.after.model_dump(mode="json") if proof.after else None,
        },
        "evidence": proof.evidence.model_dump(mode="json"),
        "commit": committed.commit if committed else None,
        "agent_task_id": answer.task_id if answer else None,
        "answer": answer.output.structured if answer else None,
    }
