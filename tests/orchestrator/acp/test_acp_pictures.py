"""The pictures of docs/editors.md are what a real client was told, light and dark.

Draw them anew, and look at them: `WRITE_PICTURES=1 python -m pytest tests/orchestrator/acp/test_acp_pictures.py`.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from acp_drawing import drawn

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.asyncio(loop_scope="module")]

PICTURES = Path(__file__).parents[3] / "docs" / "pictures" / "editors"
FILES = {
    "greet.py": 'def greet(name):\n    return f"Hi {name}"\n',
    "test_greet.py": "import unittest\n\nfrom greet import greet\n\n\nclass OfGreet(unittest.TestCase):\n"
    '    def test_greet(self):\n        self.assertIn("Ada", greet("Ada"))\n',
    "check.env": "echo ready\n",
}


def hold(name: str, story: list, root: Path) -> None:
    for theme in ("light", "dark"):
        file = PICTURES / f"{name}-{theme}.svg"
        picture = drawn(story, title="muster acp", theme=theme, root=str(root))
        if "WRITE_PICTURES" in os.environ:
            file.parent.mkdir(exist_ok=True)
            file.write_text(picture)
        assert picture == file.read_text(), f"{file.name}: if it is meant so, draw it anew: see the top of this file"


async def test_a_prompt_an_ask_and_a_change_are_drawn(desk):
    repository = desk.repository(FILES)
    async with desk.editing("--gate", "python3 -m unittest -q") as editor:
        session = (await editor.agent.new_session(cwd=str(repository))).session_id
        prompt = asyncio.create_task(editor.say(session, "Let greet() greet politely."))
        command = await editor.next_asked()
        asking = [*editor.story[session]]
        hold("ask", asking, repository)
        command.choose("Allow")
        (await editor.next_asked()).choose("Apply it to my files")
        await prompt

        hold("prompt", editor.story[session], repository)


async def test_a_plan_that_is_approved_is_drawn(desk):
    repository = desk.repository(FILES)
    async with desk.editing() as editor:
        session = (await editor.agent.new_session(cwd=str(repository))).session_id
        await editor.agent.set_session_mode(session_id=session, mode_id="plan")
        prompt = asyncio.create_task(editor.say(session, "Let greet() greet in French, too."))
        (await editor.next_asked()).choose("Carry the plan out")
        (await editor.next_asked()).choose("Not now (/apply does it later)")
        await prompt

        hold("plan", editor.story[session], repository)
