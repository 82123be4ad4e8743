"""A caller's trace goes on in what it submits over HTTP; what does not read is as if it had not been sent."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.redis

NEW = {"agent": "build", "prompt": "do it", "deadline_ms": 60_000}
GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ({"traceparent": GOOD, "tracestate": "a=1, b=2"}, (GOOD, "a=1,b=2")),
        ({"traceparent": GOOD}, (GOOD, "")),
        ({"traceparent": GOOD, "tracestate": "nonsense"}, (GOOD, "")),
        ({"traceparent": "00-nonsense", "tracestate": "a=1"}, ("", "")),
        ({}, ("", "")),
    ],
)
async def test_what_a_caller_says_of_its_trace_is_in_the_envelope(api, headers, kept):
    status, told = await api.call("POST", "/v1/tasks", json=NEW, headers=headers)

    request = await api.stage.muster.request(told["task_id"])
    assert status == 201
    assert (request.traceparent, request.tracestate) == kept
