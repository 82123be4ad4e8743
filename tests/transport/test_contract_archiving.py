"""What every transport promises about sessions that are archived."""

from __future__ import annotations

import pytest

from envelope.ids import new_trace_id
from transport.errors import NotFound

SESSIONS = 2


async def ended(fleet) -> str:
    """A session that has had a turn."""
    request = await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.checkpoint(claim.lease, await fleet.transport.blobs.put(b"a session"))
    await fleet.transport.finish(claim.lease, fleet.result(claim))
    return request.task_id


async def test_a_session_is_archived_and_comes_back(fleet):
    one, two = [await ended(fleet) for _ in range(SESSIONS)]

    await fleet.transport.archive(one)
    first = await fleet.transport.archived([one, two, "another"])
    await fleet.transport.archive(one, archived=False)

    assert first == {one}
    assert await fleet.transport.archived([one, two]) == frozenset()


async def test_an_archived_session_is_gone_on_with_as_before(fleet):
    one = await ended(fleet)
    await fleet.transport.archive(one)

    await fleet.submit(resume_token=one, trace_id=new_trace_id(near=(await fleet.transport.record(one)).trace_id))

    assert (await fleet.claim_one()).session is not None
    assert await fleet.transport.archived([one]) == {one}


async def test_what_is_no_session_cannot_be_archived(fleet):
    request = await fleet.submit()

    with pytest.raises(NotFound, match="there is no session"):
        await fleet.transport.archive(request.task_id)
