"""Models asked over our own HTTP: OpenAI's chat completions and Responses API, and Anthropic's messages.

What is sent and read is the wire's (`wire_openai.py`, `wire_responses.py`, `wire_anthropic.py`); who is asked is in
`providers.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import aiohttp

from envelope.redaction import redact

from ..duck import is_light
from .base import ChatMessage, Completed, Failed, Failure, ModelEvent, ToolChoice, ToolSpec
from .connections import CONNECT_TIMEOUT_S, http_session, proxy_for
from .encoding import BodyEncoder
from .failures import ProviderError, failed, interrupted, page_words
from .providers import Endpoint, endpoint
from .sse import MAX_EVENT_BYTES, EventParser, TooLong
from .wire import Json, Question, Reader, news
from .wire_openai import is_failed_call, unlisted

# Reasoning models think in silence for a minute or more; two are a connection that nobody serves.
CHUNK_TIMEOUT_S = 120.0
# A model's longest reply is about 1 MB of text, and its events many times that; more is a server gone mad.
MAX_REPLY_BYTES = 128 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
MAX_EVENT_VALUES = 1_000_000  # of a whole reply with the chances of each of its tokens
DRAIN_TIMEOUT_S = 0.25
OK = 200
# What a server may send that is no reply; `ValueError` holds JSON's and pydantic's.
ODD = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError, TooLong)
# Compressed replies arrive in lumps, and may unpack to anything.
HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream", "Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class DirectModel:
    """A model by its name with its provider before it (`openai/gpt-5`, `anthropic/…`, see `providers.py`).

    Without `api_key` and `base_url` the provider's own variables of the environment are read.
    """

    name: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    temperature: float | None = None
    chunk_timeout_s: float = CHUNK_TIMEOUT_S
    output_limit: Callable[[], int | None] = lambda: None  # tokens of the next reply at most; None: the provider's own
    effort: str = ""
    context_tokens: int = 0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # see `options.py`
    _told: list[str] = field(default_factory=list[str], repr=False, compare=False)  # see `wire.news`
    reasoning_key: str = ""  # the name under which the server wants thoughts again; see `wire.ChatRules`
    _encoder: BodyEncoder = field(default_factory=BodyEncoder, repr=False, compare=False)

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice = "auto"
    ) -> AsyncGenerator[ModelEvent, None]:
        where = endpoint(self.name, self.base_url, self.api_key, os.environ, self.reasoning_key)
        if isinstance(where, Failed):
            yield where
            return
        try:
            async with aclosing(self._asked(where, messages, tools, tool_choice)) as events:
                async for event in events:
                    if _refuses_choice(event, tool_choice):
                        break
                    yield event
                else:
                    return
            # Models that think take no such word at some providers (DeepSeek, 2026-11): then they may call, and whoever
            # asked drops the calls.
            async with aclosing(self._asked(where, messages, tools, "auto")) as events:
                async for event in events:
                    yield event
        except aiohttp.ConnectionTimeoutError:
            yield Failed(Failure.UNAVAILABLE, f"no connection to the model's server within {CONNECT_TIMEOUT_S:g} s")
        except TimeoutError:
            yield Failed(Failure.UNAVAILABLE, f"the model sent nothing for {self.chunk_timeout_s:g} s")
        except aiohttp.InvalidURL:
            yield Failed(Failure.BAD_REQUEST, redact(f"{where.url!r} is no address of a model server"))
        except (aiohttp.ClientError, OSError) as e:
            yield failed(ProviderError(message=f"the connection broke: {e}"))
        except NoReply as e:
            yield interrupted(f"instead of it came a page that says {str(e) or 'nothing'}")
        except ODD as e:
            yield failed(ProviderError(message=f"the reply cannot be read: {type(e).__name__}: {e}"))

    async def _asked(
        self, where: Endpoint, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice
    ) -> AsyncGenerator[ModelEvent, None]:
        question = Question(
            *(where.model, self.name, messages, tools, tool_choice, self.temperature, self.output_limit()),
            rules=where.rules,
            at_home=where.at_home,
            effort=self.effort,
            context_tokens=self.context_tokens,
            options=self.options,
        )
        session = await http_session()
        async with session.post(
            where.url,
            data=self._encoder.encoded(where.wire.body(question)),
            headers={**HEADERS, **where.wire.headers(where.key, question)},
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_S, sock_read=self.chunk_timeout_s),
            proxy=proxy_for(where.url),
            allow_redirects=False,  # the key is for this address
        ) as response:
            reader = where.wire.reader(question)
            if response.status != OK:
                async for event in _refused(response, where, reader, time_s=self.chunk_timeout_s):
                    yield event
                return
            completed: Completed | None = None
            try:
                async for data in _events(response, reader):
                    if not is_light(data, MAX_EVENT_VALUES):
                        raise TooLong(f"an event of more than {MAX_EVENT_VALUES} values")
                    for event in reader.read(data):
                        yield event
                        if isinstance(event, Failed):
                            return
            except (TimeoutError, aiohttp.ClientError, OSError):
                completed = reader.completed()  # one that has said how it ended is paid, and lacks nothing
                if completed is None:
                    raise
            completed = completed or reader.completed()
            if completed is None:
                yield Failed(Failure.UNAVAILABLE, "the model's reply ended before it was whole")
                return
            yield replace(completed, remarks=(*completed.remarks, *news(self._told, where.wire.remarks(question))))


def _refuses_choice(event: ModelEvent, choice: ToolChoice) -> bool:
    """Nothing was said then, and nothing is billed."""
    if choice == "auto" or not isinstance(event, Failed):
        return False
    return event.failure is Failure.BAD_REQUEST and "tool_choice" in event.message


async def _events(response: aiohttp.ClientResponse, reader: Reader) -> AsyncGenerator[bytes, None]:
    """The data of each event, to the reply's end. A server that does not stream sends one event, bare.

    `NoReply` for a page of some gateway, which comes with any status and any type.
    """
    parser, received, began, head = EventParser(), 0, False, list[bytes]()
    if response.content_type == "application/json":
        body = await _body(response, MAX_EVENT_BYTES)
        is_mislabelled = body.lstrip().startswith((b"data:", b"event:", b":"))
        for data in (*parser.feed(body), *parser.end()) if is_mislabelled else (body,):
            yield data
        return
    async for chunk in response.content.iter_any():
        received += len(chunk)
        if received > MAX_REPLY_BYTES:
            raise TooLong(f"a reply of more than {MAX_REPLY_BYTES} bytes")
        for data in parser.feed(chunk):
            began = True
            yield data
            if reader.is_over:  # what follows is no part of the reply, whatever piece it came in
                break
        if reader.is_over:
            await _drain(response)
            return
        if not began and received <= MAX_EVENT_BYTES:
            head.append(chunk)
    for data in parser.end():
        began = True
        yield data
    if not began and (page := b"".join(head).strip()):
        if not page.startswith((b"{", b"[")):
            raise NoReply(page_words(page))
        yield page


class NoReply(Exception):
    """What came is no reply of a model, but a page with these words."""


async def _drain(response: aiohttp.ClientResponse) -> None:
    """All is said, and the connection can be used again once it has ended, too. Who is slow at that is hung up on."""
    if response.content.at_eof():  # it came with the last words, as a rule
        return
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            await response.content.readany()


async def _refused(
    response: aiohttp.ClientResponse, where: Endpoint, reader: Reader, *, time_s: float
) -> AsyncGenerator[ModelEvent, None]:
    """Why; but what a model wrote wrongly is its reply, whatever status it came with."""
    if 300 <= response.status < 400:
        yield Failed(
            Failure.BAD_REQUEST, redact(f"the model's server at {where.url} sends us elsewhere; set its new address")
        )
        return
    async with asyncio.timeout(time_s):
        body = await _body(response, MAX_ERROR_BYTES)
    try:
        answer = unlisted(json.loads(body))
        if isinstance(answer, dict) and is_failed_call(cast(Json, answer).get("error")):
            for event in reader.read(body):
                yield event
            yield reader.completed() or interrupted("it holds no call")
            return
        error = where.wire.error(cast(Json, answer)) if isinstance(answer, dict) else ProviderError(str(answer))
    except ODD:  # a page of some gateway
        error = ProviderError(page_words(body))
    headers = dict(response.headers)
    provider = where.provider if where.at_home else ""
    yield failed(replace(error, status=response.status, headers=headers, provider=provider))


async def _body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """What there is of it, up to the limit."""
    parts: list[bytes] = []
    room = max_bytes
    while room > 0 and (part := await response.content.read(room)):
        parts.append(part)
        room -= len(part)
    return b"".join(parts)
