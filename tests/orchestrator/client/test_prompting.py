"""A word to a task reaches the session that is meant: running or ended, its own or a goal's agent's."""

from __future__ import annotations

import pytest

from envelope.asks import AskTerms
from envelope.budget import Budget
from envelope.ids import shares_home
from envelope.lifecycle import State
from envelope.messages import TaskRequest, TaskResult
from orchestrator.errors import BadInput
from orchestrator.submit import task_request
from transport.base import Lease, Transport

FIELDS = {"agent": "build", "pool": "build", "deadline_ms": 60_000, "auth_scope": ("read:**",)}


async def claimed(transport: Transport, pool: str = "build") -> Lease:
    [claim] = await transport.claim(pool, "w1", slots=1, wait_s=5)
    return claim.lease


async def end(transport: Transport, lease: Lease) -> None:
    """As a worker does that has left a session."""
    await transport.checkpoint(lease, await transport.blobs.put(b"a session"))
    ended = TaskResult(trace_id=lease.trace_id, task_id=lease.task_id, attempt=lease.attempt, status=State.COMPLETED)
    await transport.finish(lease, ended)


async def test_who_runs_the_session_hears_it(any_stage):
    handle = await any_stage.muster.submit(**FIELDS, prompt="work")
    lease = await claimed(any_stage.transport)

    answering = await any_stage.muster.prompt(handle.task_id, "faster", by="somebody")

    assert (answering.task_id, answering.existing) == (handle.task_id, True)
    assert [(word.text, word.by) for word in await any_stage.transport.inbox(lease)] == [("faster", "somebody")]


async def test_a_prompt_without_words_is_refused(any_stage):
    handle = await any_stage.muster.submit(**FIELDS, prompt="work")

    with pytest.raises(BadInput, match="nothing in the prompt"):
        await any_stage.muster.prompt(handle.task_id, " \n")


async def test_a_session_that_has_ended_goes_on_in_a_new_task(any_stage):
    first = await any_stage.muster.submit(**FIELDS, prompt="work", idempotency_key="k", tenant="t")
    await end(any_stage.transport, await claimed(any_stage.transport))

    second = await any_stage.muster.prompt(first.task_id, "and tests")

    request = await any_stage.muster.request(second.task_id)
    assert not second.existing and second.trace_id != first.trace_id
    assert (request.input.prompt, request.resume_token) == ("and tests", first.task_id)
    assert (request.agent, request.auth_scope, request.tenant) == ("build", ("read:**",), "t")
    assert shares_home(second.trace_id, near=first.trace_id)


async def test_a_word_to_any_task_of_a_session_is_for_the_session(any_stage):
    first = await any_stage.muster.submit(**FIELDS, prompt="work")
    await end(any_stage.transport, await claimed(any_stage.transport))
    second = await any_stage.muster.prompt(first.task_id, "and tests")
    await claimed(any_stage.transport)

    assert (await any_stage.muster.prompt(first.task_id, "hurry")).task_id == second.task_id
    assert (await any_stage.muster.prompt(second.task_id, "hurry")).task_id == second.task_id


async def test_where_nobody_answers_any_more_it_neither_asks_nor_waits_for_money(any_stage):
    waits = Budget(max_cost_microusd=9, waits_at_cap=True)
    first = await any_stage.muster.submit(**FIELDS, prompt="work", asks=AskTerms(), budget=waits)
    await end(any_stage.transport, await claimed(any_stage.transport))

    second = await any_stage.muster.resume(first.task_id, no_input=True)

    request = await any_stage.muster.request(second.task_id)
    assert (request.asks, request.budget) == (None, Budget(max_cost_microusd=9))


async def test_a_task_by_its_fields_lives_where_its_session_does(any_stage):
    first = await any_stage.muster.submit(**FIELDS, prompt="work")
    await end(any_stage.transport, await claimed(any_stage.transport))

    second = await any_stage.muster.submit(**FIELDS, prompt="more", resume_token=first.task_id, idempotency_key="k")

    assert shares_home(second.trace_id, near=first.trace_id)


def goal(**fields) -> TaskRequest:
    params = {"agent": "build", "pool": "build", "auth_scope": ["read:**"]}
    told = {"agent": "run", "pool": "orchestrator", "deadline_ms": 60_000, "auth_scope": ("read:**",), "params": params}
    return task_request(**{**told, **fields})


async def test_a_word_to_a_goal_is_for_its_agent(any_stage):
    root = goal()
    child = task_request(parent=root, **FIELDS, prompt="work")
    await any_stage.muster.submit_many([root])
    await any_stage.muster.submit_many([child])
    await claimed(any_stage.transport)

    assert (await any_stage.muster.prompt(root.task_id, "faster")).task_id == child.task_id


async def test_a_word_to_a_goal_whose_plan_was_approved_is_for_who_carries_it_out(any_stage):
    steps = {"pool": "build", "auth_scope": ["read:**"]}
    root = goal(params={"agent": "plan", **steps, "then": {"agent": "build", **steps}})
    plan = task_request(parent=root, **{**FIELDS, "agent": "plan"}, prompt="work")
    await any_stage.muster.submit_many([root])
    await any_stage.muster.submit_many([plan])
    await end(any_stage.transport, await claimed(any_stage.transport))
    build = task_request(parent=root, **FIELDS, prompt="carry it out", resume_token=plan.task_id)
    await any_stage.muster.submit_many([build])
    await claimed(any_stage.transport)

    assert (await any_stage.muster.prompt(root.task_id, "faster")).task_id == build.task_id


async def test_lists_tell_tasks_by_what_was_asked(any_stage):
    first = await any_stage.muster.submit(**FIELDS, prompt="  Tidy up,\nand be quick")
    await end(any_stage.transport, await claimed(any_stage.transport))
    second = await any_stage.muster.prompt(first.task_id, "and tests")

    told = {task.task_id: task.intent for task in await any_stage.muster.tasks()}

    assert told == {first.task_id: "Tidy up,", second.task_id: "and tests"}


@pytest.mark.parametrize(
    ("request_of", "words"),
    [
        (goal, "has started no agent yet"),
        (lambda: goal(agent="batch"), "no agent that can be talked to"),
        (lambda: task_request(**{**FIELDS, "agent": "recipe"}), "no agent that can be talked to"),
    ],
)
async def test_what_has_no_session_is_refused_in_a_sentence(any_stage, request_of, words: str):
    handle = await any_stage.muster.submit(request_of())

    with pytest.raises(BadInput, match=words):
        await any_stage.muster.prompt(handle.task_id, "hello")
