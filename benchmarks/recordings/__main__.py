"""Recorded exchanges with model providers, read by our codecs and judged by an oracle that knows nothing of them.

    python -m benchmarks.recordings exchanges.jsonl.gz [--wire openai] [--id PART] [--cuts full|sample] [--json]

A line of the file has `id`, `wire`, `host`, `status`, `headers`, `body` (base64) and `request`. Each body is served by
a loopback server, whole and in several dresses, and asked for as the loop does: by `DirectModel` on our own wires, by
litellm for Gemini and Bedrock. Then the reply goes into a session, is stored, loaded and sent back, and the next
request must hold what the vendor wants to see again. Streams are also cut in two in-process. The recordings stay
outside of the repository.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gzip
import json
import os
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workers.agent.history import with_reply
from workers.agent.session import Session
from workers.llm.base import CallDelta, ChatMessage, ChatModel, Completed, Failed, ModelEvent, Reasoning, Text, ToolSpec
from workers.llm.direct import ODD, DirectModel
from workers.llm.litellm import LiteLlmModel
from workers.llm.providers import PROVIDERS, endpoint
from workers.llm.sse import EventParser
from workers.llm.wire import Question

from . import bedrock, oracle, restream
from .back import lost
from .server import DRESSES, OF_JSON, Replayer, Reply, dressed, replaying
from .truth import ANSWER, CALLS, ERROR, INTERRUPTED, LENGTH, PAUSED, REFUSED, Truth

EXCLUSIONS = Path(__file__).with_name("exclusions.json")
OWN_WIRES = ("openai", "anthropic", "responses")
# A host's provider, as litellm and `providers.py` name it; who is not there speaks like OpenAI.
PROVIDER_OF = {
    "anthropic": "anthropic",
    "openrouter": "openrouter",
    "deepseek": "deepseek",
    "groq": "groq",
    "xai": "xai",
    "mistral": "mistral",
    "z.ai": "zai",
    "moonshot": "moonshot",
    "alibaba": "dashscope",
    "cerebras": "cerebras",
    "ollama": "ollama",
    "11434": "ollama",
}
KEY = "sk-nobody-0123456789"
TOOLS = [ToolSpec("nothing", "Does nothing.", {"type": "object", "properties": {}})]
ASKED = ChatMessage(role="user", content="Begin.")
KINDS = {
    "stop": ANSWER,
    "tool_calls": CALLS,
    "length": LENGTH,
    "content_filter": REFUSED,
    "refusal": REFUSED,
    "pause": PAUSED,
}
WHOLE_BYTES, BEYOND = 4096, 200  # every cut up to here, and so many after it
SAMPLED = 50


@dataclass(frozen=True)
class Exchange:
    id: str
    wire: str
    host: str
    status: int
    content_type: str
    body: bytes
    model: str

    @property
    def is_stream(self) -> bool:
        return self.status == 200 and "event-stream" in self.content_type

    def truth(self, body: bytes) -> Truth:
        return oracle.read(self.wire, self.host, self.status, self.content_type, body)


@dataclass
class Verdict:
    """What is wrong, as short classes; nothing where all is right. `excluded`: why it cannot be."""

    exchange: Exchange
    kind: str = ""
    wrong: tuple[str, ...] = ()
    excluded: str = ""
    cuts: int = 0  # places at which its stream was cut in two

    def line(self) -> str:
        said = {"id": self.exchange.id, "wire": self.exchange.wire, "host": self.exchange.host, "kind": self.kind}
        return json.dumps(said | {"right": not (self.wrong or self.excluded), "wrong": self.wrong} | self._exclusion())

    def _exclusion(self) -> dict[str, str]:
        return {"excluded": self.excluded} if self.excluded else {}


def loaded(path: Path) -> Iterable[Exchange]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            body = base64.b64decode(row["body"])
            fields = {name.lower(): value for name, value in row["headers"].items()}
            asked = row.get("request") if isinstance(row.get("request"), dict) else {}
            model = asked.get("model") or next(iter(_models(row.get("uri") or "")), "recorded")
            kind = fields.get("content-type", "application/json")
            yield Exchange(row["id"], row["wire"], row["host"], row["status"], kind, body, model)


def _models(uri: str) -> Iterable[str]:
    return re.findall(r"/models?/([^/:?]+)", uri)


def exclusions() -> dict[str, str]:
    reasons: dict[str, list[str]] = json.loads(EXCLUSIONS.read_text())
    return {one: reason for reason, ids in reasons.items() for one in ids}


# --- what we read


def reading(events: list[ModelEvent]) -> Truth:
    """Our events in the oracle's terms."""
    end = events[-1] if events else None
    if isinstance(end, Failed):
        kind = REFUSED if end.failure.value == "content_filter" else ERROR
        return Truth(kind=kind, error=end.failure.value)
    if not isinstance(end, Completed):
        return Truth(error="no end")
    kind = KINDS.get(end.finish_reason, end.finish_reason)
    if kind in (ANSWER, CALLS):
        kind = CALLS if end.tool_calls else ANSWER
    usage = end.usage
    counted = {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cached": usage.cached_tokens,
        "cache_write": usage.cache_write_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    calls = [oracle.Call(call.id, call.name, json.dumps(call.input)) for call in end.tool_calls]
    return Truth(kind=kind, text=end.text, reasoning=end.reasoning, calls=calls, usage=counted)


def compared(truth: Truth, ours: Truth) -> list[str]:
    """Classes of what differs. Where the kind does, the rest follows from it."""
    if truth.kind != ours.kind and ours.kind not in truth.also:
        if INTERRUPTED in (truth.kind, *truth.also) and ours.error == "unavailable":
            return []
        if truth.error == "tool_use_failed" and ours.kind == CALLS:  # told to the model by way of a call
            return []
        return [f"{_name(truth)} read as {_name(ours)}"]
    if truth.kind == ERROR and ours.kind == ERROR:
        return [] if truth.error == ours.error else [f"{_name(truth)} read as {_name(ours)}"]
    if truth.kind not in (ANSWER, CALLS, LENGTH, PAUSED) or ours.kind != truth.kind:
        return []
    wrong: list[str] = []
    if not _same_text(truth, ours.text):
        wrong.append("text")
    if "".join(truth.reasoning.split()) != "".join(ours.reasoning.split()):
        wrong.append("reasoning")
    wrong += _calls_compared(truth, ours)
    if truth.usage and ours.usage:
        wrong += [f"usage: {name}" for name, count in truth.usage.items() if ours.usage[name] != count]
        wrong += [
            f"usage: no {name}" for name in ("input", "output") if name not in truth.usage and not ours.usage[name]
        ]
    return wrong


def _name(one: Truth) -> str:
    return f"{one.kind} ({one.error})" if one.error else one.kind


def _same_text(truth: Truth, text: str) -> bool:
    if truth.pieces > 1:  # how texts that came apart are joined is ours to say
        return "".join(truth.text.split()) == "".join(text.split())
    return truth.text == text


def _calls_compared(truth: Truth, ours: Truth) -> list[str]:
    if len(truth.calls) != len(ours.calls):
        return ["calls: too many" if len(ours.calls) > len(truth.calls) else "calls: too few"]
    pairs = list(zip(truth.calls, ours.calls, strict=True))
    wrong = ["calls: name"] if any(true.name != read.name for true, read in pairs) else []
    # What broken JSON was meant to say is a guess that nobody can judge.
    if any(true.arguments is not None and true.arguments != read.arguments for true, read in pairs):
        wrong.append("calls: arguments")
    return wrong


async def heard(model: ChatModel, messages: Iterable[ChatMessage]) -> list[ModelEvent]:
    return [event async for event in model.stream(tuple(messages), TOOLS)]


def told_as_said(events: list[ModelEvent]) -> list[str]:
    """Watchers must hear what the reply says at its end. How a refusal is worded is ours to say."""
    end = events[-1] if events else None
    if not isinstance(end, Completed) or KINDS.get(end.finish_reason) == REFUSED:
        return []
    texts = "".join(event.text for event in events if isinstance(event, Text)) == end.text
    thoughts = "".join(event.text for event in events if isinstance(event, Reasoning)) == end.reasoning
    parts = "".join(event.text for event in events if isinstance(event, CallDelta))
    whole = sorted(parts) == sorted("".join(call.arguments for call in end.tool_calls))
    return [] if texts and thoughts and whole else ["events differ from the reply"]


# --- one exchange


async def judged(exchange: Exchange, replayer: Replayer, cuts: str) -> Verdict:
    try:
        truth = exchange.truth(exchange.body)
    except ValueError:
        return Verdict(exchange, excluded="no oracle for this wire")
    if exchange.wire not in OWN_WIRES:
        return Verdict(exchange, truth.kind, tuple(await _by_litellm(exchange, truth, replayer)))
    wrong, places = await _as_it_came(exchange, truth, replayer, cuts)
    if exchange.status == 200 and not exchange.is_stream and truth.kind not in (ERROR, INTERRUPTED):
        body = restream.streamed(exchange.wire, exchange.body)
        other = replace(exchange, body=body, content_type=restream.STREAM)
        found, places = await _as_it_came(other, other.truth(body), replayer, cuts)
        wrong += [f"as a stream: {one}" for one in found if one not in wrong]
    return Verdict(exchange, truth.kind, tuple(dict.fromkeys(wrong)), cuts=places)


async def _as_it_came(exchange: Exchange, truth: Truth, replayer: Replayer, cuts: str) -> tuple[list[str], int]:
    name, where = _where(exchange, replayer.url)
    if exchange.wire == "responses" and not where.url.endswith("/responses"):
        return ["no codec"], 0
    wrong: list[str] = []
    whole = Truth()
    for way in DRESSES if exchange.is_stream else OF_JSON:
        body = dressed(exchange.body, way)
        true = exchange.truth(body)
        model = _asked_at(replayer, name, exchange, Reply(exchange.status, exchange.content_type, body, way))
        events = await heard(model, [ASKED])
        ours = reading(events)
        found = [*compared(true, ours), *told_as_said(events)]
        if way == "plain":
            whole = ours
            wrong += found or await _sent_back(exchange, truth, name, model, events[-1], replayer)
            continue
        wrong += [f"{way}: {one}" for one in found if one not in wrong]
        if true == truth and ours != whole:
            wrong.append(f"{way}: reads otherwise than plain")
    places = 0
    for way in ("plain", "crlf") if exchange.is_stream else ():
        tried, differs = _cut(exchange, name, where, cuts, way)
        places += tried
        wrong += [f"cut ({way})"] * differs
    return wrong, places


def _where(exchange: Exchange, url: str) -> tuple[str, Any]:
    provider = next((name for part, name in PROVIDER_OF.items() if part in exchange.host), "openai")
    if exchange.wire == "anthropic":
        provider = "anthropic"
    if provider not in PROVIDERS:
        provider = "openai"
    name = f"{provider}/{exchange.model}"
    return name, endpoint(name, url + _root(exchange), KEY, {})


def _root(exchange: Exchange) -> str:
    return {"anthropic": "", "openai": "/v1", "responses": "/v1/responses"}[exchange.wire]


def _asked_at(replayer: Replayer, name: str, exchange: Exchange, reply: Reply) -> DirectModel:
    return DirectModel(name, base_url=replayer.serve(reply) + _root(exchange), api_key=KEY)


async def _sent_back(
    exchange: Exchange,
    truth: Truth,
    name: str,
    model: DirectModel | LiteLlmModel,
    reply: ModelEvent,
    replayer: Replayer,
) -> list[str]:
    """The reply goes the way of a session that is stored and loaded; what is asked next is caught."""
    if not isinstance(reply, Completed) or truth.kind not in (ANSWER, CALLS):
        return []
    session = with_reply(Session(agent="build", model=name, messages=(ASKED,)), reply, keep_calls=True)
    messages = list(Session.model_validate_json(session.model_dump_json()).messages)
    messages += [
        ChatMessage(role="tool", tool_call_id=call.id, name=call.name, content="done") for call in reply.tool_calls
    ] or [ChatMessage(role="user", content="Go on.")]
    await heard(model, messages)
    return lost(exchange.wire, exchange.host, truth, replayer.last_asked(model.base_url))


def _cut(exchange: Exchange, name: str, where: Any, cuts: str, way: str) -> tuple[int, bool]:
    """Cut in two at many places the events must be the same, and so must what is read of them: at how many, and does
    any differ?"""
    body = dressed(exchange.body, way)
    whole = _parsed([body])
    ours = reading(_fed(name, where, whole))
    chance = random.Random(exchange.id)
    places: set[int] = set(chance.sample(range(len(body)), min(BEYOND if cuts == "full" else SAMPLED, len(body))))
    if cuts == "full":
        places.update(range(1, min(len(body), WHOLE_BYTES)))
    cut = ([body[:place], body[place:]] for place in sorted(places))
    other = (events for pieces in cut if (events := _parsed(pieces)) != whole)
    return len(places), any(reading(_fed(name, where, events)) != ours for events in other)


def _parsed(chunks: list[bytes]) -> list[bytes]:
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.end()


def _fed(name: str, where: Any, events: list[bytes]) -> list[ModelEvent]:
    reader = where.wire.reader(Question(where.model, name, [ASKED], TOOLS))
    read: list[ModelEvent] = []
    try:
        for data in events:
            read += reader.read(data)
            if reader.is_over or any(isinstance(event, Failed) for event in read):
                break
        return read if read and isinstance(read[-1], Failed) else [*read, reader.completed()]
    except ODD:
        return read


async def _by_litellm(exchange: Exchange, truth: Truth, replayer: Replayer) -> list[str]:
    """litellm is asked for streams: a whole reply is served as the stream that says the same."""
    os.environ.setdefault("AWS_REGION_NAME", "us-east-1")
    body, kind = exchange.body, exchange.content_type
    if exchange.status == 200 and kind.startswith("application/json"):
        if exchange.wire == "gemini":  # its stream's events have the same form
            body, kind = b"data: %b\n\n" % json.dumps(json.loads(body)).encode(), "text/event-stream"
        else:
            body, kind = bedrock.streamed(body), bedrock.STREAM
    address = replayer.serve(Reply(exchange.status, kind, body))
    name = f"gemini/{exchange.model}" if exchange.wire == "gemini" else f"bedrock/converse/{exchange.model}"
    model = LiteLlmModel(name, base_url=f"{address}/v1", api_key="nobody-0123456789")
    events = await heard(model, [ASKED])
    wrong = compared(truth, reading(events)) + told_as_said(events)
    return wrong or await _sent_back(exchange, truth, name, model, events[-1], replayer)


# --- all of them


async def judge_all(exchanges: Iterable[Exchange], cuts: str, *, as_json: bool = False) -> list[Verdict]:
    excluded = exclusions()
    verdicts: list[Verdict] = []
    async with replaying() as replayer:
        for exchange in exchanges:
            reason = excluded.get(exchange.id, "")
            verdict = Verdict(exchange, excluded=reason) if reason else await judged(exchange, replayer, cuts)
            verdicts.append(verdict)
            if as_json:
                print(verdict.line(), flush=True)
            replayer.forget()
    return verdicts


def report(verdicts: list[Verdict]) -> str:
    rows: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        rows[verdict.exchange.wire, verdict.exchange.host].append(verdict)
    lines = [f"{'wire':10} {'host':42} {'right':>6} {'wrong':>6} {'excluded':>9}"]
    for (wire, host), found in sorted(rows.items()):
        lines.append(_row(wire, host, found))
    for wire in sorted({wire for wire, _ in rows}):
        lines.append(_row(wire, "all", [v for v in verdicts if v.exchange.wire == wire]))
        classes = Counter(one for v in verdicts if v.exchange.wire == wire for one in v.wrong)
        lines += [f"    {count:5} {one}" for one, count in classes.most_common()]
    cut = [v for v in verdicts if v.cuts]
    differ = sum(any("cut (" in one or "reads otherwise" in one for one in v.wrong) for v in cut)
    told = f"{differ} of them read otherwise" if differ else "none of them reads otherwise in any piece or dress"
    lines.append(f"{len(cut)} streams, cut in two at {sum(v.cuts for v in cut)} places: {told}")
    left = Counter(v.excluded for v in verdicts if v.excluded)
    lines += ["excluded", *(f"    {count:5} {reason}" for reason, count in left.most_common())] if left else []
    return "\n".join(lines)


def _row(wire: str, host: str, found: list[Verdict]) -> str:
    wrong, excluded = sum(bool(v.wrong) for v in found), sum(bool(v.excluded) for v in found)
    return f"{wire:10} {host:42} {len(found) - wrong - excluded:6} {wrong:6} {excluded:9}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recordings", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--wire", help="only this one")
    parser.add_argument("--id", default="", help="only exchanges with this in their id")
    parser.add_argument("--cuts", choices=("full", "sample"), default="sample")
    parser.add_argument("--json", action="store_true", help="a line for each exchange, and no table")
    told = parser.parse_args()
    chosen = (e for e in loaded(told.file) if told.wire in (None, e.wire) and told.id in e.id)
    verdicts = asyncio.run(judge_all(chosen, told.cuts, as_json=told.json))
    if not told.json:
        print(report(verdicts))
    sys.exit(any(verdict.wrong for verdict in verdicts))


if __name__ == "__main__":
    main()
