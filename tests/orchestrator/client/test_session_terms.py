"""A task that goes on with a session has the terms of its last goal, but for what is said. Played by hand."""

from __future__ import annotations

from typing import Any

import pytest

from envelope.agents import AgentCard, WorkerCard
from envelope.budget import Budget
from envelope.gate import GateRules
from envelope.ids import blob_ref, new_task_id
from envelope.lifecycle import State
from envelope.messages import Output, PatchRef, TaskRequest, TaskResult, Workspace
from orchestrator.errors import BadInput
from orchestrator.prompting import listener, session_of
from orchestrator.resume import FORGOTTEN, MAX_HISTORY, NO_GOAL, ON_OTHERS, WITHOUT, terms_of, why_unproved
from orchestrator.submit import DRIVERS, GoalParams, goal_request, params_of, task_request
from transport.base import Lease
from transport.errors import Busy, NotFound, Refused

BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))
FIELDS = {"agent": "build", "pool": "build", "deadline_ms": 60_000, "auth_scope": BUILD.auth_scope}
WHERE = Workspace(bundle=blob_ref(b"bundle"), base="0" * 40, setup=("pip install -e .",))
GATE = ("run-tests",)
CHANGE = PatchRef(base=WHERE.base, diff=blob_ref(b"diff"), tree="1" * 40)


async def claimed(stage, pool: str) -> Lease:
    [claim] = await stage.transport.claim(pool, "w", slots=1, wait_s=5)
    return claim.lease


async def end(stage, lease: Lease, **fields: Any) -> None:
    named = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
    await stage.transport.finish(lease, TaskResult(**{"status": State.COMPLETED, **named, **fields}))


async def worked_on(
    stage,
    goal: TaskRequest,
    *,
    ends: bool = True,
    patch: PatchRef = CHANGE,
    verified: bool = True,
    **child: Any,
) -> TaskRequest:
    """A goal's agent opens its session, or goes on with it; `ends`: and both are done, the gate has passed."""
    driver = await claimed(stage, DRIVERS)
    assert driver.task_id == goal.task_id
    token = params_of(GoalParams, goal).session
    fields = {**FIELDS, "prompt": goal.input.prompt, "workspace": goal.workspace, "sender": "run", **child}
    fields |= {"auth_scope": params_of(GoalParams, goal).auth_scope, "model": goal.model}
    agent = task_request(parent=goal, resume_token=token, **fields)
    await stage.transport.submit([agent], under=driver)
    lease = await claimed(stage, "build")
    await stage.transport.checkpoint(lease, await stage.transport.blobs.put(b"a session"))
    if ends:
        await end(stage, lease)
        verified = verified and bool(params_of(GoalParams, goal).gate)
        await end(stage, driver, patch=patch, output=Output(structured={"verified": verified}))
    return agent


async def begun(stage, *, ends: bool = True, child: dict[str, Any] | None = None, **fields: Any) -> TaskRequest:
    told = {"gate": GATE, "workspace": WHERE, **fields}
    goal = goal_request("Begin", agent=BUILD, settings=stage.muster.settings, **told)
    await stage.muster.submit(goal)
    await worked_on(stage, goal, ends=ends, **(child or {}))
    return goal


async def plain(stage, **fields: Any) -> str:
    """An agent's task of no goal, as programs submit it; its id."""
    handle = await stage.muster.submit(**{**FIELDS, "prompt": "work", "workspace": WHERE, **fields})
    lease = await claimed(stage, "build")
    await stage.transport.checkpoint(lease, await stage.transport.blobs.put(b"a session"))
    await end(stage, lease, output=Output(structured={"verified": True}), patch=CHANGE)
    return handle.task_id


async def gone_on(stage, task_id: str, **said: Any) -> TaskRequest:
    return await stage.muster.request((await stage.muster.resume(task_id, "More", **said)).task_id)


async def test_options_override_what_is_inherited_each_by_itself(any_stage):
    first = await begun(any_stage, gate_rules=GateRules(reruns=0, flaky="reject"), min_tests=2)
    said = {"gate_rules": GateRules(reruns=2), "setup": ["pip install ."], "deadline_ms": 99_000, "min_tests": 9}

    request = await gone_on(any_stage, first.task_id, model="other", budget=Budget(max_cost_microusd=1), **said)

    params = params_of(GoalParams, request)
    assert (params.gate, params.min_tests) == (GATE, 9)
    assert (params.gate_rules.reruns, params.gate_rules.flaky) == (2, "reject")
    assert request.workspace == WHERE.model_copy(update={"setup": ("pip install .",)})
    assert (request.model, request.budget, request.deadline_ms) == ("other", Budget(max_cost_microusd=1), 99_000)


async def test_what_was_said_of_one_prompt_holds_for_the_next(any_stage):
    first = await begun(any_stage)
    grant = "webfetch:https://x.example/**"
    said = {"setup": ["pip install ."], "model": "other", "allow": (grant,), "gate": ["other-tests"]}
    await worked_on(any_stage, await gone_on(any_stage, first.task_id, **said))

    request = await gone_on(any_stage, first.task_id)

    params = params_of(GoalParams, request)
    assert (request.workspace.setup, request.model, params.gate) == (("pip install .",), "other", ("other-tests",))
    assert params.auth_scope == (*BUILD.auth_scope, grant)
    assert [params.history[0].goal, len(params.history)] == [first.task_id, 2]


async def test_why_there_is_no_gate_is_known(any_stage):
    without = await begun(any_stage, gate=())
    on_others = await begun(any_stage, child={"workspace": WHERE.model_copy(update={"changes": blob_ref(b"")})})
    forgotten = await plain(any_stage, params={"goal": new_task_id()})

    own = await plain(any_stage)

    reasons = [
        why_unproved(await gone_on(any_stage, task_id))
        for task_id in (without.task_id, on_others.task_id, forgotten, own)
    ]

    assert reasons == [WITHOUT, ON_OTHERS, FORGOTTEN, NO_GOAL]
    assert why_unproved(await gone_on(any_stage, without.task_id, gate=GATE)) == ""


async def test_nothing_is_inherited_from_another_tenant(any_stage):
    theirs = await begun(any_stage, tenant="theirs")
    mine = await plain(any_stage, params={"goal": theirs.task_id}, tenant="mine")

    request = await gone_on(any_stage, mine)

    assert (request.agent, request.tenant, request.input.params) == ("build", "mine", {})
    agent = await listener(any_stage.transport, theirs.task_id)
    with pytest.raises(NotFound):
        await any_stage.muster.goal("More", session=session_of(agent), near=agent.trace_id, tenant="mine")


async def test_an_agent_that_calls_itself_verified_is_not_believed(any_stage):
    first = await begun(any_stage, gate=())
    agent = await listener(any_stage.transport, first.task_id)
    own = await plain(any_stage, resume_token=session_of(agent))

    history = params_of(GoalParams, await gone_on(any_stage, own, gate=GATE)).history
    assert [(change.goal, change.verified) for change in history] == [(first.task_id, False)]


async def test_a_subagents_session_goes_on_as_one_with_what_it_may_not_do(any_stage):
    first = await begun(any_stage, ends=False)
    parent = await listener(any_stage.transport, first.task_id)
    denied = {"inherited_denies": [[["bash", "*", True]]]}
    child = task_request(parent=parent, **{**FIELDS, "sender": "build/build"}, prompt="look", params=denied)
    await any_stage.transport.submit([child])
    lease = await claimed(any_stage, "build")
    await any_stage.transport.checkpoint(lease, await any_stage.transport.blobs.put(b"a session"))
    await end(any_stage, lease)

    request = await gone_on(any_stage, child.task_id)

    assert (request.agent, request.input.params) == ("build", denied)
    await any_stage.muster.cancel(request.task_id)
    with pytest.raises(BadInput, match="subagent's") as refusal:
        await any_stage.muster.resume(child.task_id, gate=GATE)
    assert "the goal that it works for" in refusal.value.hint


async def test_what_cannot_be_proved_is_refused_before_anything_is_paid(any_stage):
    changed = await plain(any_stage, workspace=WHERE.model_copy(update={"changes": blob_ref(b"")}))
    nowhere = await plain(any_stage, workspace=None)

    for task_id, said, words in (
        (changed, {"gate": GATE}, ON_OTHERS),
        (nowhere, {"gate": GATE}, "a gate needs a repository"),
        (nowhere, {"gate_rules": GateRules(reruns=0)}, "rules for a gate, and the session has none"),
    ):
        with pytest.raises(BadInput, match=words):
            await any_stage.muster.resume(task_id, **said)


async def test_a_session_that_runs_is_busy_and_one_that_never_began_is_refused(any_stage):
    first = await begun(any_stage, ends=False)
    agent = await listener(any_stage.transport, first.task_id)
    with pytest.raises(Busy) as busy:
        await any_stage.muster.resume(first.task_id)
    handle = await any_stage.muster.submit(
        goal_request("Begin", agent=BUILD, settings=any_stage.muster.settings, workspace=WHERE, gate=GATE)
    )
    driver = await claimed(any_stage, DRIVERS)
    never = task_request(parent=await any_stage.muster.request(handle.task_id), **FIELDS, prompt="x")
    await any_stage.transport.submit([never], under=driver)
    await any_stage.muster.cancel(handle.task_id)

    with pytest.raises(Refused):
        await any_stage.muster.resume(never.task_id)
    assert busy.value.holder == agent.task_id


async def test_a_word_to_a_goal_that_waits_for_its_turn_is_for_the_session(any_stage):
    first = await begun(any_stage)
    waiting = await any_stage.muster.prompt(first.task_id, "one")

    more = await any_stage.muster.prompt(waiting.task_id, "two")

    session = session_of(await listener(any_stage.transport, first.task_id))
    assert params_of(GoalParams, await any_stage.muster.request(more.task_id)).session == session


async def test_a_programs_goal_that_names_a_session_has_its_gate(any_stage):
    first = await begun(any_stage)
    agent = await listener(any_stage.transport, first.task_id)
    await any_stage.transport.announce(WorkerCard(worker="w", pool="build", slots=1, agents=(BUILD,)), ttl_s=60)
    on = {"session": session_of(agent), "near": agent.trace_id, "workspace": agent.workspace}

    inherited, own = [
        params_of(GoalParams, await any_stage.muster.goal("More", **on, **said)) for said in ({}, {"gate": ("other",)})
    ]

    assert (inherited.gate, own.gate) == (GATE, ("other",))
    assert [change.goal for change in inherited.history] == [first.task_id]


async def test_a_history_that_is_shortened_and_work_that_is_taken_back_lead_to_the_goal(any_stage):
    first = await begun(any_stage)
    for words in ("/compact", "/undo"):
        handle = await any_stage.muster.prompt(first.task_id, words)
        request = await any_stage.muster.request(handle.task_id)
        assert (request.agent, request.input.params["goal"]) == ("build", first.task_id)
        lease = await claimed(any_stage, "build")
        await end(any_stage, lease)

    params = params_of(GoalParams, await gone_on(any_stage, first.task_id))

    assert (params.gate, params.history) == (GATE, ())  # what was verified is taken back


@pytest.mark.parametrize(
    ("left", "history"),
    [
        (CHANGE.model_copy(update={"tree": "2" * 40}), ["1", "2"]),
        (CHANGE, ["1"]),
        (None, []),
        (CHANGE.model_copy(update={"tree": "9" * 40}), None),
    ],
    ids=["a prompt that was not verified", "one that was", "the base", "the middle of a prompt"],
)
async def test_work_that_is_taken_back_ends_the_history_where_it_stands(any_stage, left, history):
    """The goals leave the trees 1, 2 and 3."""
    first = await begun(any_stage)
    for tree in "23":
        again = await gone_on(any_stage, first.task_id)
        await worked_on(any_stage, again, patch=CHANGE.model_copy(update={"tree": tree * 40}))
    await any_stage.muster.prompt(first.task_id, "/undo")
    await end(any_stage, await claimed(any_stage, "build"), patch=left)

    terms = await terms_of(any_stage.transport, await listener(any_stage.transport, first.task_id))

    assert terms.is_lost == (history is None)
    assert [change.tree[0] for change in terms.history] == (history or [])


async def test_the_last_change_that_was_verified_stays_in_a_long_history(any_stage):
    first = await begun(any_stage)
    for number in range(MAX_HISTORY + 1):
        again = await gone_on(any_stage, first.task_id)
        await worked_on(any_stage, again, patch=CHANGE.model_copy(update={"tree": f"{number:040}"}), verified=False)

    history = params_of(GoalParams, await gone_on(any_stage, first.task_id)).history

    assert [change.goal for change in history if change.verified] == [first.task_id]
    assert len(history) == MAX_HISTORY + 1
