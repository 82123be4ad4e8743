"""A fleet whose members differ in age: what an old member passes on is what the newer one sent."""

from __future__ import annotations

import msgpack
import pytest
import redis.asyncio

from envelope.codec import decode_request, encode
from envelope.events import UnknownEvent
from envelope.messages import TaskProgress, TaskRequest, TaskResult
from transport.keys import CellKeys


class NewerRequest(TaskRequest):
    mood: str


class NewerProgress(TaskProgress):
    mood: str


class NewerResult(TaskResult):
    mood: str


def newer(kind, message, **fields):
    return kind.model_validate({**message.model_dump(exclude_unset=True), "mood": "sunny", **fields})


def body_of(data: bytes) -> dict:
    return msgpack.unpackb(msgpack.unpackb(data[1:])[0])


async def test_a_worker_gets_a_newer_request_as_it_was_signed(fleet):
    request = newer(NewerRequest, fleet.request())
    await fleet.transport.submit([request])

    claim = await fleet.claim_one()

    assert claim.envelope == encode(request, keyring=fleet.transport.keyring)
    assert body_of(claim.envelope)["mood"] == "sunny"
    assert decode_request(claim.envelope, keyring=fleet.transport.keyring).task_id == request.task_id


async def test_a_request_that_was_given_back_still_has_its_senders_bytes(fleet):
    await fleet.transport.submit([newer(NewerRequest, fleet.request())])
    first = await fleet.claim_one()
    await fleet.transport.give_back(first.lease)

    assert (await fleet.claim_one()).envelope == first.envelope


async def test_readers_of_a_stream_get_events_that_they_do_not_know(fleet):
    request = await fleet.submit()
    claim = await fleet.claim_one()
    event = UnknownEvent.model_validate({"kind": "teleported", "to": "mars"})
    await fleet.transport.emit(claim.lease, newer(NewerProgress, fleet.progress(claim), events=(event,)))
    await fleet.transport.finish(claim.lease, newer(NewerResult, fleet.result(claim)))

    messages = [entry.message async for entry in fleet.transport.follow(request.trace_id)]

    assert event in [event for message in messages if isinstance(message, TaskProgress) for event in message.events]
    assert (await fleet.transport.result(request.task_id)).output.text == "done"


@pytest.mark.redis
async def test_the_stream_holds_a_newer_progress_and_result_as_they_were_sent(make_redis_fleet):
    fleet = await make_redis_fleet()
    request = await fleet.submit()
    claim = await fleet.claim_one()
    progress, result = newer(NewerProgress, fleet.progress(claim)), newer(NewerResult, fleet.result(claim))
    await fleet.transport.emit(claim.lease, progress)
    await fleet.transport.finish(claim.lease, result)

    async with redis.asyncio.Redis.from_url(fleet.url) as client:
        entries = await client.xrange(CellKeys(fleet.name).name("events", request.trace_id))

    assert {encode(progress), encode(result)} <= {value for _, fields in entries for value in fields.values()}
