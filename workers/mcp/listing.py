"""What a server says that it has, page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Longer lists are mistakes, and a model cannot choose among more.
MAX_TOOLS = 128
MAX_RESOURCES = 1000
# A list may have empty pages; one without an end is stopped here, or by the connection's time-out.
MAX_PAGES = 100


@dataclass(frozen=True, slots=True)
class ListedTool:
    name: str
    description: str
    parameters: Mapping[str, Any]


async def walk(turn: Callable[..., Awaitable[Any]], items: str, most: int) -> list[Any]:
    """At most so many of the items on the pages that `turn` gives."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await turn(cursor=cursor)
        found += getattr(page, items)
        cursor = page.next_cursor
        if not cursor or len(found) >= most:
            break
    return found[:most]


def listed_tools(found: Sequence[Any]) -> list[ListedTool]:
    return [ListedTool(tool.name, tool.description or "", tool.input_schema) for tool in found]
