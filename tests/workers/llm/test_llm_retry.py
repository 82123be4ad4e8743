"""Waiting and trying again. Time, chance and waiting are passed in."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.budget import Usage
from workers.llm.base import Completed, Failed, Failure, Text
from workers.llm.failures import ProviderError, failed
from workers.llm.prices import Price, cost_microusd
from workers.llm.retry import MAX_WAIT_MS, Retrying, is_retryable, wait_ms
from workers.llm.retry_after import asked_ms

BUSY = Failed(Failure.RATE_LIMIT, "slow down")
DOWN = Failed(Failure.UNAVAILABLE, "no answer")
DONE = Completed("whole", "", (), "stop", Usage())


class Replay:
    """A model whose calls go as the list says, one entry a call."""

    name = "test/replay"

    def __init__(self, *calls) -> None:
        self.calls = list(calls)

    async def stream(self, messages, tools, tool_choice="auto"):
        for event in self.calls.pop(0):
            yield event


class Waits(list):
    async def pause(self, seconds: float) -> None:
        self.append(seconds)


async def ask(model: Replay, waits: Waits, **options) -> tuple[list, list]:
    retries = []
    retrying = Retrying(model, retries.append, jitter=lambda: 0.0, pause=waits.pause, **options)
    return [event async for event in retrying.stream([], [])], retries


LARGER = "Request too large for m on tokens per minute (TPM): Limit 8,000, Requested 9,000, please reduce your message"
NOW_MS = int(datetime(2026, 11, 21, 12, 0, tzinfo=UTC).timestamp() * 1000)


def busy(**headers: str) -> Failed:
    return Failed(Failure.RATE_LIMIT, "", {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize(
    ("failure", "attempt", "jitter", "expected_ms"),
    [
        (DOWN, 1, 0.0, 2_000),
        (DOWN, 1, 0.5, 3_000),
        (DOWN, 3, 0.0, 8_000),
        (DOWN, 4, 0.9, 30_000),
        (DOWN, 5, 0.0, 30_000),
        (DOWN, 10**9, 0.0, 30_000),
        (busy(retry_after="7"), 1, 0.0, 7_000),
        (busy(retry_after="90"), 5, 0.0, 90_000),
        (busy(retry_after="1"), 1, 0.0, 1_000),  # shorter than our own, and taken
        (busy(retry_after="1"), 4, 0.0, 2_000),  # but not for all tries in a row
        (busy(retry_after_ms="1"), 1, 0.0, 250),
        (busy(retry_after="4"), 1, 0.5, 4_500),
        (busy(retry_after="Sat, 21 Nov 2026 12:00:20 GMT"), 1, 0.9, 24_500),
        (busy(x_ratelimit_remaining_tokens="0", x_ratelimit_reset_tokens="1m3s"), 1, 0.0, 63_000),
        (busy(retry_after="9" * 18), 1, 0.0, MAX_WAIT_MS),
        (ProviderError(status=503, headers={"Retry-After": "40"}), 1, 0.0, 40_000),
    ],
)
def test_waits_grow_to_a_cap_unless_the_provider_says_how_long(failure, attempt, jitter, expected_ms):
    assert wait_ms(failure, attempt, now_ms=NOW_MS, jitter=lambda: jitter) == expected_ms


class Raised(Exception):
    """As an HTTP library raises it."""

    def __init__(self, message: str, **attributes: object) -> None:
        super().__init__(message)
        self.__dict__.update(attributes)


@pytest.mark.parametrize(
    ("error", "expected_ms"),
    [
        ({"status": 429, "headers": {"Retry-After": 7}}, 7_000),
        ({"status": 429, "headers": {"retry-after-ms": 2_500.5, "retry-after": "9"}}, 2_501),
        ({"status_code": 503}, 2_000),
        ({"message": "You have hit your rate limit"}, 2_000),
        ({}, 2_000),
        (SimpleNamespace(status=502, headers=None), 2_000),
        (SimpleNamespace(response=SimpleNamespace(status_code=429, headers=[("Retry-After", "4")])), 4_000),
        (Raised("slow down", status_code=429, response=SimpleNamespace(headers={"retry-after": "5"})), 5_000),
        (ConnectionResetError(104, "connection reset by peer"), 2_000),
        (TimeoutError(), 2_000),
        (None, 2_000),
        ({"headers": "no map", "status": "UNAVAILABLE"}, 2_000),
        # waiting does not help
        ({"status": 401}, None),
        ({"status": 403, "headers": {"retry-after": "5"}}, None),
        ({"status": 422, "message": "bad schema"}, None),
        ({"status": 413}, None),
        ({"status": "401"}, None),
        ({"code": "context_length_exceeded"}, None),
        (Raised("prompt is too long"), None),
        (Raised("no such model", status_code=404), None),
        (Failed(Failure.AUTH, "no"), None),
        (Failed(Failure.OVERFLOW, "full"), None),
        (ProviderError("no", 400), None),
    ],
)
def test_an_error_may_come_from_anywhere(error: object, expected_ms: int | None):
    assert wait_ms(error, 1, now_ms=NOW_MS, jitter=lambda: 0.0) == expected_ms


@given(attempt=st.integers(1, 5), asked_s=st.integers(0, 120))
def test_by_chance_too_a_wait_keeps_its_bounds(attempt, asked_s):
    waited = wait_ms(busy(retry_after=str(asked_s)), attempt, now_ms=NOW_MS)

    assert waited is not None
    own = min(2_000 * 2 ** (attempt - 1), 30_000)
    if asked_s == 0:  # it does not say
        assert own <= waited <= min(2 * own, 30_000)
    else:
        assert max(asked_s * 1000, own / 8) <= waited <= max(asked_s * 1000, own / 8) + min(asked_s * 250, 5_000) + 1


@pytest.mark.parametrize(
    ("headers", "expected_ms"),
    [
        ({}, 0),
        ({"Retry-After": "3"}, 3_000),
        ({"retry-after": "1.2"}, 2_000),
        ({"retry-after-ms": "250", "retry-after": "9"}, 250),
        ({"retry-after-ms": "250.5"}, 251),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9_000),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT"}, 30_000),
        ({"retry-after": "Sat, 21 Nov 2026 13:00:30 +0100"}, 30_000),
        ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, 0),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "500ms"}, 500),
        ({"retry-after": "1m2.5s"}, 62_500),
        ({"retry-after": "inf"}, 0),
        ({"retry-after-ms": "nan"}, 0),
    ],
)
def test_every_form_of_retry_after_is_understood(headers, expected_ms):
    assert asked_ms(headers, now_ms=NOW_MS) == expected_ms


@given(header=st.one_of(st.text(), st.from_regex(r"[A-Z][a-z]{2}, \d{1,6} Nov \d{1,9} \d+:\d\d:\d\d [-+]?\d{1,9}")))
def test_whatever_a_server_writes_is_a_wait_within_bounds(header):
    assert 250 <= (wait_ms(busy(retry_after=header), 1, now_ms=NOW_MS) or 0) <= MAX_WAIT_MS
    assert asked_ms({"retry-after-ms": header}, now_ms=NOW_MS) >= 0


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        # passes, perhaps
        (ProviderError("internal", 500), Failure.UNAVAILABLE),
        (ProviderError("bad gateway", 502), Failure.UNAVAILABLE),
        (ProviderError("", 599), Failure.UNAVAILABLE),
        (ProviderError("", 429), Failure.RATE_LIMIT),
        (ProviderError("", 408), Failure.UNAVAILABLE),
        (ProviderError("", 409), Failure.UNAVAILABLE),
        (ProviderError("connection reset by peer"), Failure.UNAVAILABLE),
        (ProviderError("incorrect header check", kind="ZlibError"), Failure.UNAVAILABLE),
        (ProviderError("You have hit your rate limit"), Failure.RATE_LIMIT),
        (ProviderError("Too Many Requests", 400), Failure.RATE_LIMIT),
        (ProviderError('{"error": {"code": "rate_limit_exceeded"}}', 400), Failure.RATE_LIMIT),
        (ProviderError('{"code": "RESOURCE_EXHAUSTED"}', 400), Failure.RATE_LIMIT),
        (ProviderError('{"status": "UNAVAILABLE"}', 400), Failure.UNAVAILABLE),
        (ProviderError('{"type": "overloaded_error"}', 400), Failure.UNAVAILABLE),
        (ProviderError("not found", 404, provider="openai"), Failure.UNAVAILABLE),
        (ProviderError("rate limit: too many tokens in this minute", 429), Failure.RATE_LIMIT),
        # never passes
        (ProviderError("no", 400), Failure.BAD_REQUEST),
        (ProviderError("no", 418), Failure.BAD_REQUEST),
        (ProviderError("no", 401), Failure.AUTH),
        (ProviderError("no", 402), Failure.AUTH),
        (ProviderError("the rate limit of this key is 0", 403), Failure.AUTH),
        (ProviderError("insufficient_quota", 429), Failure.AUTH),
        (ProviderError("Your account has insufficient balance", 429), Failure.AUTH),
        (ProviderError("check it", 429, kind="exceeded_current_quota_error"), Failure.AUTH),
        (ProviderError("Your credit balance is too low to access the API", 400), Failure.AUTH),
        (ProviderError("not found", 404), Failure.UNKNOWN_MODEL),
        (ProviderError("the model `x` does not exist", 404, provider="openai"), Failure.UNKNOWN_MODEL),
        (ProviderError("blocked by the content filter", 400), Failure.CONTENT_FILTER),
        (ProviderError("", 413), Failure.OVERFLOW),
        (ProviderError("", 400), Failure.OVERFLOW),
        (ProviderError("400 status code (no body)", 400), Failure.OVERFLOW),
        (ProviderError("litellm.BadRequestError: OpenAIException - ", 400), Failure.OVERFLOW),
        (ProviderError("", 400, kind="context_length_exceeded"), Failure.OVERFLOW),
        (ProviderError("input length and `max_tokens` exceed context limit: 9 + 2 > 10", 400), Failure.OVERFLOW),
        (ProviderError("This model's maximum context length is 8192 tokens", 429), Failure.OVERFLOW),
        (ProviderError(f"Request too large for model `m`: {LARGER}", 413), Failure.OVERFLOW),
        (ProviderError(f"Request too large for gpt-4o: {LARGER}", 429), Failure.OVERFLOW),
        (ProviderError(LARGER.replace("9,000", "7,000"), 429), Failure.RATE_LIMIT),
        (
            ProviderError("Rate limit reached: Limit 8000, Used 7000, Requested 1500. Try again in 2s"),
            Failure.RATE_LIMIT,
        ),
    ],
)
def test_what_a_provider_says_is_judged(error, failure):
    passes = {Failure.RATE_LIMIT, Failure.UNAVAILABLE}

    assert error.failure is failure
    assert is_retryable(error) is is_retryable(failed(error)) is (failure in passes)


# The wordings themselves are in the tests of `overflow.py`.
@pytest.mark.parametrize("status", [None, 400, 413, 500])
@pytest.mark.parametrize("said", ["prompt is too long", "litellm.BadRequestError: maximum context length is 8 tokens"])
def test_a_full_window_is_known_by_its_words_and_never_tried_again(said, status):
    assert ProviderError(said, status).failure is Failure.OVERFLOW


def test_a_failure_keeps_what_says_when_to_come_again_and_nothing_secret():
    said = "litellm.RateLimitError: use sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789 later"
    failure = failed(ProviderError(said, 429, {"Retry-After": "3", "Set-Cookie": "id=1"}))

    assert failure.headers == {"retry-after": "3"}
    assert failure.message.startswith("the model provider says: use ") and "abcdefghij" not in failure.message


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
