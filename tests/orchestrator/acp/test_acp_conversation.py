"""Conversations of an editor with `muster acp`: the real process, a real fleet, a real sandbox, the official client."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.asyncio(loop_scope="module")]


def file_of(repository: Path) -> str:
    return (repository / "a.txt").read_text()


async def test_a_conversation_asks_edits_and_applies_only_when_told(editor, repository: Path):
    session = (await editor.agent.new_session(cwd=str(repository))).session_id
    answered = asyncio.create_task(editor.say(session, "make it two, number 1"))
    command = await editor.next_asked()
    assert (command.kind, "eval echo asked" in command.text) == ("execute", True)
    assert list(command.options) == ["Allow", "Reject, and let it go on", "Reject, and stop"]
    command.choose("Allow")
    change = await editor.next_asked()
    assert change.diffs == {str(repository / "a.txt"): ("one\n", "two\n")}
    assert file_of(repository) == "one\n"
    change.choose("Apply it to my files")
    response = await answered

    assert response.stop_reason == "end_turn"
    assert response.usage.input_tokens > 0
    assert file_of(repository) == "two\n"
    said = editor.said(session)
    assert "I look first." in said and "the command said: asked" in said and "done, not verified" in said
    assert "It wants a two." in editor.said(session, "agent_thought_chunk")
    read, edit, run = (editor.call(session, title) for title in ("read a.txt", "edit a.txt", "bash eval echo asked"))
    assert (read["kind"], read["status"], read["locations"][0].path) == (
        "read", "completed", str(repository / "a.txt"),
    )  # fmt: skip
    assert [(one.path, one.old_text, one.new_text) for one in edit["content"]] == [
        (str(repository / "a.txt"), "one", "two")
    ]
    assert (run["kind"], run["status"]) == ("execute", "completed")
    [plan] = editor.of_kind(session, "plan")
    assert [(one.content, one.status, one.priority) for one in plan.entries] == [("Edit a.txt", "in_progress", "high")]
    again = asyncio.create_task(editor.say(session, "and three"))
    (further := await editor.next_asked()).choose("Not now (/apply does it later)")
    await again
    assert further.diffs == {str(repository / "a.txt"): ("two\n", "three\n")}
    assert "Now three." in editor.said(session)
    assert file_of(repository) == "two\n"
    await editor.say(session, "/apply")
    assert file_of(repository) == "three\n"
    await editor.agent.set_session_mode(session_id=session, mode_id="plan")
    looked = await editor.say(session, "look at it")
    assert looked.stop_reason == "end_turn"
    assert "1:three" in editor.said(session)


async def begun(editor, repository: Path) -> str:
    return (await editor.agent.new_session(cwd=str(repository))).session_id


def records(desk, *words: str) -> list[dict]:
    done = desk.muster(*words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


async def records_when(desk, *words: str) -> list[dict]:
    return await asyncio.to_thread(records, desk, *words)


async def test_a_cancelled_prompt_stops_everything_and_the_session_goes_on(desk, editor, repository: Path):
    session = await begun(editor, repository)
    prompt = asyncio.create_task(editor.say(session, "linger"))
    await editor.until(session, lambda _: [c for c in editor.calls(session).values() if c["status"] == "in_progress"])
    await editor.agent.cancel(session_id=session)
    response = await prompt
    after = await editor.say(session, "hello")

    tasks = await records_when(desk, "task", "list")
    assert response.stop_reason == "cancelled"
    assert next(task["cancelled_by"] for task in tasks if task["intent"] == "linger").startswith("acp:")
    assert after.stop_reason == "end_turn" and "Hello." in editor.said(session)


async def test_a_prompt_said_before_the_last_one_was_handed_over_waits_for_its_turn(editor, repository: Path):
    session = await begun(editor, repository)
    first, second = await asyncio.gather(editor.say(session, "hello"), editor.say(session, "what else?"))

    assert (first.stop_reason, second.stop_reason) == ("end_turn", "end_turn")
    assert "Hello." in editor.said(session)


async def test_a_cancel_ends_the_prompts_that_wait_too(editor, repository: Path):
    session = await begun(editor, repository)
    prompts = asyncio.gather(editor.say(session, "linger at once"), editor.say(session, "and then?"))
    await editor.until(session, lambda _: [c for c in editor.calls(session).values() if c["status"] == "in_progress"])
    await editor.agent.cancel(session_id=session)

    assert [one.stop_reason for one in await prompts] == ["cancelled", "cancelled"]
    assert (await editor.say(session, "hello")).stop_reason == "end_turn"


async def test_an_editor_that_goes_leaves_its_task_and_finds_it_again(desk, repository: Path):
    async with desk.editing() as editor:
        session = await begun(editor, repository)
        await editor.say(session, "hello")
        prompt = asyncio.create_task(editor.say(session, "run it, number 2"))
        first = await editor.next_asked()
        editor.process.kill()
        await asyncio.gather(prompt, return_exceptions=True)
        first.choose(None)

    async with desk.editing() as editor:
        listed = (await editor.agent.list_sessions(cwd=str(repository))).sessions
        loaded = await editor.agent.load_session(cwd=str(repository), session_id=session)
        (again := await editor.next_asked()).choose("Allow")
        await editor.until(session, lambda _: "not verified" in editor.said(session).partition("It said: ran")[2])

        assert [(one.session_id, one.title, one.cwd) for one in listed] == [(session, "hello", str(repository))]
        assert loaded.modes.current_mode_id == "build"
        assert again.title == first.title == "bash eval echo ran?"
        assert editor.said(session, "user_message_chunk") == "hellorun it, number 2"
        assert "Hello." in editor.said(session) and "It said: ran" in editor.said(session)
        assert (await editor.say(session, "hello again")).stop_reason == "end_turn"


async def test_an_answer_at_another_door_stands(desk, editor, repository: Path):
    session = await begun(editor, repository)
    prompt = asyncio.create_task(editor.say(session, "run it, number 3"))
    asked = await editor.next_asked()
    elsewhere = await asyncio.to_thread(desk.muster, "ask", "answer", asked.ask_id, "once")
    asked.choose("Reject, and stop")
    response = await prompt

    assert elsewhere.returncode == 0, elsewhere.stderr
    assert response.stop_reason == "end_turn"
    assert "It said: ran" in editor.said(session)
    [text] = [one.content.text for one in editor.call(session, asked.title)["content"]][-1:]
    assert text.startswith("once (by cli:")


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("Reject, and let it go on", "It said: Not done: a person said: no."),
        ("Reject, and stop", "refused: a person refused"),
    ],
)
async def test_a_refusal_goes_to_the_model_or_ends_the_turn(editor, repository: Path, option: str, told: str):
    session = await begun(editor, repository)
    prompt = asyncio.create_task(editor.say(session, f"run it: {option}"))
    asked = await editor.next_asked()
    asked.choose(option)

    assert (await prompt).stop_reason == "end_turn"
    assert told in editor.said(session)
    assert editor.call(session, asked.title)["status"] == "failed"


async def test_a_plan_is_approved_and_carried_out_in_the_same_session(editor, repository: Path):
    opened = await editor.agent.new_session(cwd=str(repository))
    modes = [mode.id for mode in opened.modes.available_modes]
    await editor.agent.set_session_mode(session_id=opened.session_id, mode_id="plan")
    prompt = asyncio.create_task(editor.say(opened.session_id, "plan it"))
    plan = await editor.next_asked()
    plan.choose("Carry the plan out")
    response = await prompt

    assert (modes, opened.modes.current_mode_id) == (["build", "plan"], "build")
    assert (plan.kind, "# Implementation steps" in plan.text) == ("switch_mode", True)
    assert response.stop_reason == "end_turn"
    assert "Carried out." in editor.said(opened.session_id)
    [changed] = editor.of_kind(opened.session_id, "current_mode_update")
    assert changed.current_mode_id == "build"


async def test_a_question_is_a_choice_and_other_words_are_the_next_prompt(editor, repository: Path):
    session = await begun(editor, repository)
    prompt = asyncio.create_task(editor.say(session, "ask me, number 5"))
    question = await editor.next_asked()
    question.choose("Red")
    await prompt
    chosen = editor.said(session)
    other = await begun(editor, repository)
    prompt = asyncio.create_task(editor.say(other, "ask me another way"))
    (await editor.next_asked()).choose("Something else, in the chat")
    waits = await prompt
    answered = await editor.say(other, "Green, I think")

    assert "Which colour?" in question.text and "Red: warm" in question.text
    assert "Red" in chosen.partition("Answered:")[2]
    assert (waits.stop_reason, answered.stop_reason) == ("end_turn", "end_turn")
    assert "Green, I think" in editor.said(other).partition("Answered:")[2]


async def test_an_editor_with_forms_gets_one(desk, repository: Path):
    async with desk.editing(forms=True) as editor:
        session = await begun(editor, repository)
        prompt = asyncio.create_task(editor.say(session, "ask me, number 6"))
        form, answer = await editor.forms.get()
        answer.set_result({"q0": "Blue"})
        await prompt

        assert [one.const for one in form.properties["q0"].one_of] == ["Red", "Blue"]
        assert "Blue" in editor.said(session).partition("Answered:")[2]


async def test_a_second_prompt_is_heard_by_the_agent_at_work(editor, repository: Path):
    session = await begun(editor, repository)
    prompt = asyncio.create_task(editor.say(session, "run it, number 7"))
    asked = await editor.next_asked()
    second = asyncio.create_task(editor.say(session, "hello meanwhile"))
    asked.choose("Allow")
    responses = await asyncio.gather(prompt, second)

    assert [one.stop_reason for one in responses] == ["end_turn", "end_turn"]
    assert editor.said(session, "user_message_chunk") == ""
    assert "Hello." in editor.said(session)


TESTED = """
import unittest
class OfA(unittest.TestCase):
    def test_a(self):
        self.assertIn(open("a.txt").read(), ("one\\n", "two\\n"))
"""


async def test_a_change_is_proved_by_the_gate_and_shown_by_a_command(desk):
    repository = desk.repository({"a.txt": "one\n", "test_a.py": TESTED})
    async with desk.editing("--gate", "python3 -m unittest") as editor:
        session = await begun(editor, repository)
        prompt = asyncio.create_task(editor.say(session, "make it two, number 8"))
        (await editor.next_asked()).choose("Allow")
        (await editor.next_asked()).choose("Not now (/apply does it later)")
        await prompt
        commands = editor.of_kind(session, "available_commands_update")[-1].available_commands
        proved, gates = editor.said(session), [editor.call(session, f"gate {phase}") for phase in ("before", "after")]
        for words in ("hello", "/undo"):  # what was made before is offered again after each
            again = asyncio.create_task(editor.say(session, words))
            (await editor.next_asked()).choose("Not now (/apply does it later)")
            await again
        _, still_proved, taken_back = editor.said(session).removeprefix(proved).split("\n\n— ")
        await editor.say(session, "/diff")
        await editor.say(session, "/undo")

        assert [call["status"] for call in gates] == ["completed", "completed"]
        assert "— done and verified · 1 file changed" in proved
        assert still_proved.startswith("done and verified · 1 file changed")
        assert taken_back.startswith("done, not verified")
        assert {"apply", "diff", "undo", "redo", "compact", "review"} <= {one.name for one in commands}
        assert "```diff\ndiff --git a/a.txt" in editor.said(session) and "+two" in editor.said(session)
        assert "Taken back: make it two" in editor.said(session)


async def test_a_spent_budget_is_the_turns_end_and_said(desk, repository: Path):
    async with desk.editing("--budget", "0.01") as editor:
        session = await begun(editor, repository)
        response = await editor.say(session, "be dear")

        assert response.stop_reason == "max_tokens"
        assert "budget:" in editor.said(session) and "say more to go on" in editor.said(session)


async def test_hostile_signs_stay_text(editor, repository: Path):
    session = await begun(editor, repository)
    await editor.say(session, "be hostile")

    assert "a?[2Jb?c<script>" in editor.said(session)
    assert "\x1b" not in editor.said(session, "agent_thought_chunk")


async def test_a_session_is_forked_resumed_and_closed(editor, repository: Path):
    session = await begun(editor, repository)
    await editor.say(session, "hello")
    forked = await editor.agent.fork_session(session_id=session, cwd=str(repository))
    in_fork = await editor.say(forked.session_id, "hello from the fork")
    await editor.agent.close_session(session_id=session)
    with pytest.raises(Exception, match="no session") as closed:
        await editor.say(session, "hello")
    await editor.agent.resume_session(session_id=session, cwd=str(repository))
    resumed = await editor.say(session, "hello again")

    assert forked.session_id != session
    assert (in_fork.stop_reason, resumed.stop_reason) == ("end_turn", "end_turn")
    assert closed.value.code == -32002
