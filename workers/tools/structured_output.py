"""`StructuredOutput`: how a model gives its answer when the task wants one of a certain form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import Target, ToolContext, ToolResult

STRUCTURED_OUTPUT = "StructuredOutput"


class StructuredOutput:
    """Its parameters are the schema, so that whoever runs calls has checked the answer; a valid one ends the loop."""

    name = STRUCTURED_OUTPUT
    description = "Give your final answer, in the form that the task asks for. Call it once, when the work is done."

    def __init__(self, schema: dict[str, Any]) -> None:
        self.parameters = schema

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return []  # it touches nothing

    def title(self, arguments: Mapping[str, Any]) -> str:
        return "answer"

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult("The answer is taken.", title=self.title(arguments))
