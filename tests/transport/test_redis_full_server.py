"""A Redis server whose memory is full, or nearly: what was accepted ends, and the oldest events go first."""

from __future__ import annotations

import asyncio

import pytest

from envelope.events import Resynced, TextDelta
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress, TaskResult
from orchestrator.api.console.signing import signer_of
from orchestrator.api.tokens import Role, Tokens
from transport.base import Wait
from transport.consumer import Consumer
from transport.embedded import find_server
from transport.errors import QueueFull
from transport.limits import Limits
from transport.redis import connect_redis, pressure, writer

from .conftest import KEYRING, Fleet

pytestmark = pytest.mark.redis

MIB = 1024 * 1024


@pytest.fixture(params=["bundled", "system"])
def server(request, start_redis):
    program = {"program": find_server()} if request.param == "bundled" else {}
    return start_redis("--maxmemory-policy", "noeviction", **program)


@pytest.fixture
async def fleet(server):
    url, limits = f"redis://127.0.0.1:{server.port}", Limits(lease_ms=1500)
    transport = await connect_redis(url, keyring=KEYRING, limits=limits)
    yield Fleet(transport, url=url)
    await transport.close()


@pytest.fixture
async def unwary_fleet(fleet):
    """Another program of the same fleet, whose admission looks at no memory."""
    transport = await connect_redis(fleet.url, keyring=KEYRING, limits=Limits(memory_share=1e9))
    yield Fleet(transport, url=fleet.url)
    await transport.close()


def fill(server) -> None:
    """From now on the server takes no write that takes memory."""
    server.command("CONFIG", "SET", "maxmemory", MIB // 2)


@pytest.fixture
def no_patience(monkeypatch):
    monkeypatch.setattr(writer, "FULL_PAUSES_S", ())


async def test_what_runs_on_a_full_server_can_end_pause_and_be_given_back(server, fleet, no_patience):
    tasks = [await fleet.submit() for _ in range(4)]
    claims = await fleet.transport.claim("explore", "w1", slots=4, wait_s=5)
    fill(server)

    with pytest.raises(QueueFull):
        await fleet.transport.emit(claims[0].lease, fleet.progress(claims[0]))
    await fleet.finish(claims[0])
    await fleet.transport.give_back(claims[1].lease)
    assert await fleet.transport.park(claims[2].lease, Wait(asks=frozenset({"a1"})))
    await fleet.transport.answer(tasks[2].task_id, "a1", "yes", by="ann")
    await fleet.transport.retry(claims[3].lease, delay_ms=1, reason="no engine")

    assert (await fleet.ended(tasks[0].task_id)).output.text == "done"
    assert (await fleet.transport.stats(["explore"]))[0].running == 0


async def test_leases_on_a_full_server_are_renewed_and_those_that_end_are_reaped(server, fleet):
    await fleet.submit()
    kept = await fleet.claim_one()
    fill(server)
    keeper = fleet.transport.keeper()
    renewal = await asyncio.to_thread(keeper.renew, [kept.lease])
    await asyncio.to_thread(keeper.close)
    assert (renewal.lost, renewal.cancelled) == (frozenset(), {})

    # nobody renews from here on, and a claim finds that the lease is over
    async with asyncio.timeout(10):
        while (await fleet.transport.record(kept.lease.task_id)).lost_leases == 0:
            assert await fleet.transport.claim("explore", "w2", slots=1, wait_s=0.1) == []


async def test_tasks_on_a_full_server_can_be_cancelled_and_meet_their_deadline(server, fleet):
    running, queued = await fleet.submit(), await fleet.submit(recipient="general")
    late = await fleet.submit(recipient="general", deadline_ms=800)
    claim = await fleet.claim_one()
    fill(server)

    assert await fleet.transport.cancel(queued.task_id, by="ann", reason="enough") == 1
    assert await fleet.transport.cancel(running.task_id, by="ann", reason="enough") == 1
    await fleet.transport.finish(claim.lease, fleet.result(claim, status=State.CANCELLED))
    async with asyncio.timeout(10):
        while not (await fleet.transport.record(late.task_id)).finished_at_ms:
            await fleet.transport.reap()

    ended = [(await fleet.ended(task.task_id)).status for task in (running, queued, late)]
    assert ended == [State.CANCELLED, State.CANCELLED, State.EXPIRED]


async def test_a_full_server_starts_nothing_and_takes_nothing_new(server, unwary_fleet):
    fleet = unwary_fleet
    known = await fleet.submit()
    fill(server)

    assert await fleet.transport.claim("explore", "w1", slots=1, wait_s=0) == []
    with pytest.raises(QueueFull):
        await fleet.submit()
    assert (await fleet.transport.submit([known]))[0].task_id == known.task_id


async def test_the_events_of_the_trace_that_ended_longest_ago_go_first_and_its_reader_gets_the_result(server, fleet):
    old, new, living = [await fleet.submit() for _ in range(3)]
    for task in (old, new):
        claim = await fleet.claim_one()
        await fleet.transport.emit(claim.lease, fleet.progress(claim))
        await fleet.finish(claim, task.task_id)
    whole = [entry async for entry in fleet.transport.follow(old.trace_id)]

    assert await pressure.make_room(fleet.transport._cells.all, 1) == 1

    seen = [entry async for entry in fleet.transport.follow(old.trace_id)]
    assert any(isinstance(event, Resynced) for event in seen[0].message.events)
    assert [entry.message for entry in seen if isinstance(entry.message, TaskResult)] == [whole[-1].message]
    assert [entry async for entry in fleet.transport.follow(old.trace_id, after=seen[-1].id)] == []
    assert [entry async for entry in fleet.transport.follow(old.trace_id, after=whole[-1].id)] == []
    assert len([entry async for entry in fleet.transport.follow(new.trace_id)]) == len(whole)
    assert await pressure.make_room(fleet.transport._cells.all, 9) == 1  # `living` has not ended
    assert [entry async for entry in fleet.transport.follow(living.trace_id, wait=False)]


async def test_a_trimmed_trace_that_goes_on_is_followed_from_where_its_reader_was(server, fleet):
    first = await fleet.submit()
    await fleet.finish(await fleet.claim_one())
    seen = [entry async for entry in fleet.transport.follow(first.trace_id)]
    await pressure.make_room(fleet.transport._cells.all, 9)
    second = await fleet.submit(trace_id=first.trace_id)

    late = [entry.message async for entry in fleet.transport.follow(first.trace_id, wait=False)]
    assert {message.task_id for message in late} == {first.task_id, second.task_id}
    await fleet.finish(await fleet.claim_one())
    rest = fleet.transport.follow(first.trace_id, after=seen[-1].id, wait=False)
    assert second.task_id in {entry.message.task_id async for entry in rest if isinstance(entry.message, TaskResult)}


async def talkative(fleet, count: int) -> list[str]:
    """So many tasks, in traces of one, that have ended and told 50 KiB each."""
    tasks = [await fleet.submit() for _ in range(count)]
    for claim in await fleet.transport.claim("explore", "w1", slots=count, wait_s=5):
        for _ in range(5):
            await fleet.transport.emit(claim.lease, fleet.progress(claim, "y" * 10_000))
        await fleet.finish(claim)
    return [task.task_id for task in tasks]


def used_bytes(server) -> int:
    return int(server.command("INFO", "memory").split("used_memory:")[1].split()[0])


async def test_a_write_and_a_blob_that_meet_a_full_server_make_room_for_themselves(server, fleet):
    ended = await talkative(fleet, 40)
    await fleet.submit()
    living = await fleet.claim_one()
    server.command("CONFIG", "SET", "maxmemory", used_bytes(server) - 1000)

    await fleet.transport.emit(living.lease, fleet.progress(living))
    server.command("CONFIG", "SET", "maxmemory", used_bytes(server) - 1000)
    assert await fleet.transport.blobs.get(await fleet.transport.blobs.put(b"patch")) == b"patch"

    assert (await fleet.transport.result(ended[0])).output.text == "done"


async def test_the_sweep_lets_events_go_until_the_server_is_no_longer_short_of_memory(server, fleet):
    ended = await talkative(fleet, 40)
    before = used_bytes(server)
    server.command("CONFIG", "SET", "maxmemory", int(before / 0.9))

    await fleet.transport.reap()

    assert used_bytes(server) < 0.8 * before / 0.9
    assert [result.output.text async for result in fleet.transport.results(ended)] == ["done"] * 40


async def test_admission_counts_the_bytes_of_what_it_takes_in_between_two_looks_at_the_memory(server, fleet):
    limit_bytes = used_bytes(server) + 40 * MIB
    server.command("CONFIG", "SET", "maxmemory", limit_bytes)
    await fleet.submit()
    large = {"input": TaskInput(prompt="x" * 900_000)}

    with pytest.raises(QueueFull):
        for _ in range(60):
            await fleet.submit(**large)

    assert used_bytes(server) < 0.85 * limit_bytes


async def test_words_find_no_more_room_than_submissions_and_answers_always_do(server, fleet, monkeypatch):
    monkeypatch.setattr(pressure, "LOOK_EVERY_S", 0.0)
    task = await fleet.submit()
    server.command("CONFIG", "SET", "maxmemory", int(used_bytes(server) / 0.79))

    with pytest.raises(QueueFull, match="nothing new is accepted beyond 80%"):
        await fleet.transport.prompt(task.task_id, "x" * 200_000, by="ann")

    await fleet.transport.answer(task.task_id, "a1", "yes", by="ann")
    assert await fleet.transport.cancel(task.task_id, by="ann", reason="enough") == 1


async def test_admission_counts_what_ended_tasks_took(server, fleet, monkeypatch):
    monkeypatch.setattr(pressure, "LOOK_EVERY_S", 0.0)
    await talkative(fleet, 40)
    server.command("CONFIG", "SET", "maxmemory", 40 * MIB)

    accepted = await until_full(fleet)

    assert 0 < len(accepted) * 50_000 < 0.8 * 40 * MIB


async def test_a_small_server_ends_all_that_it_accepts_and_accepts_again(server, fleet):
    """Each task tells ten times of what it takes in line; nobody but the fleet itself makes room."""
    server.command("CONFIG", "SET", "maxmemory", 12 * MIB)
    accepted = await until_full(fleet)
    ended = 0

    async def talk(delivery) -> TaskResult:
        nonlocal ended
        lease = delivery.claim.lease
        ids = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
        for seq in range(40):
            text = TextDelta(text="y" * 1500)
            await fleet.transport.emit(
                lease, TaskProgress(**ids, seq=seq, at_ms=0, status=State.RUNNING, events=(text,))
            )
        ended += 1
        return TaskResult(**ids, status=State.COMPLETED)

    stop = asyncio.Event()
    consumer = Consumer(fleet.transport, pool="explore", worker="w", slots=20, handle=talk)
    serving = asyncio.create_task(consumer.run(stop))
    async with asyncio.timeout(60):
        results = [result.status async for result in fleet.transport.results(accepted)]
    stop.set()
    await serving

    assert results == [State.COMPLETED] * len(accepted)
    assert ended == len(accepted), "work was done twice"
    async with asyncio.timeout(10):
        await until_full(fleet, 1)


async def until_full(fleet, at_most: int = 10_000) -> list[str]:
    """Submit in traces of one until the server takes no more; the tasks that it took."""
    accepted: list[str] = []
    while len(accepted) < at_most:
        requests = [fleet.request() for _ in range(20)]
        try:
            await fleet.transport.submit(requests)
        except QueueFull:
            return accepted
        accepted += [request.task_id for request in requests]
    return accepted


async def test_a_token_is_revoked_and_a_person_signed_out_although_memory_is_full(server, fleet, tmp_path):
    tokens = Tokens(fleet.transport.registry)
    secrets = [await tokens.create(name, Role.ADMIN, "*") for name in ("leaked", "other")]
    signer = signer_of(tmp_path, tokens)
    other = await tokens.find(secrets[1])
    assert other
    cookie = signer.cookie(other)
    fill(server)

    await tokens.revoke("leaked")
    await signer.sign_out(cookie)

    assert await tokens.find(secrets[0]) is None
    assert await signer.read(cookie) is None
