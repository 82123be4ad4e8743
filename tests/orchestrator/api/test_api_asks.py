"""Asks by HTTP: who sees and answers one, who was first, and the links that webhooks send."""

from __future__ import annotations

import asyncio
from unittest.mock import AsyncMock

import pytest

from envelope.events import AskOpened
from orchestrator.api.tokens import Role
from orchestrator.webhooks.config import Webhook
from orchestrator.webhooks.links import PATH, Links, Mark, link_keys

pytestmark = pytest.mark.redis

PUSH = AskOpened(ask_id="ask_1", permission="bash", patterns=("git push",), detail="git push origin main")
NOBODY = "01900000-0000-7000-8000-000000000000"


async def test_an_ask_is_looked_for_among_the_callers_tasks_alone(api, monkeypatch):
    await (await api.work()).ask(PUSH)
    mine = await api.submit(who="stranger")
    transport = api.stage.transport
    trace_id = (await transport.record(mine)).trace_id
    names = ("tasks", "roots", "live_roots", "asking")
    tasks, *listings = (AsyncMock(side_effect=getattr(transport, name)) for name in names)
    for name, listing in zip(names, (tasks, *listings), strict=True):
        monkeypatch.setattr(transport, name, listing)

    async def answer(ask_id: str) -> int:
        return (await api.call("POST", f"/v1/asks/{ask_id}/answer", who="stranger", json={"choice": "once"}))[0]

    assert [await answer("x" * 100), await answer(mine)] == [404, 404]
    assert [listing.await_count for listing in (tasks, *listings)] == [0, 0, 0, 0]
    assert [await answer("ask_none"), await answer(PUSH.ask_id)] == [404, 404]
    assert {call.kwargs["trace_id"] for call in tasks.await_args_list} == {trace_id}
    for listing in listings:
        assert {call.kwargs["tenant"] for call in listing.await_args_list} == {"elsewhere"}


async def test_an_ask_is_shown_with_its_command_and_answered_once(api):
    await (await api.work()).ask(PUSH)
    shown = await api.call("GET", "/v1/asks/ask_1", who="viewer")
    wrong = await api.call("POST", "/v1/asks/ask_1/answer", who="approver", json={"choice": "perhaps"})
    api.secrets["second"] = await api.tokens.create("second", Role.APPROVER, "default")
    first = await api.call("POST", "/v1/asks/ask_1/answer", who="approver", json={"choice": "once"})
    late = await api.call("POST", "/v1/asks/ask_1/answer", who="second", json={"choice": "reject"})

    assert shown[1]["ask"]["detail"] == "git push origin main"
    assert (wrong[0], wrong[1]["title"]) == (422, "'perhaps' is no answer")
    assert (first[0], first[1]["by"]) == (200, "api:approver")
    assert (late[0], late[1]["title"]) == (409, "api:approver has answered this already: once")
    missing = await api.call("POST", "/v1/asks/ask_none/answer", who="second", json={"choice": "once"})
    strangers = await api.call("POST", "/v1/asks/ask_1/answer", who="stranger", json={"choice": "once"})
    assert (missing[0], strangers[0]) == (404, 404)


async def test_an_ask_that_is_older_than_a_thousand_roots_is_listed_shown_and_answered(api):
    task_id = await (await api.work()).ask(PUSH)
    await api.stage.crowd()

    _, listed = await api.call("GET", "/v1/asks", who="viewer")
    shown, _ = await api.call("GET", "/v1/asks/ask_1", who="viewer")
    answered, _ = await api.call("POST", "/v1/asks/ask_1/answer", who="approver", json={"choice": "once"})

    assert [one["task_id"] for one in listed] == [task_id]
    assert (shown, answered) == (200, 200)
    assert list(await api.stage.transport.answers(task_id)) == ["ask_1"]
    assert (await api.call("GET", "/v1/asks", who="viewer"))[1] == []


async def test_of_two_who_answer_at_once_one_is_told_that_the_other_was_first(api):
    task_id = await (await api.work()).ask(PUSH)
    names = ["one", "two"]
    for name in names:
        api.secrets[name] = await api.tokens.create(name, Role.APPROVER, "default")

    told = await asyncio.gather(
        *(api.call("POST", "/v1/asks/ask_1/answer", who=name, json={"choice": "reject"}) for name in names)
    )

    [standing] = (await api.stage.transport.answers(task_id)).values()
    assert sorted(status for status, _ in told) == [200, 409]
    won, lost = (next(said for status, said in told if status == wanted) for wanted in (200, 409))
    assert won["by"] == standing.by
    assert lost["title"] == f"{standing.by} has answered this already: reject"


async def linked(api, **changes) -> str:
    """The path by which the webhook `chat` answers the ask of a task that waits."""
    hook = Webhook(url="https://example.org/", secret_env="X", may_answer=True)
    api.stage.muster.settings = api.stage.muster.settings.model_copy(update={"webhooks": {"chat": hook}})
    until_ms = await api.stage.transport.now_ms() + 600_000
    mark = {
        "task_id": await (await api.work()).ask(PUSH),
        "ask_id": PUSH.ask_id,
        "hook": "chat",
        "until_ms": until_ms,
        **changes,
    }
    return PATH + Links(link_keys(api.stage.transport)).token(Mark(**mark))


async def test_whoever_has_its_link_answers_an_ask_once(api):
    path = await linked(api)
    seen = await api.call("GET", path, who="nobody")
    wrong = await api.call("POST", path, who="nobody", json={"choice": "maybe"})
    answered = await api.call("POST", path, who="nobody", json={"choice": "once"})
    again = await api.call("POST", path, who="nobody", json={"choice": "reject"})

    assert (seen[0], seen[1]["ask"]["detail"]) == (200, "git push origin main")
    assert wrong[0] == 422
    assert (answered[0], answered[1]["by"]) == (200, "webhook:chat")
    assert (again[0], again[1]["title"]) == (404, "this ask is not open any more")
    [entry] = await api.stage.transport.audit.latest(5)
    assert (entry.fields["actor"], entry.fields["action"]) == ("webhook:chat", "answer")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"hook": "other"}, 403),
        ({"until_ms": 5}, 404),
        ({"ask_id": "ask_2"}, 404),
        ({"task_id": NOBODY}, 404),
        ({"asked": "of another question"}, 404),
    ],
)
async def test_a_link_answers_nothing_else(api, changes, status):
    path = await linked(api, **changes)

    assert (await api.call("POST", path, who="nobody", json={"choice": "once"}))[0] == status
    assert len(await api.stage.muster.asks()) == 1


async def test_an_answer_to_another_question_than_was_shown_is_refused(api):
    task_id = await (await api.work()).ask(PUSH)
    shown = (await api.call("GET", f"/v1/asks/{PUSH.ask_id}", who="approver"))[1]["asked"]
    path = f"/v1/asks/{PUSH.ask_id}/answer"

    other = await api.call("POST", path, who="approver", json={"choice": "once", "asked": "0" * 64})
    assert (other[0], await api.stage.transport.answers(task_id)) == (422, {})
    assert (await api.call("POST", path, who="approver", json={"choice": "once", "asked": shown}))[0] == 200


async def test_a_link_that_a_workers_keys_signed_answers_nothing(api):
    mark = {"task_id": await (await api.work()).ask(PUSH), "ask_id": PUSH.ask_id, "hook": "chat", "until_ms": 2**50}
    path = PATH + Links(api.stage.transport.keyring).token(Mark(**mark))

    assert (await api.call("POST", path, who="nobody", json={"choice": "once"}))[0] == 403
    assert len(await api.stage.muster.asks()) == 1


async def test_a_link_that_nobody_signed_answers_nothing(api):
    status, problem = await api.call("POST", f"{PATH}a.b.c", who="nobody", json={"choice": "once"})

    assert (status, problem["title"]) == (403, "this link answers nothing")
