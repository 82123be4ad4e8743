"""Prompts of servers, which people start like commands: `/server:prompt first second`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import BadInput
from .connection import Connection
from .text import text_of


@dataclass(frozen=True, slots=True)
class ServerPrompt:
    """`names` are its arguments in their order, `required` those that must be there."""

    connection: Connection
    name: str
    description: str
    names: tuple[str, ...]
    required: tuple[str, ...]

    @property
    def command(self) -> str:
        return f"{self.connection.name}:" + re.sub(r"\s", "_", self.name)

    async def filled(self, words: Sequence[str]) -> str:
        """`BadInput` when an argument is missing; `ToolError` when the server fails."""
        given = paired(self.names, words)
        if missing := [name for name in self.required if not given.get(name)]:
            usage = " ".join(f"<{name}>" if name in self.required else f"[{name}]" for name in self.names)
            raise BadInput(f"/{self.command} needs {missing[0]!r}", hint=f"type /{self.command} {usage}")
        answer = await self.connection.prompt(self.name, given)
        return "\n\n".join(text_of([message.content]) for message in answer.messages)


def paired(names: Sequence[str], words: Sequence[str]) -> dict[str, str]:
    """The arguments by name, in their order; the last takes all that is left.

    >>> paired(["file", "why"], ["a.py", "it", "fails"]), paired(["file", "why"], ["a.py"])
    ({'file': 'a.py', 'why': 'it fails'}, {'file': 'a.py'})
    """
    parts = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])] if names else []
    return {name: part for name, part in zip(names, parts, strict=False) if part}


async def prompts_of(connection: Connection) -> list[ServerPrompt]:
    return [_prompt(connection, listed) for listed in await connection.prompts()]


def _prompt(connection: Connection, listed: Any) -> ServerPrompt:
    arguments = listed.arguments or ()
    return ServerPrompt(
        connection,
        listed.name,
        listed.description or listed.title or "",
        tuple(argument.name for argument in arguments),
        tuple(argument.name for argument in arguments if argument.required),
    )
