"""Conversations of an editor with `muster acp`: the real process, a real fleet, a real sandbox, the official client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.redis]


def file_of(repository: Path) -> str:
    return (repository / "a.txt").read_text()


async def test_a_conversation_asks_edits_and_applies_only_when_told(desk, repository: Path):
    async with desk.editing() as editor:
        session = (await editor.agent.new_session(cwd=str(repository))).session_id
        answered = asyncio.create_task(editor.say(session, "make it two"))
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
        read, edit, run = (
            editor.call(session, title) for title in ("read a.txt", "edit a.txt", "bash eval echo asked")
        )
        assert (read["kind"], read["status"], read["locations"][0].path) == (
            "read", "completed", str(repository / "a.txt"),
        )  # fmt: skip
        assert [(one.path, one.old_text, one.new_text) for one in edit["content"]] == [
            (str(repository / "a.txt"), "one", "two")
        ]
        assert (run["kind"], run["status"]) == ("execute", "completed")
        [plan] = editor.of_kind(session, "plan")
        assert [(one.content, one.status, one.priority) for one in plan.entries] == [
            ("Edit a.txt", "in_progress", "high")
        ]
        again = asyncio.create_task(editor.say(session, "and three"))
        (further := await editor.next_asked()).choose("Not now (/apply does it later)")
        await again
        assert further.diffs == {str(repository / "a.txt"): ("two\n", "three\n")}
        assert "Now three." in editor.said(session)
        assert file_of(repository) == "two\n"
        await editor.say(session, "/apply")
        assert file_of(repository) == "three\n"
