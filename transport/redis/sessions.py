"""Words to a task that is under way: prompts to its session, answers to its asks, and which children it waits for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..approvals import Answer, Subject, sha256
from ..audit import told
from ..base import Handle
from ..bounds import MAX_INBOX_BYTES, MAX_PROMPTS
from ..errors import NotFound, inbox_full, no_session, no_task
from .cell import Cell

MAX_TRIES = 10  # of whoever answers, against somebody who puts another forged answer there each time


async def prompt(cell: Cell, session_id: str, text: str, by: str) -> Handle:
    # not repeatable: a prompt whose answer was lost may stand in the inbox, and twice would be a word too much
    found: list[bytes] = await cell.run(
        "prompt", session=session_id, text=text, by=by, max_prompts=MAX_PROMPTS, max_bytes=MAX_INBOX_BYTES
    )
    if not found:
        raise NotFound(
            f"no task runs the session {session_id}", hint="submit a task with it as resume_token, to go on with it"
        )
    if len(found) == 1:
        raise inbox_full(session_id)
    task, trace = found
    return Handle(task.decode(), trace.decode(), existing=True)


async def background(cell: Cell, task_id: str) -> bool:
    outcome: int = await cell.run("background", repeatable=True, task=task_id)
    if outcome < 0:
        raise no_task(task_id)
    return outcome == 1


async def answer(
    cell: Cell, subject: Subject, text: str, by: str, signed: Mapping[str, str], is_fault: Callable[[Answer], bool]
) -> Answer:
    """The answer that stands: this one, or that of whoever was first. One that is a fault gives way to it."""
    recorded = {**signed, "trace": subject.trace_id, "sha256": sha256(text)} if signed else {}
    instead, tries = b"", 0
    while True:
        standing = await cell.run(
            "answer",
            repeatable=True,
            task=subject.task_id,
            ask=subject.ask_id,
            text=text,
            told=told(text),
            by=by,
            signed=signed,
            recorded=recorded,
            instead=instead,
        )
        if not standing:
            hint = "its ask needs no answer any more"
            raise NotFound(f"the task {subject.task_id} has ended, or is not known", hint=hint)
        given, tries = _answer(standing), tries + 1
        if tries == MAX_TRIES or (given.text, given.by, given.mac) == (text, by, signed.get("mac", "")):
            return given
        if not is_fault(given):
            return given
        instead = standing


async def strike(cell: Cell, task_id: str, ask_id: str, answer: Answer) -> None:
    await cell.run("answer", repeatable=True, task=task_id, ask=ask_id, instead=answer.raw)


async def session_task(cell: Cell, session_id: str) -> str:
    [holder] = await cell.client.read_many([("HGET", cell.keys.name("session", session_id), "holder")])
    return holder.decode() if holder else session_id


async def archive(cell: Cell, session_id: str, archived: bool) -> None:
    if not await cell.run("archive", repeatable=True, session=session_id, archived=archived):
        raise no_session(session_id)


async def archived(cell: Cell, session_ids: Sequence[str]) -> frozenset[str]:
    marks = await cell.client.read_many(
        [("HEXISTS", cell.keys.name("session", session), "archived") for session in session_ids]
    )
    return frozenset(session for session, mark in zip(session_ids, marks, strict=True) if mark)


async def answers(cell: Cell, task_id: str) -> Mapping[str, Answer]:
    commands = [("EXISTS", cell.keys.name("task", task_id)), ("HGETALL", cell.keys.name("answers", task_id))]
    known, found = await cell.client.read_many(commands)
    if not known:
        raise no_task(task_id)
    return {ask.decode(errors="replace"): _answer(text) for ask, text in zip(found[::2], found[1::2], strict=True)}


def _answer(text: bytes) -> Answer:
    """What a newer sender adds is not for us. What is no answer at all was written past the scripts: by nobody."""
    try:
        fields: dict[str, Any] = json.loads(text)
        signed = {name: str(fields.get(name, "")) for name in ("asked", "key_id", "mac")}
        return Answer(str(fields["text"]), str(fields["by"]), int(fields["at_ms"]), **signed, raw=text)
    except (ValueError, TypeError, KeyError, AttributeError):
        return Answer("", "", 0, raw=text)
