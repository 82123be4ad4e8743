"""A session for people and programs: as JSON, and as Markdown. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envelope.events import CallState

from ..agent.session import Session
from ..llm.base import ChatMessage
from .turn_log import Turn

_NAME = re.compile(r"[\w.:-]{0,64}")
# Of a message without its texts: who spoke, which tools ran, and how they ended. What is not named here is left out.
KEPT = ("role", "name", "tool_call_id", "is_error", "synthetic", "agent")


def as_json(
    session: Session, turns: Sequence[Turn], files: Sequence[Sequence[str]], *, sanitize: bool
) -> dict[str, Any]:
    """Everything that a session holds, and its turns with the files that each changed."""
    states = call_states(session)
    return {
        "agent": session.agent,
        "model": session.model,
        "messages": [_message(one, states, sanitize) for one in session.messages],
        "compaction": _compaction(session, sanitize),
        "tool_calls": [
            {
                **call.model_dump(mode="json"),
                **({"title": blank(call.title), "tool": _tool(call.tool)} if sanitize else {}),
            }
            for call in session.tool_calls
        ],
        "turns": [_turn(turn, changed, sanitize) for turn, changed in zip(turns, files, strict=True)],
        "metrics": {
            "turns": session.turn,
            "usage": session.usage.model_dump(),
            "cost_microusd": session.cost_microusd,
        },
        "outcome": _outcome(session, sanitize),
    }


def as_markdown(session: Session, *, sanitize: bool) -> str:
    parts = [f"# A session of {session.agent} with {session.model}"]
    for message in session.messages:
        parts += _paragraphs(message, blank if sanitize else str)
    return "\n\n".join(parts) + "\n"


def blank(text: str) -> str:
    """
    >>> blank("secret plans"), blank("")
    ('(12 characters)', '')
    """
    return f"({len(text)} characters)" if text else ""


def _tool(name: str) -> str:
    """A model can say anything in the place of a tool's name."""
    return name if _NAME.fullmatch(name) else blank(name)


def call_states(session: Session) -> dict[str, CallState]:
    """How every call stands, by its id: one that has an answer is over, one that waits for others is running."""
    answered = {
        message.tool_call_id: CallState.ERROR if message.is_error else CallState.COMPLETED
        for message in session.messages
        if message.role == "tool"
    }
    waiting = {one.call.id: CallState.RUNNING for one in session.open_turn}
    asked = {call.id: CallState.PENDING for message in session.messages for call in message.tool_calls}
    return asked | waiting | answered


def _message(message: ChatMessage, states: Mapping[str, CallState], sanitize: bool) -> dict[str, Any]:
    value = message.model_dump(mode="json", exclude_defaults=True)
    stated = [{**call, "state": states[call["id"]]} for call in value.get("tool_calls", ())]
    if not sanitize:
        return {**value, "tool_calls": stated} if stated else value
    calls = [
        {
            "id": call["id"],
            "name": _tool(call["name"]),
            "arguments": blank(call["arguments"]),
            "state": call["state"],
        }
        for call in stated
    ]
    files = [{"media_type": file.media_type, "size_bytes": file.size_bytes} for file in message.files]
    kept = {name: value[name] for name in KEPT if name in value}
    if "name" in kept:
        kept["name"] = _tool(kept["name"])
    if message.finish is not None:
        kept["finish"] = message.finish.model_dump()
    lists = {"tool_calls": calls, "files": files}
    return {**kept, "content": blank(message.content)} | {name: value for name, value in lists.items() if value}


def _compaction(session: Session, sanitize: bool) -> dict[str, Any] | None:
    """The latest one: what stands for the messages before `kept_from`."""
    if session.compaction is None:
        return None
    value = session.compaction.model_dump()
    return {**value, "summary": blank(value["summary"])} if sanitize else value


def _turn(turn: Turn, files: Sequence[str], sanitize: bool) -> dict[str, Any]:
    named = [f"file {index}" for index, _ in enumerate(files, 1)] if sanitize else list(files)
    tools = [_tool(name) for name in turn.tools] if sanitize else turn.tools
    return {"turn": turn.number, "tools": tools, "files": named}


def _outcome(session: Session, sanitize: bool) -> dict[str, Any] | None:
    if session.outcome is None:
        return None
    value = session.outcome.model_dump(mode="json")
    if not sanitize:
        return value
    structured = value["structured"] and blank(json.dumps(value["structured"], ensure_ascii=False))
    return {**value, "text": blank(value["text"]), "detail": blank(value["detail"]), "structured": structured}


def _paragraphs(message: ChatMessage, shown: Any) -> Iterable[str]:
    who = {
        "user": "Muster" if message.synthetic else "Person",
        "assistant": message.agent or "Agent",
        "system": "System prompt",
    }
    failed, named = " (error)" if message.is_error else "", str if shown is str else _tool
    yield f"## {who[message.role]}" if message.role in who else f"### Answer of `{named(message.name)}`{failed}"
    if message.content:
        yield fenced(shown(message.content)) if message.role in ("tool", "system") else shown(message.content)
    for file in message.files:
        yield f"With {'a file' if shown is blank else f'`{file.name}`'} ({file.media_type}, {file.size_bytes} bytes)."
    for call in message.tool_calls:
        yield f"Calls `{named(call.name)}`:\n\n{fenced(shown(call.arguments))}"


def fenced(text: str) -> str:
    """A block that no line of the text ends.

    >>> fenced("a\\n```").splitlines()[0]
    '````'
    """
    longest = max((len(line) - len(line.lstrip("`")) for line in map(str.strip, text.splitlines())), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
