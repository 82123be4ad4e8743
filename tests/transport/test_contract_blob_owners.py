"""Each tenant reads what it stored, by whoever acts for it; on every transport, with a real consumer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from envelope.ids import blob_ref
from envelope.messages import TaskResult
from transport.blobs.owners import acting_for
from transport.consumer import Consumer, Delivery
from transport.errors import NotFound

SESSION = b"what ann's tenant told its agent"


async def stored(fleet: Any, tenant: str, content: bytes = SESSION) -> str:
    with acting_for(tenant):
        return await fleet.transport.blobs.put(content)


async def read(fleet: Any, tenant: str, ref: str) -> bytes:
    with acting_for(tenant):
        return await fleet.transport.blobs.get(ref)


async def test_what_a_tenant_stored_is_read_by_it_alone_and_by_who_acts_for_nobody(fleet):
    ref = await stored(fleet, "ann")

    assert await read(fleet, "ann", ref) == SESSION
    assert await fleet.transport.blobs.get(ref) == SESSION
    with pytest.raises(NotFound) as refused:
        await read(fleet, "ben", ref)
    never = blob_ref(b"was never stored")
    with pytest.raises(NotFound) as missing:
        await read(fleet, "ben", never)
    assert str(refused.value) == str(missing.value).replace(never, ref)
    assert refused.value.hint == missing.value.hint


async def test_what_two_tenants_stored_is_both_s(fleet):
    ref = await stored(fleet, "ann")
    assert await stored(fleet, "ben") == ref

    assert [await read(fleet, tenant, ref) for tenant in ("ann", "ben")] == [SESSION, SESSION]
    with pytest.raises(NotFound):
        await read(fleet, "carl", ref)


async def test_several_at_once_are_as_much_a_tenant_s_own(fleet):
    with acting_for("ann"):
        refs = await fleet.transport.blobs.put_all([b"one", b"two"])
    for ref in refs:
        with pytest.raises(NotFound):
            await read(fleet, "ben", ref)


async def test_what_a_command_of_the_fleet_s_own_stored_is_everybody_s(fleet):
    assert await read(fleet, "ann", await fleet.transport.blobs.put(SESSION)) == SESSION


async def test_what_an_older_release_stored_is_read_until_somebody_owns_it(fleet):
    old = fleet.transport.blobs.blobs
    ref = await old.put(SESSION)

    assert await read(fleet, "ann", ref) == SESSION
    await stored(fleet, "ben")
    with pytest.raises(NotFound):
        await read(fleet, "ann", ref)


async def test_a_task_reads_and_stores_for_its_tenant(fleet):
    """In what its handler starts as well: a digest in a request of another tenant leads nowhere."""
    ref = await stored(fleet, "ann")
    own: dict[str, str] = {}

    async def handle(delivery: Delivery) -> TaskResult:
        blobs = fleet.transport.blobs
        tenant = delivery.request.tenant
        own[tenant] = await asyncio.create_task(blobs.put(f"work of {tenant}".encode()))
        try:
            text = (await asyncio.create_task(blobs.get(ref))).decode()
        except NotFound:
            text = "nothing"
        return fleet.result(delivery.claim, text)

    stop = asyncio.Event()
    consumer = Consumer(fleet.transport, pool="explore", worker="w", slots=2, handle=handle)
    serving = asyncio.create_task(consumer.run(stop))
    try:
        tasks = [await fleet.submit(tenant=tenant) for tenant in ("ann", "ben")]
        texts = [(await fleet.ended(task.task_id)).output.text for task in tasks]
    finally:
        stop.set()
        await serving

    assert texts == [SESSION.decode(), "nothing"]
    with pytest.raises(NotFound):
        await read(fleet, "ann", own["ben"])
