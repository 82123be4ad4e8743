"""What is too large for an envelope is refused before anything is stored, and says which part of it is."""

from __future__ import annotations

import pytest

from envelope.codec import MAX_MESSAGE_BYTES
from envelope.ids import new_trace_id
from transport.errors import NotFound, Refused


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("input", {"input": {"prompt": "x" * MAX_MESSAGE_BYTES}}),
        ("input", {"input": {"params": {"rows": ["y" * 1000] * 1100}}}),
        ("output_schema", {"output_schema": {"enum": ["z" * 1000] * 1100}, "input": {"prompt": "x" * 10_000}}),
    ],
)
async def test_a_request_that_no_envelope_can_hold_is_refused_with_its_largest_field_named(fleet, name, fields):
    small = fleet.request()  # near: all or none holds for what lives in one cell
    large = fleet.request(trace_id=new_trace_id(near=small.trace_id), **fields)

    with pytest.raises(Refused, match=f"^{name}: .*over the limit") as refusal:
        await fleet.transport.submit([small, large])
    assert refusal.value.field == name and "blobs" in refusal.value.hint
    for request in (small, large):
        with pytest.raises(NotFound):
            await fleet.transport.record(request.task_id)


async def test_a_request_just_below_the_limit_arrives_whole(fleet):
    prompt = "x" * (MAX_MESSAGE_BYTES - 2000)
    request = await fleet.submit(input={"prompt": prompt})

    assert (await fleet.transport.request(request.task_id)).input.prompt == prompt
