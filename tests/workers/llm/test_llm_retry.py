"""Waiting and trying again. Time, chance and waiting are passed in."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from envelope.budget import Usage
from workers.llm.base import Completed, Failed, Failure, Text
from workers.llm.failures import retry_after_s
from workers.llm.prices import Price, cost_microusd
from workers.llm.retry import Retrying, RetryPolicy, wait_ms

BUSY = Failed(Failure.RATE_LIMIT, "slow down")
DOWN = Failed(Failure.UNAVAILABLE, "no answer")
DONE = Completed("whole", "", (), "stop", Usage())


class Replay:
    """A model whose calls go as the list says, one entry a call."""

    name = "test/replay"

    def __init__(self, *calls) -> None:
        self.calls = list(calls)

    async def stream(self, messages, tools):
        for event in self.calls.pop(0):
            yield event


class Waits(list):
    async def pause(self, seconds: float) -> None:
        self.append(seconds)


async def ask(model: Replay, waits: Waits, **options) -> tuple[list, list]:
    retries = []
    retrying = Retrying(model, retries.append, jitter=lambda: 0.0, pause=waits.pause, **options)
    return [event async for event in retrying.stream([], [])], retries


@pytest.mark.parametrize(
    ("failure", "attempt", "jitter", "expected_ms"),
    [
        (DOWN, 1, 0.0, 2_000),
        (DOWN, 1, 0.5, 3_000),
        (DOWN, 3, 0.0, 8_000),
        (DOWN, 5, 0.9, 30_000),
        (Failed(Failure.RATE_LIMIT, "", 7.0), 1, 0.0, 7_000),
        (Failed(Failure.RATE_LIMIT, "", 90.0), 5, 0.0, 90_000),
        (Failed(Failure.RATE_LIMIT, "", 0.5), 1, 0.0, 2_000),
    ],
)
def test_waits_grow_to_a_cap_and_are_never_shorter_than_asked(failure, attempt, jitter, expected_ms):
    assert wait_ms(failure, attempt, policy=RetryPolicy(), jitter=jitter) == expected_ms


async def test_what_a_failed_try_streamed_is_void():
    waits = Waits()

    events, retries = await ask(Replay([Text("wh"), DOWN], [Text("whole"), DONE]), waits)

    assert events == [Text("wh"), Text("whole"), DONE]
    assert [(retry.attempt, retry.wait_ms, retry.reason) for retry in retries] == [(1, 2_000, "no answer")]
    assert waits == [2.0]


async def test_five_tries_are_all():
    waits = Waits()

    events, retries = await ask(Replay(*[[BUSY]] * 6), waits)

    assert events == [BUSY]
    assert waits == [2.0, 4.0, 8.0, 16.0]
    assert len(retries) == 4


@pytest.mark.parametrize(
    "failure", [Failure.AUTH, Failure.UNKNOWN_MODEL, Failure.BAD_REQUEST, Failure.OVERFLOW, Failure.CONTENT_FILTER]
)
async def test_what_will_not_pass_is_not_tried_again(failure):
    waits = Waits()

    events, retries = await ask(Replay([Failed(failure, "no")]), waits)

    assert events == [Failed(failure, "no")]
    assert waits == retries == []


async def test_no_wait_goes_beyond_the_deadline():
    waits = Waits()

    events, _ = await ask(Replay([BUSY], [BUSY], [DONE]), waits, time_left_s=lambda: 3.0)

    assert events == [BUSY]
    assert waits == [2.0]


async def test_a_stream_without_an_end_counts_as_failed():
    events, retries = await ask(Replay([Text("x")], [DONE]), Waits())

    assert events[-1] == DONE and len(retries) == 1


NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "expected_s"),
    [
        ({}, None),
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
    ],
)
def test_both_forms_of_retry_after_are_understood(headers, expected_s):
    assert retry_after_s(headers, now=NOW) == expected_s


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (Usage(), 0),
        (Usage(input_tokens=1), 3),
        (Usage(input_tokens=1_000_000, output_tokens=1_000_000), 18_000_000),
        (Usage(input_tokens=1_000, cached_tokens=900), 300 + 270),
        (Usage(output_tokens=1), 15),
    ],
)
def test_a_cost_is_whole_micro_dollars(usage, expected):
    assert cost_microusd(Price(3_000_000, 15_000_000, 300_000), usage) == expected


def test_a_part_of_a_micro_dollar_is_charged_whole():
    assert cost_microusd(Price(100_000, 0), Usage(input_tokens=1)) == 1
