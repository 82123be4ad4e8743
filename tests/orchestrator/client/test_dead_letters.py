"""Dead letters: listed, done again as new tasks, taken off the list."""

from __future__ import annotations

import pytest

from envelope.errors import ErrorCode
from envelope.ids import blob_ref, shares_home
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskRequest, TaskResult, Workspace
from orchestrator.errors import BadInput
from orchestrator.submit import task_request
from transport.errors import NotFound
from transport.keyring import fresh

FIELDS = {"agent": "explore", "pool": "explore", "auth_scope": ("read:**",), "deadline_ms": 60_000}


async def die(stage, request: TaskRequest) -> str:
    """The task's worker gives it up, as it does with bytes that it cannot read."""
    handle = await stage.muster.submit(request)
    [claim] = await stage.transport.claim(request.recipient, "w1", slots=1, wait_s=5)
    error = ErrorInfo.of(ErrorCode.POISON, "it took three workers down")
    said = {"trace_id": claim.lease.trace_id, "task_id": claim.lease.task_id, "attempt": claim.lease.attempt}
    result = TaskResult(**said, status=State.ERROR, errors=(error,))
    await stage.transport.finish(claim.lease, result, dead="it took three workers down")
    return handle.task_id


async def test_a_requeued_task_is_the_same_work_under_a_new_id(any_stage):
    dead = await die(
        any_stage, task_request(**FIELDS, prompt="look", batch_id="b", idempotency_key="k", priority="low")
    )

    handle = await any_stage.muster.requeue(dead)

    again, before = await any_stage.muster.request(handle.task_id), await any_stage.muster.request(dead)
    assert (again.retry_of, again.parent_task_id, again.batch_id) == (dead, None, "")
    assert again.task_id != dead
    assert again.trace_id != before.trace_id
    kept = ("input", "agent", "recipient", "auth_scope", "deadline_ms", "priority", "tenant")
    assert again.model_dump(include=set(kept)) == before.model_dump(include=set(kept))


async def test_a_letter_leaves_the_list_once_its_work_is_requeued(any_stage):
    first = await die(any_stage, task_request(**FIELDS))
    second = await die(any_stage, task_request(**FIELDS))
    assert [letter.task_id for letter in await any_stage.muster.dead_letters()] == [second, first]

    await any_stage.muster.requeue(first)

    assert [letter.task_id for letter in await any_stage.muster.dead_letters()] == [second]


async def test_requeueing_twice_is_once(any_stage):
    dead = await die(any_stage, task_request(**FIELDS))

    first, second = [await any_stage.muster.requeue(dead) for _ in range(2)]

    assert (second.task_id, second.existing) == (first.task_id, True)


async def test_a_key_is_looked_for_in_the_cell_that_it_names(any_stage):
    dead = await die(any_stage, task_request(**FIELDS, tenant="acme"))

    handle = await any_stage.muster.requeue(dead)

    request = await any_stage.muster.request(handle.task_id)
    assert shares_home(handle.trace_id, key=f"acme:{request.idempotency_key}")


async def test_a_task_that_did_not_die_cannot_be_requeued(any_stage):
    handle = await any_stage.muster.submit(**FIELDS)

    with pytest.raises(BadInput, match="is no dead letter, it is pending"):
        await any_stage.muster.requeue(handle.task_id)


async def test_what_was_signed_by_nobody_here_cannot_be_requeued(any_stage):
    dead = await die(any_stage, task_request(**FIELDS))
    any_stage.transport.keyring = fresh()  # as if somebody else had written the record

    with pytest.raises(BadInput, match="are no request and cannot be requeued"):
        await any_stage.muster.requeue(dead)
    assert len(await any_stage.muster.dead_letters()) == 1


async def test_work_whose_blobs_are_gone_is_refused_by_their_name(any_stage):
    gone = blob_ref(b"collected long ago")
    dead = await die(any_stage, task_request(**FIELDS, workspace=Workspace(bundle=gone, base="b")))

    with pytest.raises(NotFound, match=gone):
        await any_stage.muster.requeue(dead)


async def test_words_that_only_look_like_a_blob_stop_nothing(any_stage):
    digest = blob_ref(b"an image on some registry")
    dead = await die(any_stage, task_request(**FIELDS, prompt=f"pull python@{digest}"))

    assert (await any_stage.muster.requeue(dead)).existing is False


async def test_purged_letters_keep_their_records(any_stage):
    dead = await die(any_stage, task_request(**FIELDS))

    assert await any_stage.muster.purge([dead]) == 1
    assert await any_stage.muster.purge([dead]) == 0
    assert await any_stage.muster.dead_letters() == []
    assert (await any_stage.muster.record(dead)).state is State.ERROR
