"""The client against servers that misbehave: real processes, real pipes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from sandbox.channel import Channel, decode, encode
from sandbox.errors import SandboxLost

SERVER = """
import json, os, struct, sys

def take(count):
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data

def receive():
    header, body = struct.unpack("!II", take(8))
    return json.loads(take(header)), take(body)

def send(header, body=b""):
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    os.write(1, struct.pack("!II", len(encoded), len(body)) + encoded + body)

send({"id": 0, "type": "ready"})
request, body = receive()
"""


class ProcessStream:
    """The standard streams of a process on this host."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.complaint = b"Traceback (most recent call last):\nValueError: broken"

    async def read(self) -> bytes:
        assert self.process.stdout is not None
        return await self.process.stdout.read(65536)

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def close(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[str], Awaitable[tuple[Channel, list[str]]]]]:
    channels: list[Channel] = []

    async def start(misbehaviour: str) -> tuple[Channel, list[str]]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-S", "-E", "-c", SERVER + misbehaviour, stdin=pipe, stdout=pipe
        )
        lost: list[str] = []
        channel = Channel(ProcessStream(process), on_lost=lambda: lost.append("lost"))
        channels.append(channel)
        await channel.ready(30)
        return channel, lost

    yield start
    for channel in channels:
        await channel.close()


Connect = Callable[[str], Awaitable[tuple[Channel, list[str]]]]


async def ask(channel: Channel, *, timeout_s: float = 30, max_bytes: int = 100):
    return await channel.call("any", {}, timeout_s=timeout_s, max_bytes=max_bytes)


async def test_a_whole_reply_arrives(connect: Connect):
    channel, lost = await connect(
        'send({"id": request["id"], "type": "data"}, b"one "); send({"id": request["id"], "type": "data"}, b"two");'
        'send({"id": request["id"], "type": "end", "op": request["op"]}); receive()'
    )
    reply = await ask(channel)

    assert (reply.body, reply.header["op"]) == (b"one two", "any")
    assert lost == []


MISBEHAVIOURS = {
    "ends": "",
    "sends a huge header": 'os.write(1, struct.pack("!II", 1 << 30, 0)); receive()',
    "sends a huge body": 'os.write(1, struct.pack("!II", 2, 1 << 31) + b"{}"); receive()',
    "sends no JSON": 'send(b"\\x80\\x04N."); receive()',
    "sends no object": "send([1, 2]); receive()",
    "sends no id": 'send({"type": "end"}); receive()',
    "sends a wrong id": 'send({"id": "1", "type": "end"}); receive()',
    "sends a boolean for an id": 'send({"id": True, "type": "end"}); receive()',
    "sends more than asked for": 'send({"id": request["id"], "type": "data"}, b"x" * 101); receive()',
    "ends within a frame": 'os.write(1, struct.pack("!II", 100, 0) + b"{")',
}


@pytest.mark.parametrize("misbehaviour", MISBEHAVIOURS.values(), ids=MISBEHAVIOURS.keys())
async def test_a_server_is_lost_that(connect: Connect, misbehaviour: str):
    channel, lost = await connect(misbehaviour)

    with pytest.raises(SandboxLost):
        await ask(channel)
    assert lost == ["lost"]
    with pytest.raises(SandboxLost):
        await ask(channel)


async def test_the_last_words_of_a_server_are_passed_on(connect: Connect):
    channel, _ = await connect("")

    with pytest.raises(SandboxLost) as lost:
        await ask(channel)
    assert "ValueError: broken" in lost.value.hint


async def test_a_silent_server_is_given_up(connect: Connect, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sandbox.channel.GRACE_S", 0.1)
    channel, lost = await connect("receive(); receive()")

    with pytest.raises(SandboxLost, match="did not answer"):
        await ask(channel, timeout_s=0.1)
    assert lost == ["lost"]


async def test_replies_to_nobody_are_dropped(connect: Connect):
    channel, lost = await connect(
        'send({"id": 77, "type": "data"}, b"x" * 60000); send({"id": 77, "type": "end"});'
        'send({"id": request["id"], "type": "end"}); receive()'
    )
    assert (await ask(channel)).body == b""
    assert lost == []


def test_frames_are_taken_off_however_they_are_cut():
    frames = [({"id": n, "type": "data"}, bytes([n]) * n) for n in range(20)]
    wire = b"".join(encode(header, body) for header, body in frames)
    for size in (1, 2, 3, 7, 64, len(wire)):
        buffer, seen = bytearray(), []
        for start in range(0, len(wire), size):
            buffer += wire[start : start + size]
            seen += decode(buffer)
        assert seen == frames
        assert buffer == b""
