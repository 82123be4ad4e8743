"""A stored session that somebody else wrote: what a worker's Redis password can change lets nothing run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import redis

from envelope.asks import AskTerms, Reply
from envelope.errors import ErrorCode
from envelope.ids import blob_ref
from envelope.lifecycle import State
from envelope.messages import TaskInput
from tests.workers.test_asks import AGENTS, SCOPE, answer, opened, struck
from workers.sessions.checkpoints import Head, Work

pytestmark = [pytest.mark.redis, pytest.mark.docker]

CALLS = "reply: {tool_calls: [{name: bash, arguments: {command: git log -1}}]}"
ANOTHER = CALLS.replace("-1", "-2")  # a third time the same call would be asked for as a circle
SCRIPT = f"""
rules:
  - {{when: {{user_contains: go}}, times: 1, {CALLS}}}
  - {{when: {{user_contains: next}}, times: 1, {CALLS}}}
  - {{when: {{user_contains: last}}, times: 1, {ANOTHER}}}
  - {{reply: {{text: done}}}}
"""

NO_SEGMENT = blob_ref(b"[]")


def task(hands, workspace, prompt, **fields):
    told = {"agent": "asker", "auth_scope": SCOPE, "workspace": workspace, "input": TaskInput(prompt=prompt)}
    return hands.request(**{"asks": AskTerms(), **told, **fields})


@pytest.fixture
def forge(stranger, redis_server):
    """`await forge(kind, id, change)`: a changed session under a task's or session's name, by who has the password."""

    async def forge(kind, name, change) -> None:
        with redis.Redis.from_url(redis_server.url, decode_responses=True) as raw:
            keys: Any = raw.keys(f"*{stranger.fleet}:*{kind}:{name}")
            [key] = keys
            head = Head.load(await stranger.blobs.get(raw.hget(key, "checkpoint")))
            raw.hset(key, "checkpoint", await stranger.blobs.put(change(head).dump()))

    return forge


async def test_what_a_stranger_writes_into_a_session_as_allowed_is_asked(start_agents, workspace, forge):
    hands, _ = await start_agents(SCRIPT, agents=AGENTS)
    first = await hands.result(task(hands, workspace, "hello"))
    grants = {"approved": ("*:*",), "approved_in": (first.task_id,)}
    await forge("session", first.resume_token, lambda head: head.model_copy(update=grants))

    later = task(hands, workspace, "go", resume_token=first.resume_token)
    await hands.transport.submit([later])

    [asked] = await opened(hands, later)
    assert asked.patterns == ("git log -1",)


async def test_a_session_is_not_allowed_what_was_allowed_to_another(start_agents, workspace, forge):
    hands, _ = await start_agents(SCRIPT, agents=AGENTS)
    first = await hands.result(task(hands, workspace, "hello"))
    other = task(hands, workspace, "go")
    await hands.transport.submit([other])
    [asked] = await opened(hands, other)
    await answer(hands, other.task_id, asked, Reply(choice="always", rules=asked.always))
    await hands.ended(other.task_id)
    grants = {"approved_in": (other.task_id, "no-task")}
    await forge("session", first.resume_token, lambda head: head.model_copy(update=grants))

    later = task(hands, workspace, "go", resume_token=first.resume_token)
    await hands.transport.submit([later])

    assert [one.patterns for one in await opened(hands, later)] == [("git log -1",)]


async def test_what_people_have_allowed_for_good_is_not_asked_again_in_their_session(start_agents, workspace):
    hands, _ = await start_agents(SCRIPT, agents=AGENTS)
    first = task(hands, workspace, "go")
    await hands.transport.submit([first])
    [asked] = await opened(hands, first)
    await answer(hands, first.task_id, asked, Reply(choice="always", rules=asked.always))
    token = (await hands.ended(first.task_id)).resume_token

    for prompt in ("next", "last"):  # also by the one after the next, for which nobody was asked anything
        later = await hands.result(task(hands, workspace, prompt, resume_token=token))

        assert (later.status, len(later.tool_calls)) == (State.COMPLETED, 1)
        assert await hands.events(later.trace_id, "ask_opened") == []


async def test_a_call_that_a_stranger_puts_under_an_ask_is_asked_for_itself(start_agents, workspace, stranger, forge):
    hands, _ = await start_agents(SCRIPT, agents=AGENTS)
    request = task(hands, workspace, "go", asks=AskTerms(approved=("bash:echo *",)))
    await hands.transport.submit([request])
    [asked] = await opened(hands, request)

    def changed(head):
        [one] = head.open_turn
        call = one.call.model_copy(update={"input": {"command": "touch stolen"}})
        free = asked.model_copy(update={"patterns": ("echo one",), "detail": "touch stolen"})
        forged = replace(one, call=call, result=replace(one.result, asks=(free,), missing=()))
        return head.model_copy(update={"open_turn": (forged,)})

    await forge("task", request.task_id, changed)
    await stranger.answer(request.task_id, asked.ask_id, "once", by="alice")

    _, again = await opened(hands, request, 2)
    assert (again.patterns, again.detail) == (("touch stolen",), "touch stolen")
    await answer(hands, request.task_id, again, "once")
    assert (await hands.ended(request.task_id)).status is State.COMPLETED


async def test_a_yes_to_what_a_stranger_lets_redaction_hide_is_none(start_agents, workspace, stranger, forge):
    hands, _ = await start_agents(SCRIPT, agents=AGENTS)
    request = task(hands, workspace, "go")
    await hands.transport.submit([request])
    [asked] = await opened(hands, request)
    command = "touch stolen #\n-----BEGIN PRIVATE KEY-----\ntouch harm\n-----END PRIVATE KEY-----"

    def changed(head):
        [one] = head.open_turn
        call = one.call.model_copy(update={"input": {"command": command}})
        hiding = asked.model_copy(update={"ask_id": "ask_hiding", "detail": command})
        forged = replace(one, call=call, result=replace(one.result, asks=(hiding,), missing=()))
        return head.model_copy(update={"open_turn": (forged,)})

    await forge("task", request.task_id, changed)
    await stranger.answer(request.task_id, asked.ask_id, "once", by="alice")
    _, hiding = await opened(hands, request, 2)
    place = await hands.until(request.trace_id, lambda progress: progress.status is State.WAITING)
    await answer(hands, request.task_id, hiding, "once")

    await hands.until(request.trace_id, lambda progress: struck(progress.events), after=place)


@pytest.mark.parametrize(
    "change", [lambda head: Work(changes=None), lambda head: head.model_copy(update={"log": NO_SEGMENT})]
)
async def test_what_is_no_session_is_told_as_that(start_agents, workspace, stranger, forge, change):
    hands, _ = await start_agents(SCRIPT, agents=AGENTS)
    first = await hands.result(task(hands, workspace, "hello"))
    await stranger.blobs.put(b"[]")
    await forge("session", first.resume_token, change)

    later = await hands.result(task(hands, workspace, "go", resume_token=first.resume_token))

    [error] = later.errors
    assert (error.code, later.attempt) == (ErrorCode.BAD_INPUT, 1)
    assert error.message.startswith("what is stored of the session cannot be read (sha256:")
