"""Cassettes that somebody made to be costly: what they take grows with their bytes alone."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from envelope.budget import Usage
from envelope.errors import ErrorCode
from workers.errors import BadInput
from workers.llm.base import ChatMessage, Completed
from workers.llm.cassette import Call, Request, call_line, request_of, written
from workers.recording.dubbed import Dubbed
from workers.recording.player import Player
from workers.recording.reading import entries_of

SAID = Completed("done", "", (), "stop", Usage())


def peak_bytes(make: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        made = make()
        assert made is not None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def many_calls(messages: int, calls: int) -> bytes:
    """A call with so many messages, and others that ask the same again."""
    first = call_line(None, Request("m", ({},) * messages, ()), (SAID,))
    more = first.model_copy(update={"kept": messages, "added": ()})
    return "\n".join(map(written, [first, *[more] * (calls - 1)])).encode()


@pytest.mark.parametrize("of", [Dubbed, lambda cassette: Player(tuple(entries_of(cassette)))], ids=["dubbed", "player"])
def test_calls_that_repeat_a_long_request_take_no_more_memory_than_their_lines(of):
    cassette = many_calls(messages=20_000, calls=400)

    assert peak_bytes(lambda: of(cassette)) < 50 * len(cassette)  # requests of their own would be 64 MB


@pytest.mark.parametrize(
    ("cassette", "what"),
    [
        (b" " * (64 * 1024 * 1024 + 1), "67,108,865 bytes"),
        (b" " * (16 * 1024 * 1024 + 1), "16,777,217 bytes in one line"),
        (b"\n".join([b"[" * 500_000] * 5), "2,500,000 brackets"),
        (b'{"kind": "kept", "name": "x", "value": [' + b"{}," * 500_000, "500,002 brackets in one line"),
        (b'{"kind": "exhausted"}\n' * 100_001, "100,001 lines"),
    ],
)
def test_a_cassette_longer_than_any_session_is_refused_with_its_reason(cassette, what):
    with pytest.raises(BadInput, match=f"cannot be read: it has {what}, and at most ") as refused:
        list(entries_of(cassette))

    assert "record a shorter task" in refused.value.hint


async def test_each_call_is_compared_with_its_whole_request():
    """The player makes requests as it plays; they are those that were recorded."""
    messages = [ChatMessage(role="user", content=str(n)) for n in range(3)]
    requests = [request_of("m", messages[:count], ()) for count in (2, 3, 1)]
    calls: list[Call] = []
    for before, now in zip([None, *requests], requests, strict=False):
        calls.append(call_line(before, now, (SAID,)))
    player = Player(calls)

    assert [player.reply(request) for request in requests] == [(SAID,)] * 3
    assert (player.calls, player.turn) == (3, 3)


@pytest.mark.redis
@pytest.mark.docker
async def test_a_task_whose_cassette_is_too_long_says_so(start_agents, asked):
    hands, server = await start_agents('rules: [{reply: {text: "ok"}}]')
    ref = await hands.transport.blobs.put(b'{"kind": "kept", "name": "x", "value": [' + b"[]," * 600_000)

    now = await hands.result(asked(hands, "change other", params={"replay": ref}))

    assert [error.code for error in now.errors] == [ErrorCode.BAD_INPUT]
    assert "brackets in one line, and at most 500,000 are read" in now.errors[0].message
    assert server.log.requests == 0
