"""What all dialects of the scripted server share. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from envelope.budget import Usage

from .script import Conversation, Reply, ScriptedCall

CHARS_PER_TOKEN = 4  # the rule of thumb for English and code

Json = dict[str, Any]


def arguments_of(call: ScriptedCall) -> str:
    return json.dumps(call.arguments) if call.raw_arguments is None else call.raw_arguments


def usage_of(reply: Reply, now: Conversation) -> Usage:
    sent = len(reply.text) + sum(len(arguments_of(call)) for call in reply.tool_calls)
    estimate = Usage(input_tokens=now.chars // CHARS_PER_TOKEN + 1, output_tokens=sent // CHARS_PER_TOKEN + 1)
    return reply.usage or estimate


def finish_reason_of(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")


def call_id(now: Conversation, index: int) -> str:
    """Ids differ within a conversation, and are the same when a turn is asked for again."""
    return f"call_{now.turn}_{index}"


def pieces(text: str, reply: Reply) -> list[str]:
    size = reply.delta_chars
    return [text[start : start + size] for start in range(0, len(text), size)]


def text_of(content: Any) -> str:
    """A message's content is text, nothing, or a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in cast(Sequence[Json], content))
    return content if isinstance(content, str) else ""


class Users:
    """What users have said: first of all (`prompt`), before the model first spoke (`opening`), and last (`latest`)."""

    def __init__(self) -> None:
        self._groups: list[list[str]] = []
        self._is_over = True

    def say(self, text: str) -> None:
        if self._is_over:
            self._groups.append([])
            self._is_over = False
        self._groups[-1].append(text)

    def model_speaks(self) -> None:
        self._is_over = True

    @property
    def prompt(self) -> str:
        return self._groups[0][0] if self._groups else ""

    @property
    def opening(self) -> str:
        return "\n".join(self._groups[0] if self._groups else ())

    @property
    def latest(self) -> str:
        return "\n".join(self._groups[-1] if self._groups else ())
