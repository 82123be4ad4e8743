"""What tasks ask, as a client sees and answers it; the worker is played by hand."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from lab.waiting import past_the_moment

from envelope.agents import AgentCard, WorkerCard
from envelope.asks import AskTerms, Option, Question, Reply, read_reply
from envelope.events import AskOpened
from envelope.lifecycle import State
from orchestrator.approvals import approve_in, approved_in
from orchestrator.asks import find_ask, reply_to
from orchestrator.errors import Answered, BadInput
from orchestrator.submit import task_request
from transport.audit import TIMEOUT

DOC = Path(__file__).parent.parent.parent.parent / "docs" / "agents" / "asks.md"
FIELDS = {"agent": "build", "pool": "build", "auth_scope": ("read:**",), "deadline_ms": 60_000}
LOG = AskOpened(ask_id="ask_aaaa0001", permission="bash", patterns=("git log",), always=("bash:git log *",))
OLD_LOG = AskOpened(ask_id="ask_aaaa0002", permission="bash", patterns=("git log -9",), always=("bash:git log *",))
PUSH = AskOpened(ask_id="ask_aaaa0003", permission="bash", patterns=("git push",), always=("bash:git push *",))
COLOUR = Question(question="Which?", options=(Option(label="Red"), Option(label="Blue")), multiple=True, custom=False)
CHOICE = AskOpened(ask_id="ask_q", permission="question", questions=(COLOUR, Question(question="Why?")))
PLAN = AskOpened(ask_id="ask_p", permission="plan_exit", questions=(Question(question="May it?"),))


async def asking(stage, *asks: AskOpened, **fields) -> str:
    """A task that has parked with these asks; its id."""
    await stage.transport.submit([task_request(**{**FIELDS, **fields})])
    return await (await stage.claimed()).ask(*asks)


async def test_open_asks_are_those_that_are_waited_for_in_their_order(any_stage):
    task_id = await asking(any_stage, PUSH, LOG)
    await any_stage.transport.answer(task_id, PUSH.ask_id, "once", by="me")

    assert [(one.task.task_id, one.ask) for one in await any_stage.muster.asks()] == [(task_id, LOG)]
    assert (await find_ask(any_stage.transport, "0001")).ask == LOG
    with pytest.raises(Answered, match="me has answered this already: once"):
        await find_ask(any_stage.transport, PUSH.ask_id)


async def test_who_waits_longest_is_listed_first_however_many_are_younger(any_stage):
    first = await asking(any_stage, PUSH)
    await past_the_moment(any_stage.transport)
    second = await asking(any_stage, LOG)
    await past_the_moment(any_stage.transport)
    await any_stage.crowd()
    for number in range(250):  # more than a page
        await asking(any_stage, LOG.model_copy(update={"ask_id": f"ask_more{number}"}))

    asks = await any_stage.muster.asks()

    assert [one.task.task_id for one in asks[:2]] == [first, second]
    assert len(asks) == 252
    assert (await find_ask(any_stage.transport, PUSH.ask_id)).task.task_id == first


async def test_a_plain_no_answers_what_else_its_task_asks(any_stage):
    task_id = await asking(any_stage, LOG, PUSH)
    other_id = await asking(any_stage, OLD_LOG)
    one = await find_ask(any_stage.transport, LOG.ask_id)

    await any_stage.muster.reply(one, Reply(choice="reject"))

    answers = await any_stage.transport.answers(task_id)
    assert {ask_id: read_reply(answer.text).choice for ask_id, answer in answers.items()} == {
        LOG.ask_id: "reject",
        PUSH.ask_id: "reject",
    }
    assert (await any_stage.muster.record(task_id)).state is State.PENDING
    assert await any_stage.transport.answers(other_id) == {}


async def test_always_answers_what_it_covers_and_is_kept_for_the_project(any_stage):
    task_id = await asking(any_stage, LOG, OLD_LOG, PUSH, asks=AskTerms(project="/home/me/project"))
    one = await find_ask(any_stage.transport, LOG.ask_id)

    await any_stage.muster.reply(one, reply_to(LOG, "always"), by="me")

    answers = await any_stage.transport.answers(task_id)
    assert {ask_id: read_reply(answer.text).choice for ask_id, answer in answers.items()} == {
        LOG.ask_id: "always",
        OLD_LOG.ask_id: "once",
    }
    kept = any_stage.muster.settings.state_dir
    assert approved_in(kept, "/home/me/project") == ("bash:git log *",)
    assert approved_in(kept, "/home/me/another") == ()


async def test_of_two_answers_the_first_stands(any_stage):
    await asking(any_stage, LOG, PUSH)
    one = await find_ask(any_stage.transport, LOG.ask_id)
    await any_stage.muster.reply(one, Reply(choice="reject", message="no"), by="ann")

    again = await any_stage.muster.reply(one, Reply(choice="reject", message="no"), by="ann")
    for other in (Reply(choice="once"), Reply(choice="reject", message="no")):
        with pytest.raises(Answered) as told:
            await any_stage.muster.reply(one, other, by="bob")

    assert again.by == "ann"
    assert (told.value.by, told.value.reply.message) == ("ann", "no")
    assert told.value.message == "ann has answered this already: reject, no"
    assert told.value.hint == f'that stands; say more to the agent with: muster task prompt {one.task.task_id} "…"'
    with pytest.raises(Answered, match="ann has answered"):
        await find_ask(any_stage.transport, LOG.ask_id)


async def test_an_ask_of_a_task_that_has_ended_still_knows_its_answer(any_stage):
    task_id = await asking(any_stage, LOG)
    await any_stage.transport.answer(task_id, LOG.ask_id, "reject", by=TIMEOUT)
    await any_stage.muster.cancel(task_id)

    with pytest.raises(Answered, match="nobody answered this in time: reject"):
        await find_ask(any_stage.transport, "0001")
    with pytest.raises(BadInput, match="no open ask has an id that ends in '9999'"):
        await find_ask(any_stage.transport, "9999")


@pytest.mark.redis
async def test_the_python_of_the_page_runs(served_stage, monkeypatch):
    for name in ("redis_url", "fleet", "state_dir"):
        monkeypatch.setenv(f"MUSTER_{name.upper()}", str(getattr(served_stage.muster.settings, name)))
    agent = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**",))
    await served_stage.transport.announce(WorkerCard(worker="w", pool="build", slots=1, agents=(agent,)), ttl_s=60)
    task_id = await asking(served_stage, LOG)
    [snippet] = re.findall(r"```python\n(.*?)```", DOC.read_text(), re.DOTALL)

    await eval(compile(snippet, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {})

    answers = await served_stage.transport.answers(task_id)
    assert read_reply(answers[LOG.ask_id].text) == Reply(choice="reject", message="not on a Friday")
    [newest, *_] = await served_stage.muster.tasks()
    assert (await served_stage.muster.request(newest.task_id)).asks == AskTerms(timeout_ms=600_000)


@pytest.mark.parametrize(
    ("ask", "choice", "fields", "reply"),
    [
        (LOG, "Once", {}, Reply(choice="once")),
        (LOG, "always", {}, Reply(choice="always", rules=("bash:git log *",))),
        (LOG, "reject", {"message": "why"}, Reply(choice="reject", message="why")),
        (CHOICE, "", {"says": ["blue, red", "so"]}, Reply(choice="once", answers=(("Blue", "Red"), ("so",)))),
        (CHOICE, "", {"says": ["red"]}, Reply(choice="once", answers=(("Red",), ()))),
        (CHOICE, "reject", {}, Reply(choice="reject")),
        (PLAN, "yes", {}, Reply(choice="once", answers=(("yes",),))),
        (PLAN, "no", {"message": "smaller"}, Reply(choice="reject", message="smaller")),
    ],
)
def test_a_persons_words_become_a_reply(ask, choice, fields, reply):
    assert reply_to(ask, choice, **fields) == reply


@pytest.mark.parametrize(
    ("ask", "choice", "fields", "fault"),
    [
        (LOG, "maybe", {}, "'maybe' is no answer"),
        (LOG, "", {}, "asks for a permission"),
        (LOG, "once", {"message": "go"}, "goes with a refusal"),
        (AskOpened(ask_id="x", permission="bash_unparsed", patterns=("eval x",)), "always", {}, "for good"),
        (CHOICE, "once", {}, "this is a question"),
        (CHOICE, "", {"says": ["", " "]}, "this is a question"),
        (CHOICE, "", {"says": ["green", "so"]}, "'green' is not offered"),
        (CHOICE, "", {"says": ["red", "so", "more"]}, "2 questions and 3 answers"),
    ],
)
def test_what_is_no_answer_is_said_to_be_none(ask, choice, fields, fault):
    with pytest.raises(BadInput, match=fault) as error:
        reply_to(ask, choice, **fields)

    assert error.value.hint or "questions" in fault


def test_who_has_more_to_say_than_a_yes_is_told_how():
    with pytest.raises(BadInput) as error:
        reply_to(LOG, "once", message="go", task_id="t-7")

    assert error.value.hint == 'say more to the agent with: muster task prompt t-7 "…"'


def test_a_spoilt_file_of_approvals_allows_nothing(tmp_path):
    approve_in(tmp_path, "p", ["bash:ls *"])
    [file] = (tmp_path / "approvals").glob("*.json")
    file.write_text('{"approved": [7]}')

    with pytest.raises(BadInput, match="cannot be read"):
        approved_in(tmp_path, "p")
