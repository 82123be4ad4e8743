"""A model's server for the program in the sandbox, and for nothing else: it listens on the sandbox's own loopback.

Keys stay with the worker, and so does the choice of the model. A reply is passed on when it is whole: a try that breaks
off is made again without the program's noticing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from repo.fairness import beside
from sandbox.base import MIB, Sandbox, Service
from sandbox.errors import SandboxError
from transport.blobs.owners import acting_tenant

from ..agent.budget import Stop
from ..duck import Splitter, is_light
from ..errors import BadInput
from ..llm.base import Completed, Failed, Failure, ToolCall
from ..llm.dialect_parts import Json
from ..llm.dialects import DIALECTS, Dialect
from ..llm.script import Conversation, Reply, ScriptedCall
from .asked import READERS, BadQuestion, Question, read_question
from .inside import bridge
from .meter import Answer, Meter

BRIDGE = Path(bridge.__file__).read_text("utf-8")
START_TIMEOUT_S = 30.0
# Clients give up on a stream that says nothing; many after a minute.
SIGN_OF_LIFE_S = 10.0
SIGN_OF_LIFE = ": the model is at work\n\n"
MAX_LINE_BYTES = 50 * MIB  # the largest body, escaped as badly as can be
MAX_VALUES = 1000  # of what the bridge says around a body, which is one text
# At once: the bridge lets no more through, but a program that has its user can speak in its place.
MAX_REQUESTS = 16
# In a task: as many calls as it may make. What is answered without a model costs no money, but this process's time.
MAX_ASKED = 10_000
PIECE_CHARS = 64 * 1024
EVENTS, JSON = "text/event-stream", "application/json"
NO_MORE = 402  # no client tries again after this one
STATUS = {Failure.OVERFLOW: (400, "context_length_exceeded"), Failure.CONTENT_FILTER: (400, "content_filter")}


@dataclass(slots=True)
class Relay:
    service: Service
    meter: Meter
    on_failure: Callable[[BaseException], None]  # of our own, which ends the attempt

    async def serve(self, lines: AsyncGenerator[Json, None]) -> None:
        """Each request beside the others, until the bridge ends or says what no bridge would. A request whose client
        has left is dropped, and its model call with it if that has not begun."""
        serving: dict[int, asyncio.Task[None]] = {}
        asked = 0
        try:
            async for message in lines:
                number = message.get("id")
                if type(number) is not int:
                    return
                if message.get("gone"):
                    if number in serving:
                        serving[number].cancel()
                    continue
                asked += 1
                is_too_much = number in serving or len(serving) >= MAX_REQUESTS or asked > MAX_ASKED
                if is_too_much or not _is_request(message):
                    return
                serving[number] = asyncio.create_task(self._answer(number, message))
                serving[number].add_done_callback(lambda task, number=number: self._done(serving, number, task))
        finally:
            for task in serving.values():
                task.cancel()
            await asyncio.gather(*serving.values(), return_exceptions=True)

    def _done(self, serving: dict[int, asyncio.Task[None]], number: int, task: asyncio.Task[None]) -> None:
        serving.pop(number, None)
        if not task.cancelled() and (error := task.exception()):
            self.on_failure(error)

    async def _answer(self, number: int, message: Json) -> None:
        path = message["path"].partition("?")[0]
        dialect = DIALECTS.get(path)
        if dialect is None or path not in READERS or message["method"] != "POST":
            await self._whole(number, *_elsewhere(path, self.meter.model))
            return
        try:
            question = await beside.run(acting_tenant(), partial(read_question, path, message["body"]))
        except BadQuestion as e:
            await self._whole(number, 400, dialect.error(400, str(e), "invalid_request_error"))
            return
        asking = asyncio.create_task(self.meter.call(question.messages, question.tools))
        try:
            await self._told(number, dialect, question, asking)
        finally:
            asking.cancel()

    async def _told(self, number: int, dialect: Dialect, question: Question, asking: asyncio.Task[Answer]) -> None:
        """The answer; one that is long in coming is begun before it is there."""
        has_begun = False
        while not (await asyncio.wait([asking], timeout=SIGN_OF_LIFE_S))[0]:
            if question.streams:
                await self._part(number, *([] if has_begun else [(200, EVENTS)]), data=SIGN_OF_LIFE)
                has_begun = True
        reply = asking.result()
        if not isinstance(reply, Completed):
            status, error = _error(dialect, reply)
            if has_begun:
                await self._part(number, data=f"event: error\ndata: {json.dumps(error)}\n\n", end=True)
            else:
                await self._whole(number, status, error)
            return
        now, said = _conversation(question, self.meter.model), _reply(reply)
        if not question.streams:
            await self._whole(number, 200, dialect.whole(said, now))
            return
        pieces = dialect.stream(said, now, {"stream_options": {"include_usage": True}})
        text = b"".join(pieces).decode()
        await self._part(number, *([] if has_begun else [(200, EVENTS)]), data=text, end=True)

    async def _whole(self, number: int, status: int, answer: Json) -> None:
        await self._part(number, (status, JSON), data=json.dumps(answer), end=True)

    async def _part(self, number: int, *head: tuple[int, str], data: str, end: bool = False) -> None:
        parts: list[Json] = [{"status": status, "type": kind} for status, kind in head]
        parts += [{"data": piece} for piece in _pieces(data)]
        parts += [{"end": True}] if end else []
        lines = "".join(json.dumps({"id": number, **part}) + "\n" for part in parts)
        await self.service.send(lines.encode())


@asynccontextmanager
async def open_relay(
    sandbox: Sandbox, meter: Meter, on_failure: Callable[[BaseException], None]
) -> AsyncGenerator[str, None]:
    """Its address, as the program inside sees it. `on_failure` hears what is wrong with the task, not with a call."""
    service = await sandbox.start(["python3", "-I", "-c", BRIDGE])
    lines = _lines(service)
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            first = await anext(lines, Json())
    except TimeoutError:
        first = Json()
    if type(port := first.get("port")) is not int:
        await service.stop()
        raise BadInput("the relay to the model does not start in the sandbox", hint="its image needs python3")
    serving = asyncio.create_task(_until_gone(service, Relay(service, meter, on_failure).serve(lines)))
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _until_gone(service: Service, serving: Awaitable[None]) -> None:
    """A bridge that ends, or speaks nonsense, is the program's doing or the sandbox's end: there is none any more, and
    the program hears it."""
    with suppress(SandboxError):
        with suppress(ValueError):
            await serving
        await service.stop()


def _is_request(message: Json) -> bool:
    """What speaks for the bridge may be the program, which can say anything."""
    return all(isinstance(message.get(name), str) for name in ("path", "method", "body"))


async def _lines(service: Service) -> AsyncGenerator[Json, None]:
    splitter = Splitter()
    while data := await service.receive():
        lines = splitter.take(data)
        if len(splitter.rest) > MAX_LINE_BYTES:
            return
        for line in lines:
            yield _parsed(line)


def _parsed(line: bytes) -> Json:
    if not is_light(line, MAX_VALUES):
        raise ValueError("no request of the bridge")
    try:
        found: object = json.loads(line)
    except RecursionError as e:
        raise ValueError("nested too deep") from e
    if not isinstance(found, dict):
        raise ValueError("no object")
    return cast(Json, found)


def _elsewhere(path: str, model: str) -> tuple[int, Json]:
    if path == "/v1/models":
        return 200, {"object": "list", "data": [{"id": model, "object": "model", "created": 0, "owned_by": "muster"}]}
    return 404, {"error": {"message": f"there are: {', '.join((*READERS, '/v1/models'))}", "type": "not_found_error"}}


def _error(dialect: Dialect, reply: Failed | Stop) -> tuple[int, Json]:
    """A status that makes no client try again: that has been done."""
    if isinstance(reply, Stop):
        return NO_MORE, dialect.error(NO_MORE, f"{reply.detail}; this task gets no more model calls", "budget")
    status, code = STATUS.get(reply.failure, (400, ""))
    return status, dialect.error(status, reply.message, code)


def _conversation(question: Question, model: str) -> Conversation:
    turn = sum(message.role == "assistant" for message in question.messages) + 1
    return Conversation(model=model, system="", prompt="", opening="", user="", results=(), turn=turn, chars=0)


def _reply(reply: Completed) -> Reply:
    calls = (ScriptedCall(name=call.name, id=call.id, raw_arguments=_arguments(call)) for call in reply.tool_calls)
    return Reply(
        text=reply.text,
        reasoning=reply.reasoning,
        tool_calls=tuple(calls),
        finish_reason=reply.finish_reason,
        usage=reply.usage,
        delta_chars=PIECE_CHARS,
    )


def _arguments(call: ToolCall) -> str:
    return json.dumps(call.input) if call.repaired else call.arguments


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))
