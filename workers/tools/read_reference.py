"""`read` with `ref`: beside files, what the request refers to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .base import CallResult, Target, Tool, ToolContext, ToolResult
from .errors import ToolError
from .read import numbered
from .schema import text
from .truncate import MAX_LINES


@dataclass(frozen=True, slots=True)
class Found:
    """A reference's whole text, the lines of it that are meant, and where they stand if its name does not say so."""

    text: str
    range: tuple[int, int] | None = None
    place: str = ""


class References(Protocol):
    def targets(self, name: str) -> list[Target]:
        """What must be permitted before the reference of this name is read."""
        ...

    def url(self, name: str) -> str | None:
        """The page that it is; None when it is something else."""
        ...

    async def find(self, name: str) -> Found:
        """`ToolError` when it is none of this task's, or is gone."""
        ...


class ReadReference:
    """`read` itself, and more: pages come by `pages` (see `webfetch`)."""

    name = "read"

    def __init__(self, read: Tool, references: References, pages: Tool) -> None:
        self._read = read
        self._references = references
        self._pages = pages
        self.description = (
            f"{read.description} Instead of filePath, ref names one of the task's references, which is read as it was"
            " at the base."
        )
        properties = {**read.parameters["properties"], "ref": text("a reference's name, such as file:src/a.py#1-20")}
        self.parameters: dict[str, Any] = {**read.parameters, "properties": properties, "required": []}

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        if "ref" in arguments:
            url = self._references.url(arguments["ref"])
            return self._pages.targets({"url": url}) if url else self._references.targets(arguments["ref"])
        return self._read.targets(arguments) if "filePath" in arguments else []

    def title(self, arguments: Mapping[str, Any]) -> str:
        return arguments.get("ref") or (self._read.title(arguments) if "filePath" in arguments else "")

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> CallResult:
        if ("ref" in arguments) == ("filePath" in arguments):
            raise ToolError("say either filePath or ref")
        if "filePath" in arguments:
            return await self._read.run(context, call_id, arguments)
        name = arguments["ref"]
        if url := self._references.url(name):
            return await self._pages.run(context, call_id, {"url": url})
        found = await self._references.find(name)
        first, last = found.range or (1, MAX_LINES)
        shown = numbered(found.text, arguments.get("offset", first), arguments.get("limit", last - first + 1))
        place = f" ({found.place})" if found.place else ""
        return ToolResult(f"<ref>{name}{place}</ref>\n<content>\n{shown}\n</content>", title=name)
