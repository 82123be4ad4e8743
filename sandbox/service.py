"""The client's end of a process of the sandbox that goes on meanwhile: `Service` and `Job` in base.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

from .base import MIB, JobOutput
from .channel import MAX_REPLY_BODY_BYTES, Channel
from .errors import SandboxLost

# A service may think as long as it likes; the sandbox's own timer ends before this.
PATIENCE_S = 31 * 24 * 3600.0
START_TIMEOUT_S = 30.0
# A slice of what is sent: the server holds no more than one of them for a service that does not read.
MAX_SENT_BYTES = 1024 * 1024


class _Numbered:
    def __init__(self, channel: Channel, number: int) -> None:
        self._channel = channel
        self._number = number

    @classmethod
    async def of(
        cls, op: str, channel: Channel, arguments: Mapping[str, Any] | None = None, *, timeout_s: float
    ) -> Self:
        """What the server's answer to `op` is the number of."""
        header = (await channel.call(op, arguments or {}, timeout_s=timeout_s, max_bytes=0)).header
        number = header.get("id")
        if type(number) is not int:
            raise SandboxLost("The sandbox did not say what it has started.")
        return cls(channel, number)


class ServiceClient(_Numbered):
    _stopped = False

    @classmethod
    async def start(cls, channel: Channel, arguments: Mapping[str, Any]) -> Self:
        return await cls.of("start", channel, arguments, timeout_s=START_TIMEOUT_S)

    async def send(self, data: bytes) -> None:
        for start in range(0, len(data), MAX_SENT_BYTES):
            part = data[start : start + MAX_SENT_BYTES]
            await self._channel.call("send", {"target": self._number}, body=part, timeout_s=PATIENCE_S, max_bytes=0)

    async def receive(self) -> bytes:
        if self._stopped:
            return b""
        target = {"target": self._number}
        return (await self._channel.call("receive", target, timeout_s=PATIENCE_S, max_bytes=MAX_REPLY_BODY_BYTES)).body

    async def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            await self._channel.call("stop", {"target": self._number}, timeout_s=START_TIMEOUT_S, max_bytes=0)


class JobClient(_Numbered):
    @classmethod
    async def start(cls, channel: Channel, arguments: Mapping[str, Any]) -> Self:
        return await cls.of("spawn", channel, arguments, timeout_s=START_TIMEOUT_S)

    async def peek(self, start_byte: int = 0, *, wait_s: float = 0, max_bytes: int = 1 * MIB) -> JobOutput:
        arguments = {"target": self._number, "start_byte": start_byte, "wait_s": wait_s, "max_bytes": max_bytes}
        timeout_s = START_TIMEOUT_S + wait_s
        reply = await self._channel.call("peek", arguments, timeout_s=timeout_s, max_bytes=max_bytes)
        match reply.header:
            case {"start_byte": int(start), "duration_s": float(duration_s)}:
                exit_code: object = reply.header.get("exit_code")
                return JobOutput(
                    reply.body, start, exit_code if type(exit_code) is int else None, duration_s, names_of(reply.header)
                )
            case _:
                raise SandboxLost("The sandbox's account of a command makes no sense.")

    async def stop(self) -> None:
        await self._channel.call("stop", {"target": self._number}, timeout_s=START_TIMEOUT_S, max_bytes=0)


def names_of(header: Mapping[str, Any]) -> tuple[str, ...]:
    """The command lines of what a command has left running."""
    left: object = header.get("left")
    return tuple(str(name) for name in cast("list[object]", left)) if isinstance(left, list) else ()
