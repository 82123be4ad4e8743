"""Commands are workers' business: who knows them is found by an entry point, so that no import crosses the table."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from envelope.agents import CommandCard

PROMPTS = "muster.prompts"  # in `pyproject.toml`


def command_cards(root: Path) -> list[CommandCard]:
    """The commands that somebody can type in a repository: its own, the user's and ours; none without the workers'
    code."""
    tellers = (cast("Callable[[Path], list[CommandCard]]", point.load()) for point in entry_points(group=PROMPTS))
    return [card for tell in tellers for card in tell(root)]
