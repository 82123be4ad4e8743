"""Notices to receivers: JSON with `type`, `timestamp` and `data`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from envelope.errors import EnvelopeError
from envelope.ids import digest_of
from envelope.logs import get_logger
from envelope.redaction import redact_head, redact_value
from transport.base import TaskRecord, Transport
from transport.errors import NotFound
from transport.notices import Happening, Kind, Notice
from transport.raising import ASK_FOR_MORE, TENANTS

from ..ask_texts import AskTexts
from ..asks import asks_of
from ..submit import BATCH
from .config import Told, Webhook
from .links import PATH, Links, Mark, link_keys

_log = get_logger("webhooks")

MAX_TEXT_CHARS = 2_000
# Whoever was away this long is told of nothing that is over since.
MAX_AGE_MS = 24 * 3600 * 1000

_WHOSE_MONEY = {ASK_FOR_MORE: "trace", TENANTS: "tenant"}


@dataclass(frozen=True, slots=True)
class Telling:
    """`public_url`: where people reach the API, for links by which an ask is answered; empty: there are none."""

    transport: Transport
    hooks: Mapping[str, Webhook]
    public_url: str = ""

    async def notices_of(self, happening: Happening, *, now_ms: int) -> list[Notice]:
        """One for each webhook that hears of it. The same happening gives the same ids."""
        if now_ms - happening.at_ms > MAX_AGE_MS:
            return []
        return [notice for notice, _ in await self._told(happening)]

    async def message(self, notice: Notice) -> str | None:
        """What the notice's receiver is sent; None: there is nothing to tell any more.

        A worker's password can write notices and read them. So what is said is taken from the task once more, a link
        answers what stands beside it, and is nowhere but in the message.
        """
        hook, happening = self.hooks[notice.hook], _happening_of(notice)
        if happening is None:
            return None
        for told, said in await self._told(happening):
            if told.id == notice.id:
                data = {**json.loads(told.body)["data"], **self._link(notice.hook, hook, said, happening.task_id)}
                return body_of(said.event, data, at_ms=happening.at_ms)
        return None

    async def _told(self, happening: Happening) -> list[tuple[Notice, _Said]]:
        events, said_of = _SAID[happening.kind]
        wanted = any(not events.isdisjoint(hook.events) for hook in self.hooks.values())
        if not wanted:
            return []
        try:
            task = await self.transport.record(happening.task_id)
            said = [each async for each in said_of(self.transport, happening, task)]
        except (NotFound, EnvelopeError) as error:  # past its retention, or spoilt: the others are told
            _log.warning("not_told", task_id=happening.task_id, what=happening.kind, error=error.message)
            return []
        return [
            (_notice(name, one, task, happening.at_ms), one)
            for one in said
            for name, hook in self.hooks.items()
            if hook.hears(one.event, task.tenant)
        ]

    def _link(self, name: str, hook: Webhook, said: _Said, task_id: str) -> dict[str, str]:
        if not said.asked or not hook.may_answer or not self.public_url:
            return {}
        mark = Mark(task_id=task_id, ask_id=said.subject, hook=name, until_ms=said.until_ms, asked=said.asked)
        return {"answer_url": f"{self.public_url.rstrip('/')}{PATH}{Links(link_keys(self.transport)).token(mark)}"}


def _notice(name: str, said: _Said, task: TaskRecord, at_ms: int) -> Notice:
    named = digest_of("webhook", name, said.event, task.task_id, said.subject)[:32]
    data = {**_head(task), **redact_value(said.data)}
    return Notice(f"msg_{named}", name, said.event, body_of(said.event, data, at_ms=at_ms), at_ms)


def _happening_of(notice: Notice) -> Happening | None:
    """What it is a notice of; None: nobody of ours has written it."""
    try:
        data = json.loads(notice.body)["data"]
        task_id, at_ms = str(data["task_id"]), notice.at_ms
        match notice.event:
            case Told.TASK_ENDED | Told.BATCH_ENDED:
                return Happening(Kind.ENDED, task_id, at_ms)
            case Told.DEAD_LETTER:
                return Happening(Kind.DEAD, task_id, at_ms, code=str(data["code"]), why=str(data["why"]))
            case Told.ASK_OPENED:
                return Happening(Kind.ASKED, task_id, at_ms, asks=(data["ask"]["ask_id"],))
            case Told.BUDGET_REACHED:
                kind = next(kind for kind, whose in _WHOSE_MONEY.items() if whose == data["of"])
                return Happening(Kind.ASKED, task_id, at_ms, asks=(f"{kind}{data['cap_microusd']}",))
            case _:
                return None
    except (ValueError, LookupError, TypeError, StopIteration, RecursionError):
        return None


def body_of(event: Told, data: Mapping[str, Any], *, at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"type": event, "timestamp": at, "data": data}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _Said:
    event: Told
    data: Mapping[str, Any]
    subject: str = ""  # tells two of one task apart
    until_ms: int = 0  # an answer counts until then
    asked: str = ""  # digest of what is asked, where all of it is told


def _head(task: TaskRecord) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "trace_id": task.trace_id,
        "agent": task.agent,
        "intent": task.intent,
        "tenant": task.tenant,
    }


async def _ended(transport: Transport, _: Happening, task: TaskRecord) -> AsyncIterator[_Said]:
    """Of what somebody submitted: the parts of it are its own affair."""
    result = None if task.parent_task_id or task.batch_id else await transport.result(task.task_id)
    if result is None:
        return
    data = {
        "status": result.status,
        "text": redact_head(result.output.text, MAX_TEXT_CHARS),
        "errors": [{"code": each.code, "message": each.message, "hint": each.hint} for each in result.errors],
        "cost_microusd": result.metrics.cost_microusd,
    }
    yield _Said(Told.BATCH_ENDED if task.agent == BATCH else Told.TASK_ENDED, data)


async def _dead(_transport: Transport, happening: Happening, task: TaskRecord) -> AsyncIterator[_Said]:
    yield _Said(Told.DEAD_LETTER, {"pool": task.pool, "code": happening.code, "why": happening.why})


async def _asked(transport: Transport, happening: Happening, task: TaskRecord) -> AsyncIterator[_Said]:
    """What was answered meanwhile needs nobody any more."""
    for name in set(happening.asks) & set(task.waits_for):
        kind, _, cap = name.rpartition(":")
        if whose := _WHOSE_MONEY.get(f"{kind}:"):
            yield _Said(Told.BUDGET_REACHED, {"cap_microusd": int(cap), "of": whose}, name)
    if not set(happening.asks) & set(task.waits_for):
        return
    for one in await asks_of([task], AskTexts(transport)):
        if one.ask.ask_id in happening.asks:
            ask = one.ask.model_dump(mode="json", exclude={"kind"})
            if one.ask.is_too_long:
                ask = {"ask_id": one.ask.ask_id, "question": "It is too long for a message; see: muster ask show"}
            asked = "" if one.ask.is_too_long else one.ask.digest()
            yield _Said(Told.ASK_OPENED, {"ask": ask}, one.ask.ask_id, one.ask.until_ms, asked)


_SAID = {
    Kind.ENDED: (frozenset({Told.TASK_ENDED, Told.BATCH_ENDED}), _ended),
    Kind.DEAD: (frozenset({Told.DEAD_LETTER}), _dead),
    Kind.ASKED: (frozenset({Told.ASK_OPENED, Told.BUDGET_REACHED}), _asked),
}
