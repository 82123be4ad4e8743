"""The commands that a session itself carries out, or its owner's terminal: no template, and no word for a model."""

from __future__ import annotations

from collections.abc import Mapping

from envelope.agents import CommandCard

# By name: what it does. No file takes one of these names.
OF_SESSIONS: Mapping[str, str] = {
    "compact": "Tell a session's history in a summary, from which its agent goes on",
    "redo": "Take the last /undo back; possible until something was said",
    "share": "Write a session down without its texts, to hand on",
    "undo": "Take back the last prompt, and all that was done since",
}


def cards() -> list[CommandCard]:
    return [CommandCard(name=name, description=text, of_session=True) for name, text in OF_SESSIONS.items()]
