"""What a program asks a model, read from either format; and the lines in which it talks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import SandboxLost
from workers.acp import lines as lines_module
from workers.acp.asked import MAX_TOOLS, MAX_VALUES, READERS, BadQuestion, read_question
from workers.acp.lines import MAX_ODD_LINES, Lines
from workers.llm.anthropic_format import messages_for as to_anthropic
from workers.llm.anthropic_format import system_for
from workers.llm.base import ChatMessage, ToolCall, ToolSpec
from workers.llm.openai_format import messages_for as to_openai
from workers.llm.openai_format import tools_for

CALL = ToolCall(id="c1", name="edit", arguments='{"a": 1}', input={"a": 1})
HISTORY = (
    ChatMessage(role="system", content="You work."),
    ChatMessage(role="user", content="do it"),
    ChatMessage(role="assistant", content="I do", tool_calls=(CALL,)),
    ChatMessage(role="tool", content="done", tool_call_id="c1"),
    ChatMessage(role="user", content="more"),
)
TOOL = ToolSpec("edit", "Edits.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def test_what_we_would_send_is_what_is_read_in_openais_format():
    body = {"messages": to_openai(HISTORY), "tools": tools_for([TOOL]), "stream": True}

    question = read_question("/v1/chat/completions", json.dumps(body))

    assert (question.messages, question.tools, question.streams) == (HISTORY, (TOOL,), True)


def test_what_we_would_send_is_what_is_read_in_anthropics_format():
    tool = {"name": TOOL.name, "description": TOOL.description, "input_schema": TOOL.parameters}
    body = {"system": system_for(HISTORY), "messages": to_anthropic(HISTORY, "anthropic/x"), "tools": [tool]}

    question = read_question("/v1/messages", json.dumps(body))

    assert (question.messages, question.tools, question.streams) == (HISTORY, (TOOL,), False)


def test_a_picture_is_left_out_and_said_to_be():
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:,"}}]

    [message] = read_question(
        "/v1/chat/completions", json.dumps({"messages": [{"role": "user", "content": parts}]})
    ).messages

    assert message.content == "look\n[a file that the relay does not carry]"


KEYS = ["role", "content", "messages", "type", "text", "tools", "function", "name"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=10,
)


@given(st.sampled_from(sorted(READERS)), JSON)
def test_whatever_is_asked_is_a_question_or_a_bad_one(path: str, body: Any):
    try:
        question = read_question(path, json.dumps(body))
    except BadQuestion:
        return
    assert question.messages


class Speaker:
    """A service that says what it is given, and ends."""

    def __init__(self, *said: bytes) -> None:
        self.said = list(said)
        self.heard: list[bytes] = []

    async def send(self, data: bytes) -> None:
        self.heard.append(data)

    async def receive(self) -> bytes:
        if self.said and self.said[0] == b"LOST":
            raise SandboxLost("gone")
        return self.said.pop(0) if self.said else b""

    async def stop(self) -> None:
        return None


async def heard(*said: bytes) -> tuple[list[Any], str]:
    talking = Lines(Speaker(*said), lambda message: message.get("params") == {})
    messages: list[Any] = []
    while (message := await talking.receive()) is not None:
        messages.append(message)
        if "method" in message and "id" in message:
            await talking.send({"jsonrpc": "2.0", "id": message["id"], "result": None})
    return messages, talking.fault


async def test_messages_come_in_any_pieces_and_other_lines_are_passed_over():
    lines = (
        b"banner",
        b'{"id": 1, "result": {}}',
        b"",
        b'{"method": "m", "params": {}}',
        b'{"method": "m", "params": 1}',
        b"[]",
        b'{"id": "s", "method": "q"}',
    )
    whole = b"".join(line + b"\n" for line in lines)

    messages, fault = await heard(*(whole[at : at + 7] for at in range(0, len(whole), 7)))

    assert [message.get("method") or message["id"] for message in messages] == [1, "m", "q"]
    assert fault == ""


async def test_too_many_odd_lines_too_long_ones_and_a_lost_sandbox_end_it(monkeypatch: pytest.MonkeyPatch):
    assert (await heard(b"x\n" * (MAX_ODD_LINES + 1)))[1] == "what it says is not the Agent Client Protocol"
    assert "its sandbox is gone" in (await heard(b"LOST"))[1]
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 100)
    assert "it floods" in (await heard(b"x" * 60, b"x" * 60))[1]


async def test_no_more_is_read_than_is_answered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lines_module, "MAX_OPEN_REQUESTS", 2)
    asks = [json.dumps({"id": number, "method": "q"}).encode() + b"\n" for number in range(3)]
    talking = Lines(Speaker(*asks), lambda message: True)
    first, second = await talking.receive(), await talking.receive()
    third = asyncio.create_task(talking.receive())
    await asyncio.sleep(0)
    assert first is not None
    assert second is not None
    assert not third.done()

    await talking.send({"id": first["id"], "result": None})

    assert (await third) == {"id": 2, "method": "q"}


@pytest.mark.parametrize(
    ("messages", "tools", "said"),
    [
        ([{"role": "user"}] * MAX_VALUES, [], f"more than {MAX_VALUES} values"),
        ([{"role": "user", "content": "x"}], [{"function": {"name": "a"}}] * (MAX_TOOLS + 1), f"{MAX_TOOLS} tools"),
    ],
    ids=["messages", "tools"],
)
def test_a_question_of_more_than_any_session_has_is_refused_at_once(messages: list[Any], tools: list[Any], said: str):
    body = json.dumps({"messages": messages, "tools": tools})
    with pytest.raises(BadQuestion, match=said):
        read_question("/v1/chat/completions", body)
