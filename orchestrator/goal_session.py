"""A goal that goes on with a session: when it is its turn there, and what of the session was verified before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from envelope.events import GateVerdict, WarningRaised
from envelope.gate import GateEvidence
from envelope.messages import TaskRequest
from repo.cover import commit_with
from repo.errors import PatchRefused
from repo.patch import patch_between
from transport.errors import NotFound

from .driver import Driver
from .gate import Gate
from .gating.run import Run
from .gating.text import excused_text, told_by_driver
from .hidden import Judged, behind
from .judgement import Judgement, read_run
from .resume import terms_of
from .submit import GoalParams, SessionChange, is_goal, params_of
from .trial import LAST, Proof, VerifiedBase

UNCHANGED = "nothing was changed"
ON_BASE_ALONE = "compared with the session's base alone"
LOST = f"{ON_BASE_ALONE}, since the work was taken back to the middle of a prompt"
GONE = f"{ON_BASE_ALONE}, since {LAST} is no longer kept"


async def history_before(driver: Driver, params: GoalParams) -> tuple[SessionChange, ...] | None:
    """What the goal's session had changed at the end of each prompt so far, once nobody else is at work in it: neither
    an agent, nor a gate that proves what one has left. None where that is not known any more."""
    transport = driver.transport
    while True:
        try:
            last = await transport.request(await transport.session_task(params.session))
        except NotFound:
            return params.history
        if last.trace_id == driver.request.trace_id or last.tenant != driver.request.tenant:
            return params.history  # an attempt before this one has begun already
        terms = await terms_of(transport, last)
        is_copy = bool(last.input.params.get("fork_of"))  # of another session, which goes on beside this one
        at_work = {last.task_id, *([terms.goal.task_id] if terms.goal and not is_copy else [])}
        under_way = [task_id for task_id in at_work if await transport.result(task_id) is None]
        if not under_way:
            if terms.is_lost:
                await driver.report(WarningRaised(message=LOST))
                return None
            return terms.history if terms.goal else params.history
        await driver.report(WarningRaised(message=f"it waits for the task {under_way[0]}, which has the session"))
        async for _ in transport.results(under_way):
            pass


async def proved_already(driver: Driver, gate: Gate, history: Sequence[SessionChange], judged: Judged) -> Proof | None:
    """The proof of a prompt that has changed nothing of what was verified last, with the same gate; else None."""
    if not (stood := await _stood(driver, gate, history)) or stood.goal is None or stood.run is None:
        return None
    before, now = params_of(GoalParams, stood.goal), params_of(GoalParams, driver.request)
    is_same = (before.min_tests, before.gate_rules) == (now.min_tests, now.gate_rules)
    if stood.run.tree != judged.tree or not is_same or stood.goal.auth_scope != driver.request.auth_scope:
        return None
    evidence = GateEvidence.model_validate(stood.told.get("evidence") or {})
    notes = [note for note in evidence.notes if not note.startswith(UNCHANGED)]
    notes.append(f"{UNCHANGED} since the task {stood.goal.task_id}, whose gate is this one: it was not run again")
    before, after = [
        told and GateVerdict.model_validate(told) for told in map(stood.told["gate"].get, ("before", "after"))
    ]
    said = str(stood.told.get("reason") or "") or excused_text(after.failed if after else 0)
    return Proof(Judgement(True, said), before, after, evidence.model_copy(update={"notes": tuple(notes)}))


async def verified_base(
    driver: Driver, gate: Gate, history: Sequence[SessionChange] | None, tree: str
) -> VerifiedBase | str | None:
    """What was verified last, as a base for what is judged, which is `tree`; None where there is nothing, else why it
    cannot be one."""
    if history is None:
        return LOST
    try:
        stood = await _stood(driver, gate, history)
        if stood is None:
            return None
        where = stood.gate.workspace
        assert where.changes is not None
        diff = await driver.transport.blobs.get(where.changes)
        if where.bundle is None:  # nobody here can read its files: the runs are compared
            run = stood.run or await stood.gate.run("before", stood.gate.before(), LAST)
            return None if run.tree == tree else VerifiedBase(stood.gate, run, b"")
        mirror = await driver.mirror(where.bundle, where.base)
        onto = await commit_with(mirror, where.base, diff)
        since = await patch_between(mirror, onto, tree)
        if since.empty:
            return None
        on = replace(stood.gate, onto=onto)
        run = stood.run or await on.run("before", on.before(), LAST)
        return VerifiedBase(on, run, since.diff)
    except NotFound:
        return GONE
    except PatchRefused as e:
        return f"{ON_BASE_ALONE}: {LAST} does not apply: {e}"


@dataclass(frozen=True, slots=True)
class _Stood:
    """`gate` with what was verified last as its workspace's changes; `run`: what it saw there, as far as that is known.
    `goal`, and what its driver `told`: while they are kept."""

    gate: Gate
    run: Run | None
    goal: TaskRequest | None
    told: dict[str, Any]


async def _stood(driver: Driver, gate: Gate, history: Sequence[SessionChange]) -> _Stood | None:
    workspace, hidden = driver.request.workspace, params_of(GoalParams, driver.request).hidden
    known = (one for one in reversed(history) if one.verified and workspace and one.base == workspace.base)
    last = next(known, None)
    if last is None:
        return None
    diff = last.diff
    if hidden is not None:
        carried = await behind(driver, hidden, last.diff)
        if carried is None:
            return None
        diff = carried.diff
    on = replace(gate, workspace=gate.workspace.model_copy(update={"changes": diff}))
    try:
        goal, result = await driver.transport.request(last.goal), await driver.transport.result(last.goal)
    except NotFound:
        return _Stood(on, None, None, {})
    told = told_by_driver(result) if result else {}
    if not is_goal(goal) or goal.tenant != driver.request.tenant or told.get("verified") is not True:
        return None  # a history that nobody's goals have made
    return _Stood(on, await _known_run(driver, on, told), goal, told)


async def _known_run(driver: Driver, gate: Gate, told: dict[str, Any]) -> Run | None:
    """What a goal's gate saw after its change; None where `gate` asks for something else, or it is not kept."""
    wanted = gate.before().request
    try:
        task_id = GateVerdict.model_validate(told["gate"]["after"]).task_id
        asked, result = await driver.transport.request(task_id), await driver.transport.result(task_id)
    except (NotFound, ValidationError, KeyError, TypeError):
        return None
    if result is None or (asked.agent, asked.tenant) != (wanted.agent, wanted.tenant):
        return None
    is_same = asked.workspace == wanted.workspace and asked.input.params == wanted.input.params
    return read_run(result) if is_same else None
