"""Each role does all its work, and the server refuses none of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from arq.worker import Worker, func

from envelope.agents import WorkerCard
from envelope.errors import ErrorCode
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskResult
from orchestrator.jobs import connect_jobs, job_name
from orchestrator.settings import Settings
from transport.base import Allotment, Wait
from transport.errors import Misconfigured
from transport.limits import Limits
from transport.rates import Ask, Later, Permit, Quota

pytestmark = pytest.mark.redis

BLOB = "sha256:" + "0" * 64


@pytest.fixture
def nothing_was_refused(emptied: Any):
    yield
    # arq's connections tell the library's name (CLIENT SETINFO), and do not mind that they may not
    assert [entry for entry in emptied.acl_log() if entry["object"] not in ("client", "client|setinfo")] == []


@pytest.fixture
async def people(as_role: Any, nothing_was_refused: None):
    """What the orchestrator and the command line see."""
    return await as_role("orchestrator")


@pytest.fixture
async def worker(as_role: Any, nothing_was_refused: None):
    return await as_role("worker")


def failed(claim: Any) -> TaskResult:
    lease, why = claim.lease, ErrorInfo.of(ErrorCode.BAD_INPUT, "it cannot be read")
    return TaskResult(
        trace_id=lease.trace_id, task_id=lease.task_id, attempt=lease.attempt, status=State.ERROR, errors=(why,)
    )


async def test_a_task_with_money_a_checkpoint_a_prompt_and_an_answer(people, worker):
    trace_id = new_trace_id(key="default:k")
    root = await people.submit(idempotency_key="k", trace_id=trace_id)
    claim = await worker.claim_one()
    await worker.transport.reserve(claim.lease, 100)
    await worker.transport.emit(claim.lease, worker.progress(claim), charge_microusd=40, release_microusd=60)
    await worker.transport.checkpoint(claim.lease, BLOB)
    await people.transport.prompt(root.task_id, "and the tests?", by="ann")
    assert [prompt.text for prompt in await worker.transport.inbox(claim.lease)] == ["and the tests?"]
    await worker.transport.checkpoint(claim.lease, BLOB, heard=1)
    assert await worker.transport.park(claim.lease, Wait(asks=frozenset({"a1"})))
    await people.transport.answer(root.task_id, "a1", "yes", by="ann")

    again = await worker.claim_one()
    assert (await worker.transport.answers(root.task_id))["a1"].text == "yes"
    assert [task.task_id for task in await worker.transport.tasks(trace_id=root.trace_id)] == [root.task_id]
    await worker.finish(again)

    assert (await people.ended(root.task_id)).status is State.COMPLETED
    assert (await people.transport.request(root.task_id)).task_id == root.task_id
    assert (await people.transport.record(root.task_id)).attempt == 2
    assert [task.task_id for task in await people.transport.tasks()] == [root.task_id]
    assert len([entry async for entry in people.transport.follow(trace_id)]) >= 7
    going_on = people.request(resume_token=root.task_id, trace_id=new_trace_id(near=trace_id))
    await people.transport.submit([going_on])
    assert (await worker.claim_one()).session == BLOB


async def test_a_parent_whose_worker_submits_children_and_waits_for_them(people, worker):
    root = await people.submit()
    parent = await worker.claim_one()
    child = worker.child(root)
    await worker.transport.submit([child], under=parent.lease)
    assert await worker.transport.park(parent.lease, Wait(children=frozenset({child.task_id})))

    await worker.finish(await worker.claim_one("w2"))
    assert (await worker.ended(child.task_id)).output.text == "done"
    await worker.finish(await worker.claim_one())

    assert {(await people.ended(task.task_id)).status for task in (root, child)} == {State.COMPLETED}


async def test_a_child_that_somebody_sends_to_the_background(people, worker):
    root = await people.submit()
    parent = await worker.claim_one()
    child = worker.child(root)
    await worker.transport.submit([child], under=parent.lease)
    assert await worker.transport.park(parent.lease, Wait(children=frozenset({child.task_id})))

    assert await people.transport.background(child.task_id)

    assert (await worker.transport.record(root.task_id)).background == (child.task_id,)
    claims = await worker.transport.claim("explore", "w", slots=9, wait_s=5)
    assert {claim.lease.task_id for claim in claims} == {root.task_id, child.task_id}


async def test_who_may_only_read_hears_of_an_end_too(as_role, emptied):
    """It may not ask to be told, and looks."""
    people, reader = await as_role("orchestrator"), await as_role("reader")
    root = await people.submit()
    ended = asyncio.create_task(reader.ended(root.task_id))
    await asyncio.wait({ended}, timeout=0.1)

    await people.finish(await people.claim_one())

    async with asyncio.timeout(10):
        assert (await ended).task_id == root.task_id


async def test_a_tree_that_is_cancelled_while_its_lease_is_kept(people, worker):
    root = await people.submit()
    claim = await worker.claim_one()
    await worker.transport.submit([worker.child(root)], under=claim.lease)
    keeper = worker.transport.keeper()
    waiting = asyncio.create_task(asyncio.to_thread(keeper.wait, "w1", 10.0))

    assert await people.transport.cancel(root.task_id, by="ann", reason="enough") == 2

    await waiting
    renewal = await asyncio.to_thread(keeper.renew, [claim.lease])
    assert renewal.cancelled == {root.task_id: "enough"}
    await asyncio.to_thread(keeper.close)
    await worker.transport.finish(claim.lease, worker.result(claim, status=State.CANCELLED))
    assert (await people.ended(root.task_id)).status is State.CANCELLED


async def test_tasks_that_are_given_back_put_off_lost_late_and_poison(as_role, nothing_was_refused):
    limits = Limits(lease_ms=50, poison_after=1)
    people, worker = await as_role("orchestrator", limits), await as_role("worker", limits)
    poison, late = await people.submit(), await people.submit(recipient="build", deadline_ms=1)
    await worker.transport.give_back((await worker.claim_one()).lease)
    await worker.transport.retry((await worker.claim_one()).lease, delay_ms=1, reason="the engine is away")
    await worker.claim_one()

    ended = {result.task_id: result async for result in _reaping(people, [poison.task_id, late.task_id])}

    assert ended[late.task_id].status is State.EXPIRED
    assert ended[poison.task_id].errors[0].code == ErrorCode.POISON
    assert [letter.task_id for letter in await people.transport.dead_letters()] == [poison.task_id]
    assert await people.transport.dead_letter_count() == 1
    assert await people.transport.purge([poison.task_id]) == 1
    assert (await people.transport.counters())["poisoned"] == 1


async def _reaping(people: Any, task_ids: list[str]):
    """Results, while somebody reaps."""
    reaper = asyncio.create_task(_reap(people))
    async for result in people.transport.results(task_ids):
        yield result
    reaper.cancel()


async def _reap(people: Any) -> None:
    while True:
        await people.transport.reap()
        await people.transport.claim("explore", "reaper", slots=1, wait_s=0.02)


async def test_a_worker_that_cannot_read_its_task_buries_it(people, worker):
    task = await people.submit()
    claim = await worker.claim_one()

    await worker.transport.finish(claim.lease, failed(claim), dead="it cannot be read")

    assert [letter.task_id for letter in await people.transport.dead_letters()] == [task.task_id]


async def test_tenants_with_caps_and_figures_of_pools_and_workers(people, worker):
    await people.transport.allot("ann", Allotment(weight=2.0, max_running=1))
    first, second = await people.submit(tenant="ann"), await people.submit(tenant="ann")
    await worker.transport.announce(WorkerCard(worker="w1", pool="gpu", slots=4), ttl_s=30)
    (claim,) = await worker.transport.claim("explore", "w1", slots=2, wait_s=0)
    await people.submit(recipient="gpu")

    (explore, gpu) = await people.transport.stats(["explore", "gpu"])
    assert ((explore.ready, explore.running), gpu.ready) == ((1, 1), 1)
    assert [card.worker for card in await people.transport.workers()] == ["w1"]
    assert (await people.transport.allotments())["ann"].max_running == 1

    await worker.finish(claim)
    assert {first.task_id, second.task_id} == {claim.lease.task_id, (await worker.claim_one()).lease.task_id}


async def test_calls_to_a_model_that_go_that_wait_that_leave_and_that_are_refused(worker):
    rates, key, quota = worker.transport.rates, "0" * 32, Quota(requests_per_minute=60, tokens_per_minute=1_000)
    asks = [Ask(key, new_trace_id(), new_task_id(), 10, quota) for _ in range(4)]
    permit, _, waits, _ = [await rates.ask(ask) for ask in asks]
    assert (type(permit), type(waits)) == (Permit, Later)
    await rates.leave(key, asks[3].ticket)
    await rates.slow_down(key, permit, quota, pause_ms=1_000)
    assert isinstance(await rates.ask(replace(asks[2], place=waits.place)), Later)


async def test_blobs_of_both(people, worker):
    given, made = await people.transport.blobs.put(b"input"), await worker.transport.blobs.put(b"patch")

    assert (await worker.transport.blobs.get(given), await people.transport.blobs.get(made)) == (b"input", b"patch")


async def test_an_orchestrator_runs_its_jobs(acl_server, nothing_was_refused, tmp_path):
    """As `run_jobs` does, on the same queue with jobs of the same names; a burst ends when the queue is empty."""
    settings = Settings(redis_url=acl_server.url("orchestrator"), state_dir=tmp_path)
    done, name = asyncio.Event(), job_name(settings, "sweep")

    async def sweep(_: Any) -> None:
        done.set()

    pool = await connect_jobs(settings)
    await pool.enqueue_job(name, _job_id=f"{name}:1", _queue_name=pool.default_queue_name)
    jobs = Worker(
        [func(sweep, name=name)], redis_pool=pool, queue_name=pool.default_queue_name, burst=True, poll_delay=0.01,
        handle_signals=False, job_serializer=pool.job_serializer, job_deserializer=pool.job_deserializer,
    )  # fmt: skip
    await jobs.async_run()
    await jobs.close()

    assert done.is_set()


# -- those who only look


async def test_a_reader_sees_all_that_is_recorded(as_role, emptied):
    people, worker, reader = [await as_role(role) for role in ("orchestrator", "worker", "reader")]
    await people.transport.allot("ann", Allotment(weight=2.0))
    await worker.transport.announce(WorkerCard(worker="w1", pool="explore", slots=4), ttl_s=30)
    task, letter = await people.submit(), await people.submit(recipient="build")
    claim, unreadable = await worker.claim_one(), await worker.claim_one(pool="build")
    await worker.transport.finish(unreadable.lease, failed(unreadable), dead="it cannot be read")
    blob = await worker.transport.blobs.put(b"patch")
    await worker.finish(claim)

    seen = reader.transport
    assert (await seen.record(task.task_id)).state is State.COMPLETED
    assert (await seen.result(task.task_id)).output.text == "done"
    assert (await seen.request(task.task_id)).task_id == task.task_id
    assert {record.task_id for record in await seen.tasks()} == {task.task_id, letter.task_id}
    assert [entry.message.status async for entry in seen.follow(task.trace_id)][-1] is State.COMPLETED
    assert (await reader.ended(task.task_id)).status is State.COMPLETED
    assert [found.task_id for found in await seen.dead_letters()] == [letter.task_id]
    assert (await seen.allotments())["ann"].weight == 2.0
    assert await seen.answers(task.task_id) == {}
    assert await seen.counters() == {}
    assert [card.worker for card in await seen.workers()] == ["w1"]
    assert [(pool.ready, pool.running) for pool in await seen.stats(["explore"])] == [(0, 0)]
    assert await seen.blobs.get(blob) == b"patch"
    # it renews nothing, and asks to be told of nothing: it reads all the same
    assert {entry["object"] for entry in emptied.acl_log()} == {"getex", "pexpire", "evalsha"}


@pytest.mark.parametrize(
    "attempt",
    [
        lambda reader: reader.submit(),
        lambda reader: reader.transport.cancel(new_task_id(), by="eve", reason="because"),
        lambda reader: reader.transport.claim("explore", "eve", slots=1, wait_s=0),
        lambda reader: reader.transport.purge([new_task_id()]),
    ],
    ids=["submit", "cancel", "claim", "purge"],
)
async def test_a_reader_that_wants_more_is_sent_to_the_role_file(as_role, attempt):
    reader = await as_role("reader")

    with pytest.raises(Misconfigured) as refusal:
        await attempt(reader)

    assert "users.acl" in refusal.value.hint


async def test_a_script_that_is_refused_half_way_is_told_in_the_same_way(as_role):
    people, worker = await as_role("orchestrator"), await as_role("worker")
    await people.submit()
    claim = await worker.claim_one()
    await worker.transport.finish(claim.lease, failed(claim), dead="it cannot be read")

    with pytest.raises(Misconfigured) as refusal:  # its first commands are a worker's, too; XDEL is not
        await worker.transport.purge([claim.lease.task_id])

    assert "users.acl" in refusal.value.hint
