"""What the processes of a command's runners tell of their tests' code, over a pipe that only the platform reads.

See `inside/digest.py` for who tells it. A line counts that is signed with a key which was told before code under test
ran; whoever says something else, or takes words away, leaves an account that is not whole.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import ValidationError

from envelope.recipe import CodeDigest
from sandbox.base import Command, Sandbox, Service

MAX_SAID_BYTES = 16 * 1024 * 1024  # about 100,000 tests; what comes after is read, so that nobody waits, and dropped
# A result travels in at most 1 MiB, beside names of tests: what is more is put together, file by file.
MAX_CARRIED_CHARS = 96 * 1024
END_TIMEOUT_S = 10.0
LISTS = ("changed", "plugins", "files", "plugin_files", "libraries", "modules")
LISTEN = ["sh", "-c", 'umask 077; mkfifo "$0" && echo ready && exec cat <>"$0"']


@dataclass(slots=True)
class Listener:
    """A pipe inside the sandbox, read by the platform from before a command begins until after it has ended."""

    sandbox: Sandbox
    pipe: str
    _service: Service
    _end: str = field(default_factory=lambda: secrets.token_hex(16))
    _said: bytearray = field(default_factory=bytearray)
    _reading: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, sandbox: Sandbox, pipe: str) -> Listener | None:
        """None where a sandbox has no named pipes: nothing is told there."""
        service = await sandbox.start([*LISTEN, pipe])
        listener = cls(sandbox, pipe, service)
        if await service.receive() != b"ready\n":
            await service.stop()
            return None
        listener._reading = asyncio.create_task(listener._read())
        return listener

    async def _read(self) -> None:
        end, tail = self._end.encode(), b""
        while (data := await self._service.receive()) and end not in tail + data:
            tail = data[-len(end) :]
            self._said += data[: max(0, MAX_SAID_BYTES - len(self._said))]
        if data:
            self._said += data.partition(end)[0]

    async def all_said(self) -> bytes:
        """Once the command has ended."""
        assert self._reading is not None
        say = ["sh", "-c", 'echo "$1" 1<>"$0"', self.pipe, self._end]
        ended = await self.sandbox.exec(Command(say, timeout_s=END_TIMEOUT_S))
        if ended.exit_code == 0:  # else the pipe is not there any more, and nobody says the end
            await asyncio.wait([self._reading], timeout=END_TIMEOUT_S)
        return bytes(self._said)

    async def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._service.stop()


@dataclass(slots=True)
class _Process:
    """One that has introduced itself. `messages` are those that it has said to the end."""

    key: bytes
    ancestry: Sequence[str]  # ids of processes, its own first
    messages: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    next_number: int = 0
    parts: list[str] = field(default_factory=list[str])
    is_whole: bool = True

    def hear(self, sign: str, body: str) -> None:
        number, left, text = body.split(" ", 2)
        digest = hashlib.blake2b(body.encode(), key=self.key, digest_size=16).hexdigest()
        if not secrets.compare_digest(digest.encode(), sign.encode()):
            return
        self.is_whole &= int(number) == self.next_number
        self.next_number += 1
        self.parts.append(text)
        if left == "0":
            message: object = json.loads("".join(self.parts))
            if not isinstance(message, dict):
                raise ValueError("no message")
            self.messages.append(cast("dict[str, Any]", message))
            self.parts.clear()


def digest_in(said: bytes) -> CodeDigest | None:
    """None unless the first process told all, and nothing went wrong in any that did."""
    processes: dict[str, _Process] = {}
    for line in said.decode("ascii", "replace").splitlines():
        try:
            first, second, rest = line.split(" ", 2)
            if first == "hello":
                key, *ancestry = rest.split()
                processes.setdefault(second, _Process(bytes.fromhex(key), ancestry))
            elif first in processes:
                processes[first].hear(second, rest)
        except (ValueError, RecursionError):
            continue  # nobody of ours
    told = list(processes.values())
    if not told or not told[0].messages or not all(one.is_whole for one in told if one.messages):
        return None
    runners = {one.ancestry[0] for one in told if one.ancestry}
    for one in told:
        if not runners.isdisjoint(one.ancestry[1:]):  # a worker, or a test's own session: another tells how many failed
            one.messages = [{**message, "failed": 0, "passed": None} for message in one.messages]
    messages = [message for one in told for message in one.messages]
    if any(message.get("wrong") for message in messages):
        return None
    try:
        return _carried(_together(messages))
    except (ValidationError, TypeError, KeyError):
        return None


def _together(messages: Iterable[Mapping[str, Any]]) -> CodeDigest:
    """Of all sessions: a test that was another in one of them counts as both."""
    tests: dict[str, set[str]] = {}
    code: dict[str, dict[str, set[str]]] = {}
    runner: dict[str, set[str]] = {}
    lists: dict[str, set[str]] = {name: set() for name in LISTS}
    failed, passed = 0, None
    changed_in: dict[str, str] = {}
    elsewhere: set[str] = set()
    for message in messages:
        _add(tests, message["tests"])
        _add(runner, message["runner"])
        for path, names in message["code"].items():
            _add(code.setdefault(path, {}), names)
        for name, found in lists.items():
            found.update(message[name])
        for said in message["changed"]:
            path = message["changed_in"].get(said)
            if path is None or changed_in.setdefault(said, path) != path:
                elsewhere.add(said)
        failed += message["failed"]
        if message["passed"] is not None:
            passed = (passed or 0) + message["passed"]
    lists["libraries"] -= sys.stdlib_module_names  # taken out here: the Python inside may be too old to name them
    return CodeDigest.model_validate(
        {
            "tests": _joined(tests),
            "code": {path: _joined(names) for path, names in code.items()},
            "runner": _joined(runner),
            **{name: tuple(sorted(found)) for name, found in lists.items()},
            "changed_in": {said: path for said, path in sorted(changed_in.items()) if said not in elsewhere},
            "failed": failed,
            "passed": passed,
        }
    )


def _add(to: dict[str, set[str]], more: Mapping[str, str]) -> None:
    for key, digest in more.items():
        to.setdefault(key, set()).add(digest)


def _joined(sets: Mapping[str, set[str]]) -> dict[str, str]:
    return {key: "+".join(sorted(digests)) for key, digests in sorted(sets.items())}


def _carried(digest: CodeDigest) -> CodeDigest:
    """Of many tests those of a file are one: which of them differs is not told then, that one does is."""
    size = len(json.dumps([dict(digest.tests), {path: dict(names) for path, names in digest.code.items()}]))
    return digest if size <= MAX_CARRIED_CHARS else digest.by_file()
