"""The examples of docs/models.md run."""

from __future__ import annotations

import re
from pathlib import Path

from workers.llm.base import ChatMessage, Failed, ToolCall
from workers.llm.script import load_script
from workers.llm.scripted_server import ScriptedServer
from workers.models import Models

PAGE = (Path(__file__).parents[3] / "docs" / "models.md").read_text()
HELLO = ChatMessage(role="user", content="hello")


def example(language: str) -> str:
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return code


async def test_the_script_fails_slips_and_answers():
    call = ToolCall(id="c", name="read", arguments="{}", input={})
    history = [
        HELLO,
        ChatMessage(role="assistant", tool_calls=(call,)),
        ChatMessage(role="tool", tool_call_id="c", content="x = 1"),
    ]
    async with ScriptedServer(load_script(example("yaml"))) as server:
        model = Models("anthropic/any", server.url, "any-key-will-do").named("anthropic/any")
        replies = [[e async for e in model.stream(sent, [])][-1] for sent in ([HELLO], [HELLO], history)]

    assert isinstance(replies[0], Failed) and "Overloaded" in replies[0].message
    assert (replies[1].tool_calls[0].input, replies[1].tool_calls[0].repaired) == ({"path": "a.py"}, True)
    assert replies[2].text == "It says x = 1"


async def test_the_python_example_asks():
    names: dict = {}
    exec(example("python"), names)
    async with ScriptedServer(load_script("rules: [{reply: {text: as the page says}}]")) as server:
        assert await names["say"]("hello", server.url) == "as the page says"
        assert server.log.bodies[0]["max_tokens"] == 500
