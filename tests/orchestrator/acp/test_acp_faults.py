"""An editor in trouble: its worker is killed, a prompt is cancelled at a bad moment, another editor has its session."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.asyncio(loop_scope="module")]


async def begun(editor, repository: Path) -> str:
    return (await editor.agent.new_session(cwd=str(repository))).session_id


async def test_a_worker_that_is_killed_in_the_middle_of_a_prompt_is_not_noticed_but_for_a_while(frail_desk):
    repository = frail_desk.repository({"a.txt": "one\n"})
    async with frail_desk.editing() as editor:
        session = await begun(editor, repository)
        prompt = asyncio.create_task(editor.say(session, "be cut off, number 21"))
        await editor.until(session, lambda _: "I am about" in editor.said(session))
        os.kill(await asyncio.to_thread(worker_at_work, frail_desk), signal.SIGKILL)
        response = await prompt

        assert response.stop_reason == "end_turn"
        assert "It goes on." in editor.said(session)
        assert "its worker was lost" in editor.said(session, "agent_thought_chunk")
        assert [call["status"] for call in editor.calls(session).values()] == ["completed"]
        assert (await editor.say(session, "still there?")).stop_reason == "end_turn"


def worker_at_work(desk) -> int:
    """The process that has the only goal's agent."""
    [goal] = records(desk, "task", "list")
    [agent] = [task for task in records(desk, "task", "list", "--trace", goal["task_id"]) if task["agent"] == "build"]
    return int(agent["worker"].split("-")[-2])


def records(desk, *words: str) -> list[dict]:
    done = desk.muster(*words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


async def test_a_cancel_while_a_person_is_asked_ends_the_prompt_and_takes_the_question_back(editor, repository: Path):
    session = await begun(editor, repository)
    prompt = asyncio.create_task(editor.say(session, "run it, number 22"))
    asked = await editor.next_asked()
    await editor.agent.cancel(session_id=session)
    asked.choose(None)

    assert (await prompt).stop_reason == "cancelled"
    assert (await editor.say(session, "hello")).stop_reason == "end_turn"
    assert editor.asked.empty()


async def test_a_cancel_ends_the_prompt_though_the_editor_leaves_the_question_open(editor, repository: Path):
    session = await begun(editor, repository)
    prompt = asyncio.create_task(editor.say(session, "run it, number 23"))
    asked = await editor.next_asked()
    await editor.agent.cancel(session_id=session)
    response = await prompt
    asked.choose("Allow")  # too late

    assert response.stop_reason == "cancelled"
    assert "It said" not in editor.said(session)


async def test_a_question_in_the_chat_is_taken_back_by_a_cancel(editor, repository: Path):
    session = await begun(editor, repository)
    await editor.say(session, "ask me twice and more, number 24")
    await editor.agent.cancel(session_id=session)
    after = await editor.say(session, "hello")

    assert after.stop_reason == "end_turn"
    assert "Hello." in editor.said(session) and "Answered:" not in editor.said(session)


async def test_a_cancel_while_a_change_is_offered_leaves_the_files_alone(editor, repository: Path):
    session = await begun(editor, repository)
    prompt = asyncio.create_task(editor.say(session, "make it two, number 25"))
    (await editor.next_asked()).choose("Allow")
    offered = await editor.next_asked()
    await editor.agent.cancel(session_id=session)
    offered.choose(None)

    assert (await prompt).stop_reason == "cancelled"
    assert (repository / "a.txt").read_text() == "one\n"
    await editor.say(session, "/apply")
    assert (repository / "a.txt").read_text() == "two\n"


async def test_a_session_goes_on_at_once_after_a_cancel(editor, repository: Path):
    session = await begun(editor, repository)
    await editor.say(session, "hello, number 26")
    prompt = asyncio.create_task(editor.say(session, "linger, number 26"))
    await editor.until(session, lambda _: [c for c in editor.calls(session).values() if c["status"] == "in_progress"])
    await editor.agent.cancel(session_id=session)

    assert (await prompt).stop_reason == "cancelled"
    assert (await editor.say(session, "hello again")).stop_reason == "end_turn"


async def test_prompts_are_worked_on_in_the_order_in_which_they_came(editor, repository: Path):
    session = await begun(editor, repository)
    await asyncio.gather(*(editor.say(session, f"in order, number {number}") for number in (271, 272, 273)))
    await editor.agent.load_session(cwd=str(repository), session_id=session)

    heard = editor.said(session, "user_message_chunk")
    assert [heard.count(f"number {number}") for number in (271, 272, 273)] == [1, 1, 1]
    assert heard.index("number 271") < heard.index("number 272") < heard.index("number 273")


async def test_a_session_that_is_loaded_again_is_told_and_asked_by_the_later_one_alone(editor, repository: Path):
    session = await begun(editor, repository)
    prompt = asyncio.create_task(editor.say(session, "run it, number 29"))
    before = await editor.next_asked()
    await editor.agent.load_session(cwd=str(repository), session_id=session)
    left = await prompt
    again = await editor.next_asked()
    before.choose("Reject, and stop")  # nobody hears it any more
    again.choose("Allow")
    await editor.until(session, lambda _: "not verified" in editor.said(session))
    await editor.say(session, "hello")

    assert left.stop_reason == "cancelled"
    assert again.ask_id == before.ask_id
    assert editor.said(session).count("It said: ran") == 1


async def test_what_waits_in_a_session_that_is_loaded_again_never_begins_and_an_offer_can_be_taken_up(
    editor, repository: Path
):
    session = await begun(editor, repository)
    prompt = asyncio.create_task(editor.say(session, "make it two, number 31"))
    (await editor.next_asked()).choose("Allow")
    offered = await editor.next_asked()
    waits = asyncio.create_task(editor.say(session, "hello, number 31"))
    await asyncio.sleep(0)  # it is sent before what follows
    await editor.agent.load_session(cwd=str(repository), session_id=session)
    responses = await asyncio.gather(prompt, waits)
    offered.choose("Apply it to my files")  # nobody hears it any more
    await editor.say(session, "/apply")

    assert [one.stop_reason for one in responses] == ["end_turn", "cancelled"]
    assert editor.said(session, "user_message_chunk") == "make it two, number 31"
    assert (repository / "a.txt").read_text() == "two\n"


async def test_a_session_that_is_loaded_while_a_prompt_is_handed_over_goes_on_with_it(editor, repository: Path):
    session = await begun(editor, repository)
    await editor.say(session, "hello, number 30")
    prompt = asyncio.create_task(editor.say(session, "linger after that"))
    await asyncio.sleep(0)  # it is sent before what follows
    await editor.agent.load_session(cwd=str(repository), session_id=session)
    response = await prompt
    await editor.agent.cancel(session_id=session)
    await editor.until(session, lambda _: "cancelled in the editor" in editor.said(session))

    assert response.stop_reason == "cancelled"


async def test_two_editors_on_one_session_have_one_conversation(desk, editor, repository: Path):
    session = await begun(editor, repository)
    await editor.say(session, "hello, number 28")
    async with desk.editing() as other:
        await other.agent.load_session(cwd=str(repository), session_id=session)
        prompt = asyncio.create_task(editor.say(session, "make it two, number 28"))
        command = await editor.next_asked()
        joined = asyncio.create_task(other.say(session, "take your time to make it two"))
        also = await other.next_asked()
        assert also.ask_id == command.ask_id
        also.choose("Allow")
        await editor.until(session, lambda _: editor.calls(session)[command.ask_id]["status"] == "completed")
        command.choose("Reject, and stop")  # too late
        offers = [await each.next_asked() for each in (editor, other)]
        for offer in offers:
            offer.choose("Apply it to my files")
        responses = await asyncio.gather(prompt, joined)
        after = await editor.say(session, "and then?")
        again = await other.say(session, "and after that?")

        assert [one.stop_reason for one in (*responses, after, again)] == ["end_turn"] * 4
        assert (repository / "a.txt").read_text() == "two\n"
        assert not any("was not applied" in each.said(session) for each in (editor, other))
        [listed] = [
            one for one in (await other.agent.list_sessions(cwd=str(repository))).sessions if one.session_id == session
        ]
        assert listed.title == "hello, number 28"
    async with desk.editing() as later:
        await later.agent.load_session(cwd=str(repository), session_id=session)
        heard = later.said(session, "user_message_chunk")
        assert all(
            words in heard for words in ("hello", "make it two", "take your time", "and then?", "and after that?")
        )
