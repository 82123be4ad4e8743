"""Every provider × what it may do, over HTTP: the table of docs/models.md is made of the cases that pass here.

A reply of ours, in each provider's way (`provider_cases.toml` beside this says how, and how that was seen), is served
from loopback in the provider's own place; what is read of it is checked, and what the next request sends.
Write the table anew: `python tests/workers/llm/test_provider_matrix.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import tomllib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from aiohttp import web
from provider_replies import (
    CACHED,
    COST_MICROUSD,
    INPUT,
    OUTPUT,
    OWN,
    PATHS,
    SEAL,
    TEXT,
    THOUGHTS,
    Json,
    Say,
    chat,
    error_in_stream,
    stream,
)

from envelope.budget import Usage
from workers.agent.history import with_reply
from workers.agent.session import Session
from workers.llm.base import ChatMessage, Completed, Failed, Failure, FilePart, Reasoning, Text, ToolCall, ToolSpec
from workers.llm.direct import DirectModel
from workers.llm.litellm import LiteLlmModel
from workers.llm.providers import PROVIDERS
from workers.llm.retry import Retrying, wait_ms

PAGE = Path(__file__).parents[3] / "docs" / "models.md"
CASES: dict[str, Json] = tomllib.loads((Path(__file__).parent / "provider_cases.toml").read_text())
BEGIN, END = "<!-- providers: made by tests/workers/llm/test_provider_matrix.py -->\n", "<!-- providers: end -->\n"
ALIKE = {"ollama_chat": "ollama"}  # one provider under two names

KEY = "sk-nobody-0123456789abcdef"
READ = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
PICTURE = FilePart(blob="b", media_type="image/png", name="a.png", data="iVBORw0KGgo=")
ASKED = [ChatMessage(role="system", content="You are brief."), ChatMessage(role="user", content="Read a and b.")]
WAIT_MS = 7_000
SSE = "text/event-stream"


# --- who is asked


@dataclass
class Provider:
    """A provider in its own place: whatever it is asked, it answers with the next of `replies`."""

    case: Json
    url: str = ""
    replies: list[tuple[int, str, bytes]] = field(default_factory=list)
    bodies: list[Json] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        status, kind, body = self.replies.pop(0)
        if self.case.get("interrupted") == "connection" and self.replies:  # that is what comes after
            return await _broken(request, kind, body)
        # where a body says nothing of it, the header does
        headers = {"retry-after": "7"} if status in (429, 503) and b"7s" not in body else {}
        return web.Response(status=status, body=body, headers={"content-type": kind, **headers})

    def will_say(self, *bodies: bytes) -> None:
        kind = "application/vnd.amazon.eventstream" if self.case["wire"] == "bedrock" else SSE
        self.replies += [(200, kind, body) for body in bodies]

    def will_refuse(self, status: int, key: str, message: str) -> None:
        error = self.case.get(key) or {"error": {"message": message}}
        self.replies.append((status, "application/json", json.dumps(error).encode()))

    def model(self, **options: Any) -> DirectModel | LiteLlmModel:
        """Asked where PROVIDERS says, or where an operator does."""
        name = self.case["model"]
        if self.case["wire"] in ("gemini", "bedrock"):
            return LiteLlmModel(
                name, f"{self.url}/v1beta" if self.case["wire"] == "gemini" else self.url, KEY, **options
            )
        return DirectModel(name, "" if PROVIDERS[_prefix(self.case)].url else self.url, KEY, **options)

    async def heard(self, messages: Sequence[ChatMessage] = ASKED, **options: Any) -> list[Any]:
        return [event async for event in self.model(**options).stream(messages, [READ])]

    async def reply(self, say: Say) -> Completed:
        self.will_say(stream(self.case, say))
        completed = (await self.heard())[-1]
        assert isinstance(completed, Completed), completed
        return completed

    async def next_request(self, say: Say) -> Json:
        """What is sent after the reply, which a stored session holds, and answers to its calls."""
        reply = await self.reply(say)
        session = with_reply(
            Session(agent="build", model=self.case["model"], messages=tuple(ASKED)), reply, keep_calls=True
        )
        messages = Session.model_validate_json(session.model_dump_json()).messages
        answers = [ChatMessage(role="tool", tool_call_id=one.id, name="read", content="x") for one in reply.tool_calls]
        self.will_say(stream(self.case, Say()))
        await self.heard([*messages, *(answers or [ChatMessage(role="user", content="Go on.")])])
        return self.bodies[-1]


async def _broken(request: web.Request, kind: str, body: bytes) -> web.StreamResponse:
    """A reply whose connection breaks."""
    response = web.StreamResponse(headers={"content-type": kind})
    await response.prepare(request)
    await response.write(body)
    assert request.transport is not None
    request.transport.close()
    return response


def _prefix(case: Json) -> str:
    return case["model"].partition("/")[0]


@asynccontextmanager
async def serving(case: Json) -> AsyncGenerator[Provider]:
    provider = Provider(case)
    application = web.Application()
    application.router.add_post("/{path:.*}", provider.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    prefix = _prefix(case)
    home = (
        {prefix: replace(PROVIDERS[prefix], url=provider.url)}
        if PROVIDERS.get(prefix) and PROVIDERS[prefix].url
        else {}
    )
    try:
        with patch.dict(PROVIDERS, home), patch.dict(os.environ, {"AWS_REGION_NAME": "us-east-1"}):
            yield provider
    finally:
        await runner.cleanup()


# --- what is checked


async def text(at: Provider) -> None:
    at.will_say(stream(at.case, Say()))
    events = await at.heard()
    said = [event.text for event in events if isinstance(event, Text)]
    assert len(said) > 1 and "".join(said) == TEXT == events[-1].text
    assert events[-1].finish_reason == "stop"
    assert at.case.get("asks", {}).items() <= at.bodies[-1].items()  # what it does not do unasked


async def calls(at: Provider) -> None:
    reply = await at.reply(Say(calls=True))
    assert [(call.name, call.input) for call in reply.tool_calls] == [("read", {"path": path}) for path in PATHS]
    assert len({call.id for call in reply.tool_calls}) == 2 and reply.finish_reason == "tool_calls"


async def thoughts(at: Provider) -> None:
    at.will_say(stream(at.case, Say(thoughts=True)))
    events = await at.heard()
    told = "".join(event.text for event in events if isinstance(event, Reasoning))
    assert (told, events[-1].reasoning, events[-1].text) == (THOUGHTS, THOUGHTS, TEXT)


async def back(at: Provider) -> None:
    body = await at.next_request(Say(thoughts=True, calls=True))
    match at.case["wire"], at.case.get("thoughts"):
        case "anthropic", _:
            blocks = next(message["content"] for message in body["messages"] if message["role"] == "assistant")
            assert blocks[0] == {"type": "thinking", "thinking": THOUGHTS, "signature": SEAL}
        case "responses", _:
            kinds = [item.get("type") for item in body["input"]]
            thought = body["input"][kinds.index("reasoning")]
            assert thought["encrypted_content"] == SEAL and kinds.index("reasoning") < kinds.index("function_call")
        case "gemini", _:
            (model,) = (one for one in body["contents"] if one["role"] == "model")
            assert [one["thoughtSignature"] for one in model["parts"] if "function_call" in one] == [SEAL, SEAL]
        case "bedrock", _:
            blocks = next(message["content"] for message in body["messages"] if message["role"] == "assistant")
            assert blocks[0] == {"reasoningContent": {"reasoningText": {"text": THOUGHTS, "signature": SEAL}}}
        case _, key:
            (message,) = (one for one in body["messages"] if one["role"] == "assistant")
            sent = chat(at.case, Say(thoughts=True))["choices"][0]["message"]
            name = "content" if key == "parts" else key
            assert message[name] == sent[name]


async def own(at: Provider) -> None:
    reply = await at.reply(Say(own=True))
    assert (reply.tool_calls, reply.text) == ((), TEXT)
    body = await at.next_request(Say(own=True))
    wire = at.case["wire"]
    sent = body["input"] if wire == "responses" else body["messages"][1]["content"]
    assert [item for item in sent if item in OWN[wire]] == OWN[wire]


async def usage(at: Provider) -> None:
    told = (await at.reply(Say())).usage
    assert told.model_copy(update={"reasoning_tokens": 0}) == Usage(
        input_tokens=INPUT, output_tokens=OUTPUT, cached_tokens=CACHED
    )


async def cost(at: Provider) -> None:
    assert (await at.reply(Say())).cost_microusd == COST_MICROUSD


async def refusal(at: Provider) -> None:
    assert (await at.reply(Say(end="refusal"))).finish_reason in ("refusal", "content_filter")


async def limit(at: Provider) -> None:
    assert (await at.reply(Say(end="limit"))).finish_reason == "length"
    if is_run(seen(at.case)["thoughts"]):  # these may use it up; a message without words is refused by most
        body = json.dumps(await at.next_request(Say(text="", thoughts=True, end="limit")))
        assert not any(said in body for said in ('"role": "assistant"', '"role": "model"', THOUGHTS))


async def interrupted(at: Provider) -> None:
    at.will_say(stream(at.case, Say(end="interrupted")), stream(at.case, Say()))
    told: list[Any] = []
    model = Retrying(at.model(), told.append, pause=lambda _: asyncio.sleep(0))
    *_, completed = [event async for event in model.stream(ASKED, [READ])]
    assert isinstance(completed, Completed) and completed.text == TEXT
    assert len(completed.retries) == len(told) == 1


async def error(at: Provider) -> None:
    at.will_say(error_in_stream(at.case))
    *_, failed = await at.heard()
    assert isinstance(failed, Failed) and failed.failure in (Failure.UNAVAILABLE, Failure.RATE_LIMIT)


async def overflow(at: Provider) -> None:
    at.will_refuse(400, "overflow", "This model's maximum context length is 1000 tokens, and you sent 1200.")
    (failed,) = await at.heard()
    assert failed.failure is Failure.OVERFLOW, failed


async def wait(at: Provider) -> None:
    at.will_refuse(429, "wait", "Too many requests.")
    (failed,) = await at.heard()
    assert failed.failure is Failure.RATE_LIMIT, failed
    assert wait_ms(failed, 1, now_ms=0, jitter=lambda: 0.0) == WAIT_MS


async def effort(at: Provider) -> None:
    at.will_say(stream(at.case, Say()))
    await at.heard(effort="high", output_limit=lambda: 64_000)
    body = at.bodies[-1]
    match at.case["wire"]:
        case "anthropic":
            assert body["output_config"] == {"effort": "high"}
        case "responses":
            assert body["reasoning"]["effort"] == "high"
        case "gemini":
            assert body["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "high"
        case "bedrock":
            assert body["additionalModelRequestFields"]["thinking"]["type"] == "enabled"
        case _:
            assert body["reasoning_effort"] == "high"


async def cache(at: Provider) -> None:
    await at.next_request(Say(calls=True))
    mark = {"responses": "prompt_cache_key", "bedrock": "cachePoint"}.get(at.case["wire"], "cache_control")
    assert all(mark in json.dumps(body) for body in at.bodies)


async def pictures(at: Provider) -> None:
    call = ToolCall(id="call00000", name="read", arguments="{}", input={})
    shown = ChatMessage(role="tool", tool_call_id=call.id, name="read", content="a picture", files=(PICTURE,))
    at.will_say(stream(at.case, Say()))
    await at.heard(
        [
            ChatMessage(role="user", content="See", files=(PICTURE,)),
            ChatMessage(role="assistant", tool_calls=(call,)),
            shown,
        ]
    )
    assert json.dumps(at.bodies[-1]).count(PICTURE.data) == 2  # a user's, and a tool's


COLUMNS: dict[str, tuple[str, Callable[[Provider], Awaitable[None]]]] = {
    "text": ("streamed text", text),
    "calls": ("tool calls", calls),
    "thoughts": ("thoughts shown", thoughts),
    "back": ("thoughts sent back", back),
    "own": ("provider's own tools kept", own),
    "usage": ("usage, cached tokens", usage),
    "cost": ("cost said", cost),
    "refusal": ("refusal", refusal),
    "limit": ("cut off at the limit", limit),
    "interrupted": ("interrupted, tried again", interrupted),
    "error": ("error in the stream", error),
    "overflow": ("overflow", overflow),
    "wait": ("wait hint", wait),
    "effort": ("effort", effort),
    "cache": ("cache marks or key", cache),
    "pictures": ("pictures", pictures),
}

# --- the table

LETTERS = {
    "recording": "R",
    "schema": "S",
    "documentation": "D",
    "format": "F",
    "not offered": "-",
    "not handled": "no",
}


def seen(case: Json) -> dict[str, str]:
    return {column: source for source, columns in case["seen"].items() for column in columns.split()}


def letter(source: str) -> str:
    return LETTERS[source.partition(":")[0]]


def is_run(source: str) -> bool:
    return letter(source) not in ("-", "no")


async def row_of(case: Json) -> str:
    """Its line of the table, once all that it says has been tried."""
    sources = seen(case)
    for column, (_, check) in COLUMNS.items():
        if is_run(sources[column]):
            async with serving(case) as provider:
                try:
                    await check(provider)
                except Exception as e:
                    e.add_note(f"{case['title']}: {column}")
                    raise
    return f"| {case['title']} | {' | '.join(letter(sources[column]) for column in COLUMNS)} |\n"


def head() -> str:
    return f"| | {' | '.join(title for title, _ in COLUMNS.values())} |\n|{' --- |' * (len(COLUMNS) + 1)}\n"


def below() -> str:
    """What Muster does not do, and what nobody has seen."""
    rows = {case["title"]: seen(case) for case in CASES.values()}
    undone = [
        f"- {title}, {COLUMNS[column][0]}: {source.partition(': ')[2]}"
        for title, sources in rows.items()
        for column, source in sources.items()
        if letter(source) == "no"
    ]
    bare = [title for title, sources in rows.items() if "R" not in map(letter, sources.values())]
    unseen = [
        title for column, (title, _) in COLUMNS.items() if all(letter(one[column]) != "R" for one in rows.values())
    ]
    parts = (
        "",
        "Not done:",
        "",
        *undone,
        "",
        f"No recording shows, of any provider: {', '.join(unseen)}. Of these providers none shows anything:",
        f"{', '.join(bare)}.",
        "",
    )
    return "\n".join(parts)


def kept() -> str:
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


@pytest.mark.parametrize("name", CASES)
async def test_a_provider_does_what_its_row_of_the_page_says(name: str):
    assert await row_of(CASES[name]) in kept(), f"if it is meant so: python {Path(__file__).name}"


def test_the_page_says_the_same_around_the_rows():
    table = kept()
    assert table.startswith(head()) and table.endswith(below()), f"if it is meant so: python {Path(__file__).name}"
    assert table.count("\n|") == len(CASES) + 1


def test_every_provider_that_is_asked_directly_has_a_row_that_says_all():
    direct = {_prefix(case) for case in CASES.values()} & PROVIDERS.keys()
    assert direct | ALIKE.keys() == PROVIDERS.keys()
    for name, case in CASES.items():
        told = [column for columns in case["seen"].values() for column in columns.split()]
        assert sorted(told) == sorted(COLUMNS), name


async def written() -> str:
    return "".join([head(), *[await row_of(case) for case in CASES.values()], below()])


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + asyncio.run(written()) + END + rest.partition(END)[2])
