"""What a person types with a slash: commands of workers, which they expand, and those that are carried out here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from acp.schema import AvailableCommand, AvailableCommandInput, UnstructuredCommandInput

from envelope.agents import CommandCard

from ..errors import UnknownName, near_miss
from .texts import clipped, shown

APPLY, DIFF = "apply", "diff"
OWN: Mapping[str, str] = {
    DIFF: "Show what this session has changed, and is not in your files yet.",
    APPLY: "Apply what this session has changed to your files.",
}
# About a session, and done by a task of its own that asks no model for it, or for a summary alone.
OF_SESSIONS = frozenset({"undo", "redo", "compact"})
NOT_HERE = frozenset({"help", "share"})  # editors list commands themselves; `muster session export` shares
DESCRIPTION_CHARS = 200
_TYPED = re.compile(r"/([^\s/]+)(?:\s.*)?", re.DOTALL)


def known_commands(cards: Iterable[CommandCard]) -> list[AvailableCommand]:
    """By name, as an editor offers them after a slash."""
    told = {card.name: card.description for card in cards if card.name not in NOT_HERE}
    takes_words = set(told) - OF_SESSIONS
    return [
        AvailableCommand(
            name=shown(name),
            description=clipped(" ".join(shown(description).split()), DESCRIPTION_CHARS),
            input=AvailableCommandInput(root=UnstructuredCommandInput(hint="arguments"))
            if name in takes_words
            else None,
        )
        for name, description in sorted({**told, **OWN}.items())
    ]


def command_in(text: str, cards: Iterable[CommandCard], root: Path) -> str:
    """The name of the command that a prompt is; empty for plain words, a path, and an MCP server's prompt.

    `UnknownName` for one that is not there.
    """
    typed = _TYPED.fullmatch(text)
    if typed is None or ":" in typed[1] or _is_path(typed[1], root):
        return ""
    known = {*OWN, *(card.name for card in cards)} - NOT_HERE
    if typed[1] not in known:
        hint = f"{near_miss(typed[1], known)} (put a space before words that are no command)"
        raise UnknownName(f"there is no command /{typed[1][:40]}", hint=hint)
    return typed[1]


def _is_path(name: str, root: Path) -> bool:
    try:
        return Path("/", name).exists() or (root / name).exists()
    except OSError:  # longer than any name
        return False
