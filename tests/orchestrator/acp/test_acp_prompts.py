"""What goes along with a prompt, what comes of questions, what a session costs, and what only looking means."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from acp import RequestError, embedded_text_resource, image_block, resource_block, resource_link_block

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.asyncio(loop_scope="module")]

# One grey dot.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="


async def begun(editor, repository: Path) -> str:
    return (await editor.agent.new_session(cwd=str(repository))).session_id


async def heard_by_the_model(desk, words: str) -> str:
    """The first request whose conversation has these words."""
    bodies = [json.dumps(body) for body in (await desk.requests())["bodies"]]
    return next(body for body in bodies if words in body)


async def test_images_and_files_of_a_prompt_reach_the_model(desk, editor, repository: Path):
    session = await begun(editor, repository)
    long = "a long line of a log\n" * 1000
    await editor.say(
        session,
        "see what I send, number 11: ",
        image_block(PNG, "image/png"),
        resource_link_block("b.txt", f"file://{repository}/b.txt"),
        resource_block(embedded_text_resource(f"file://{repository}/a.txt#L1", "one, not saved yet")),
        resource_block(embedded_text_resource("file:///var/log/x.log", long)),
    )
    asked = await heard_by_the_model(desk, "number 11")

    assert f"data:image/png;base64,{PNG}" in asked
    assert "b.txt" in asked and str(repository) not in asked
    assert 'path=\\"a.txt#L1\\"' in asked and "one, not saved yet" in asked
    assert "/tmp/attachments/x.log (21000 bytes)" in asked and "a long line" not in asked


async def test_an_image_of_a_later_prompt_is_shown_too_and_needs_no_words(desk, editor, repository: Path):
    session = await begun(editor, repository)
    await editor.say(session, "nothing to see yet, number 12")
    shown = await editor.agent.prompt(session_id=session, prompt=[image_block(PNG, "image/" + "x" * 2000)])
    bodies = [json.dumps(body) for body in (await desk.requests())["bodies"]]

    assert shown.stop_reason == "end_turn"
    assert any("number 12" in body and f"base64,{PNG}" in body for body in bodies)


async def test_what_is_no_base64_is_said(editor, repository: Path):
    session = await begun(editor, repository)
    with pytest.raises(RequestError, match="is no base64"):
        await editor.agent.prompt(session_id=session, prompt=[image_block("?", "image/png")])


async def test_how_full_the_window_is_and_what_the_session_has_cost_are_told(editor, repository: Path):
    session = await begun(editor, repository)
    await editor.say(session, "tell the usage, number 13")
    await editor.say(session, "and again")
    first, second = editor.of_kind(session, "usage_update")

    assert (first.size, 0 < first.used < second.used) == (100_000, True)
    assert (first.cost.currency, 0 < first.cost.amount < second.cost.amount) == ("USD", True)


async def test_several_questions_are_one_form(desk, repository: Path):
    async with desk.editing(forms=True) as editor:
        session = await begun(editor, repository)
        prompt = asyncio.create_task(editor.say(session, "ask me twice and more, number 14"))
        form, answer = await editor.next_form()
        answer.set_result({"q0": "Red", "q1": ["Round", "Flat"], "q2": "Ada"})
        await prompt
        said = editor.said(session).partition("Answered:")[2]

        assert [schema.title for schema in form.properties.values()] == [
            "Colour", "Or in your own words", "Shapes", "Or in your own words", "Name",
        ]  # fmt: skip
        assert "Red" in said and "Round" in said and "Flat" in said and "Square" not in said and "Ada" in said


async def test_a_form_that_is_not_sent_ends_the_turn(desk, repository: Path):
    async with desk.editing(forms=True) as editor:
        session = await begun(editor, repository)
        prompt = asyncio.create_task(editor.say(session, "ask me twice and more, number 15"))
        _, answer = await editor.next_form()
        answer.set_result(None)

        assert (await prompt).stop_reason == "end_turn"
        assert "refused: a person refused" in editor.said(session)


async def test_several_questions_without_forms_are_answered_line_by_line(editor, repository: Path):
    session = await begun(editor, repository)
    asked = await editor.say(session, "ask me twice and more, number 16")
    put = editor.said(session)
    answered = await editor.say(session, "Blue\nRound, Flat\nGrace")
    said = editor.said(session).partition("Answered:")[2]

    assert (asked.stop_reason, answered.stop_reason) == ("end_turn", "end_turn")
    assert "Which colour?" in put and "(several, with commas between them)" in put and "What name?" in put
    assert "Blue" in said and "Flat" in said and "Grace" in said


LED = """---
description: led by a program
mode: primary
engine: acp
command: [python3, tool/agent_program.py]
permission: {edit: ask}
---
"""
PROGRAM = (Path(__file__).parents[2] / "workers" / "acp" / "agent_program.py").read_text()


async def test_what_a_program_asks_that_leads_the_session_is_put_to_the_person(desk, editor):
    files = {"a.txt": "one\n", "tool/agent_program.py": PROGRAM, ".muster/agents/foreign.md": LED}
    repository = desk.repository(files)
    trusted = await asyncio.to_thread(desk.muster, "trust", str(repository))
    session = await begun(editor, repository)
    await editor.agent.set_session_mode(session_id=session, mode_id="foreign")
    prompt = asyncio.create_task(editor.say(session, 'do this:\n>> ["edits", "/workspace/a.txt", "two\\n"]'))
    asked = await editor.next_asked()
    asked.choose("Allow")
    (change := await editor.next_asked()).choose("Apply it to my files")
    await prompt

    assert trusted.returncode == 0, trusted.stderr
    assert (asked.title, asked.kind) == ("edit a.txt?", "edit")
    assert change.diffs == {str(repository / "a.txt"): ("one\n", "two\n")}
    assert (repository / "a.txt").read_text() == "two\n"


async def test_who_only_looks_changes_nothing_and_asks_nobody(desk, repository: Path):
    async with desk.editing() as editor:
        writing = await begun(editor, repository)
        await editor.say(writing, "hello, number 17")
    async with desk.editing("--read-only") as editor:
        session = await begun(editor, repository)
        await editor.say(session, "write it anyway, number 18")
        again = await editor.say(session, "and what did I ask?")
        with pytest.raises(RequestError, match="read-only, and your files would be changed"):
            await editor.say(session, "/apply")
        forked = (await editor.agent.fork_session(cwd=str(repository), session_id=writing)).session_id
        await editor.say(forked, "write it anyway, in a copy")
        await editor.agent.load_session(cwd=str(repository), session_id=writing)
        with pytest.raises(RequestError, match="an earlier session, which may write, would hear this") as earlier:
            await editor.say(writing, "go on")

        assert (repository / "a.txt").read_text() == "one\n"
        assert editor.asked.empty()
        assert "read-only: agents look and answer" in editor.said(session, "agent_thought_chunk")
        assert "file changed" not in editor.said(session) + editor.said(forked)
        assert "It said:" in editor.said(forked)
        assert again.stop_reason == "end_turn"
        assert "begin a new one" in str(earlier.value)


async def test_who_only_looks_leaves_a_session_that_writes_and_does_not_stop_it(desk, editor, repository: Path):
    session = await begun(editor, repository)
    prompt = asyncio.create_task(editor.say(session, "run it, number 19"))
    asked = await editor.next_asked()
    async with desk.editing("--read-only") as reader:
        await reader.agent.load_session(cwd=str(repository), session_id=session)
        await reader.agent.close_session(session_id=session)
    asked.choose("Allow")

    assert (await prompt).stop_reason == "end_turn"
    assert reader.asked.empty()
    assert "It said: ran" in editor.said(session)
