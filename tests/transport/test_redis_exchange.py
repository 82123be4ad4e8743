"""What a server says without being asked is nobody's answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.exceptions import ConnectionError, InvalidResponse, ResponseError

from transport.redis.exchange import Exchange

TIMEOUT_S = 30.0


@asynccontextmanager
async def exchange(early: bytes = b"", *, is_lost: bool = False) -> AsyncIterator[tuple[Exchange, socket.socket]]:
    """With the server's end of its connection."""
    ours, theirs = socket.socketpair()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    try:
        yield Exchange(transport, ResponseError, early=early, is_lost=is_lost), theirs
    finally:
        transport.close()
        theirs.close()


async def test_replies_come_in_order_and_errors_stand_among_them():
    async with exchange() as (asked, server):
        server.sendall(b"+OK\r\n-ERR no\r\n$4\r\nhere\r\n")

        first, second, third = await asked.ask(
            [("SET", "k", b"\x00"), ("GET", "k"), ("GETEX", "k", "PX", 5)], TIMEOUT_S
        )

        assert (first, str(second), third) == (b"OK", "ERR no", b"here")
        assert isinstance(second, ResponseError)
        assert server.recv(100) == b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n\x00\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" + (
            b"*4\r\n$5\r\nGETEX\r\n$1\r\nk\r\n$2\r\nPX\r\n$1\r\n5\r\n"
        )
        assert not asked.is_lost


async def test_a_reply_too_many_spoils_the_connection_and_no_answer():
    async with exchange() as (asked, server):
        server.sendall(b":1\r\n:99\r\n")

        assert await asked.ask([("GET", "k")], TIMEOUT_S) == [1]
        assert asked.is_lost


async def test_words_between_two_questions_spoil_the_connection():
    async with exchange() as (asked, server):
        server.sendall(b":1\r\n")
        assert await asked.ask([("GET", "k")], TIMEOUT_S) == [1]
        assert not asked.is_lost

        asked.data_received(b":99\r\n")

        assert asked.is_lost


async def test_what_a_full_server_says_before_it_hangs_up_is_the_answer():
    async with exchange(early=b"-ERR max number of clients reached\r\n", is_lost=True) as (asked, _):
        (refusal,) = await asked.ask([("GET", "k")], TIMEOUT_S)

        assert "max number of clients" in str(refusal)


@pytest.mark.parametrize(
    ("said", "error"), [(b"$10\r\nhalf", ConnectionError), (b"HTTP/1.1 400 Bad Request\r\n\r\n", InvalidResponse)]
)
async def test_an_answer_that_does_not_come_is_an_error(said, error):
    async with exchange() as (asked, server):
        server.sendall(said)
        server.shutdown(socket.SHUT_WR)

        with pytest.raises(error):
            await asked.ask([("GET", "k")], TIMEOUT_S)


async def test_a_server_that_hung_up_before_it_was_asked_is_not_waited_for():
    async with exchange(is_lost=True) as (asked, _):
        with pytest.raises(ConnectionError):
            await asked.ask([("GET", "k")], TIMEOUT_S)


async def test_a_server_that_says_nothing_is_not_waited_for():
    async with exchange() as (asked, _):
        with pytest.raises(TimeoutError):
            await asked.ask([("GET", "k")], 0.001)
