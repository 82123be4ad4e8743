"""A task that goes on with a session has the terms of its last goal, but for what is said. Played by hand."""

from __future__ import annotations

from typing import Any

import pytest

from envelope.agents import AgentCard, WorkerCard
from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.gate import GateRules
from envelope.ids import blob_ref, new_task_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, PatchRef, TaskRequest, TaskResult, Workspace
from orchestrator.batch.file import parse_batch
from orchestrator.batch.request import batch_request
from orchestrator.errors import BadInput
from orchestrator.prompting import listener, session_of
from orchestrator.resume import FORGOTTEN, MAX_HISTORY, NO_GOAL, ON_OTHERS, WITHOUT, terms_of, why_unproved
from orchestrator.submit import DRIVERS, GoalParams, RepositoryInput, goal_request, params_of, task_request
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


ENDINGS = {
    "gate failed": (State.ERROR, ErrorCode.GATE_FAILED),
    "out of money": (State.ERROR, ErrorCode.BUDGET),
    "out of time": (State.EXPIRED, ErrorCode.DEADLINE),
    "cancelled": (State.CANCELLED, ErrorCode.CANCELLED),
}


@pytest.mark.parametrize("door", ["resume", "prompt", "fork", "/compact"])
@pytest.mark.parametrize("ending", ENDINGS)
async def test_however_a_goal_ended_its_session_has_its_terms(any_stage, door: str, ending: str):
    muster, budget = any_stage.muster, Budget(max_cost_microusd=7)
    request = goal_request(
        "Begin", agent=BUILD, settings=muster.settings, workspace=WHERE, gate=GATE, budget=budget, deadline_ms=77_000
    )
    await muster.submit(request)
    driver = await claimed(any_stage, DRIVERS)
    agent = task_request(parent=request, **FIELDS, prompt="Begin", workspace=WHERE, sender="run")
    await any_stage.transport.submit([agent], under=driver)
    lease = await claimed(any_stage, "build")
    await any_stage.transport.checkpoint(lease, await any_stage.transport.blobs.put(b"a session"))
    status, code = ENDINGS[ending]
    await end(any_stage, lease)
    error = ErrorInfo.of(code, ending)
    await end(any_stage, driver, status=status, errors=(error,), patch=CHANGE, output=Output(structured={}))
    task_id = request.task_id
    if door in ("fork", "/compact"):
        handle = await (muster.fork(task_id) if door == "fork" else muster.prompt(task_id, door))
        lease = await claimed(any_stage, "build")
        await any_stage.transport.checkpoint(lease, await any_stage.transport.blobs.put(b"a session"))
        await end(any_stage, lease)
        task_id = handle.task_id

    handle = await (muster.prompt if door == "prompt" else muster.resume)(task_id, "More")

    told = await muster.request(handle.task_id)
    params = params_of(GoalParams, told)
    assert (params.gate, told.budget, told.deadline_ms, told.workspace) == (GATE, budget, 77_000, WHERE)
    assert [change.verified for change in params.history] == [False]


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


DENIED = {"inherited_denies": [[["bash", "*", True]]]}


async def worked_below(stage, goal: TaskRequest, **fields: Any) -> TaskRequest:
    """A subagent of a goal's agent, and one of its own below that, whose session is left."""
    caller, leases = await listener(stage.transport, goal.task_id), list[Lease]()
    for _ in range(2):
        told = {**FIELDS, "workspace": WHERE, "sender": "build/build", "deadline_ms": 3_000, **fields}
        caller = task_request(parent=caller, **told, prompt="look", params=DENIED)
        await stage.transport.submit([caller])
        leases.append(await claimed(stage, "build"))
        await stage.transport.checkpoint(leases[-1], await stage.transport.blobs.put(b"a session"))
    for lease in reversed(leases):
        await end(stage, lease)
    return caller


async def test_a_subagents_session_has_its_callers_goals_terms_and_what_it_may_not_do(any_stage):
    budget = Budget(max_cost_microusd=7)
    first = await begun(any_stage, ends=False, budget=budget, deadline_ms=77_000, min_tests=2)
    child = await worked_below(any_stage, first, auth_scope=("edit:a.py",))

    request = await gone_on(any_stage, child.task_id)

    params = params_of(GoalParams, request)
    assert (params.gate, params.min_tests, params.history, params.auth_scope) == (GATE, 2, (), ("edit:a.py",))
    assert (request.budget, request.deadline_ms) == (budget, 77_000)
    assert params.subagent.inherited_denies == ((("bash", "*", True),),)


async def test_what_a_subagent_may_not_do_stays_so_in_each_prompt(any_stage):
    first = await begun(any_stage, ends=False)
    child = await worked_below(any_stage, first)
    second = await gone_on(any_stage, child.task_id)
    await worked_on(any_stage, second, params=DENIED)

    params = params_of(GoalParams, await gone_on(any_stage, second.task_id))

    assert params.subagent.inherited_denies == ((("bash", "*", True),),)
    assert [change.goal for change in params.history] == [second.task_id]


async def test_a_subagent_whose_caller_had_changed_files_has_no_gate_and_says_so(any_stage):
    first = await begun(any_stage, ends=False)
    child = await worked_below(any_stage, first, workspace=WHERE.model_copy(update={"changes": blob_ref(b"")}))

    assert why_unproved(await gone_on(any_stage, child.task_id)) == ON_OTHERS


@pytest.mark.parametrize("what", ["/undo", "fork"])
async def test_a_subagents_session_keeps_its_terms_when_it_is_taken_back_or_copied(any_stage, what: str):
    first = await begun(any_stage, ends=False)
    child = await worked_below(any_stage, first)
    muster = any_stage.muster
    handle = await (muster.fork(child.task_id) if what == "fork" else muster.prompt(child.task_id, what))
    lease = await claimed(any_stage, "build")
    await any_stage.transport.checkpoint(lease, await any_stage.transport.blobs.put(b"a session"))
    await end(any_stage, lease)

    params = params_of(GoalParams, await gone_on(any_stage, handle.task_id))

    assert (params.gate, params.history) == (GATE, ())


BATCH_OF_IT = """
name = "it"
setup.commands = ["pip install -e ."]
limits.shard_deadline_s = 88
[[repositories]]
path = "."
[shards]
glob = "*.py"
[[steps]]
agent = "build"
prompt = "Mend {path}."
[gate]
commands = ["run-tests"]
min_tests = 2
reruns = 0
"""


async def shard_of(stage, text: str = BATCH_OF_IT, **fields: Any) -> TaskRequest:
    """A shard that its agent is done with, in a batch that is under way."""
    given = RepositoryInput(name="it", bundle=WHERE.bundle, base=WHERE.base)
    batch = batch_request(parse_batch(text, name="it.toml"), [given], settings=stage.muster.settings)
    await stage.muster.submit(batch)
    assert (await claimed(stage, DRIVERS)).task_id == batch.task_id
    told = {**FIELDS, "workspace": WHERE, "batch_id": batch.task_id, "sender": "batch", "deadline_ms": 3_000, **fields}
    shard = task_request(**told, prompt="Mend a.py.")
    await stage.transport.submit([shard])
    lease = await claimed(stage, "build")
    await stage.transport.checkpoint(lease, await stage.transport.blobs.put(b"a session"))
    await end(stage, lease, patch=CHANGE, output=Output(structured={"verified": True}))
    return shard


async def test_a_shards_session_goes_on_with_its_batchs_terms(any_stage):
    budget, scope = Budget(max_cost_microusd=7), ("read:**", "edit:a.py")
    shard = await shard_of(any_stage, budget=budget, auth_scope=scope)

    request = await gone_on(any_stage, shard.task_id)

    params = params_of(GoalParams, request)
    assert (params.gate, params.min_tests, params.gate_rules) == (GATE, 2, GateRules(reruns=0))
    assert (params.auth_scope, params.history) == (scope, ())
    assert (request.budget, request.deadline_ms, request.workspace) == (budget, 88_000, WHERE)


async def test_a_shards_gate_is_put_over_by_what_is_said(any_stage):
    shard = await shard_of(any_stage)

    params = params_of(GoalParams, await gone_on(any_stage, shard.task_id, gate=["other"], min_tests=0))

    assert (params.gate, params.min_tests, params.gate_rules) == (("other",), 0, GateRules(reruns=0))


@pytest.mark.parametrize(
    ("text", "fields", "why"),
    [
        (BATCH_OF_IT.partition("[gate]")[0], {}, WITHOUT),
        (BATCH_OF_IT, {"workspace": WHERE.model_copy(update={"changes": blob_ref(b"")})}, ON_OTHERS),
    ],
    ids=["no gate", "after a recipe"],
)
async def test_why_a_shards_session_has_no_gate_is_known(any_stage, text, fields, why):
    shard = await shard_of(any_stage, text, **fields)

    request = await gone_on(any_stage, shard.task_id)

    assert (request.agent, why_unproved(request)) == ("run", why)


@pytest.mark.parametrize("what", ["/undo", "/compact", "fork"])
async def test_a_shards_session_keeps_its_terms_when_it_is_taken_back_or_copied(any_stage, what: str):
    shard = await shard_of(any_stage)
    muster = any_stage.muster
    handle = await (muster.fork(shard.task_id) if what == "fork" else muster.prompt(shard.task_id, what))
    lease = await claimed(any_stage, "build")
    await any_stage.transport.checkpoint(lease, await any_stage.transport.blobs.put(b"a session"))
    await end(any_stage, lease)

    params = params_of(GoalParams, await gone_on(any_stage, handle.task_id))

    assert (params.gate, params.history) == (GATE, ())


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
