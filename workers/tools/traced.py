"""What the span of a tool call says."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from envelope.tracing import names
from envelope.tracing.spans import Span, span

from .base import CallResult, ToolResult

FAILED = "tool_error"
WAITS = "waits"


@contextmanager
def tool_span(tool: str, call_id: str, arguments: Mapping[str, object]) -> Generator[Span]:
    attributes = {names.OPERATION: "execute_tool", names.TOOL_NAME: tool, names.CALL_ID: call_id}
    with span(names.TOOL, attributes, tool=tool) as opened:
        opened.content(names.CALL_ARGUMENTS, lambda: json.dumps(arguments, ensure_ascii=False, default=str))
        yield opened


def tell_result(opened: Span, result: CallResult) -> None:
    if not isinstance(result, ToolResult):  # a subagent has it, or people are asked
        opened.set({names.OUTCOME: WAITS})
        return
    opened.content(names.CALL_RESULT, lambda: result.content)
    if result.is_error:
        opened.fail(FAILED)
