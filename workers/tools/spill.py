"""A whole output that a model sees cut: in the sandbox, where it can search it, and in a blob, for people."""

from __future__ import annotations

import re
from dataclasses import replace

from .base import ToolContext, ToolResult

SPILL_FOLDER = "/tmp/tool-output"  # noqa: S108 - inside the sandbox
# Of a result's metadata: the blob of its whole output.
OUTPUT_BLOB = "output_blob"
# A call's id is whatever the model's server says: a path as well.
_ODD = re.compile(r"[^\w-]")


async def spill(context: ToolContext, call_id: str, content: bytes) -> str:
    """Where the model finds it."""
    path = f"{SPILL_FOLDER}/{_ODD.sub('_', call_id)}.txt"
    await (await context.sandbox()).write(path, content)
    if blob := await context.keep(content):
        context.spilled[call_id] = blob
    return path


def with_spilled(context: ToolContext, call_id: str, result: ToolResult) -> ToolResult:
    """The result with the name of the blob, if its output was kept."""
    blob = context.spilled.pop(call_id, "")
    return replace(result, metadata={**result.metadata, OUTPUT_BLOB: blob}) if blob else result
