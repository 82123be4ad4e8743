"""What the operator has given all agents of a worker, beside a model."""

from __future__ import annotations

from dataclasses import dataclass

from .after_write.settings import AfterWrite
from .hooks.installed import Installed
from .mcp.settings import McpServers
from .project.instructions import Guidance
from .sessions.habits import Habits


@dataclass(frozen=True, slots=True)
class Equipment:
    mcp: McpServers
    after_write: AfterWrite
    hooks: tuple[Installed, ...]
    guidance: Guidance
    habits: Habits


def plain_equipment() -> Equipment:
    """What agents have where an operator has said nothing."""
    return Equipment(McpServers(), AfterWrite(), (), Guidance(), Habits())
