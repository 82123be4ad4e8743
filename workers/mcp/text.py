"""What servers answer with, for a model: texts, and names for what is no text."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from envelope.redaction import redact_known

from ..tools.base import ToolContext
from ..tools.spill import SPILL_FOLDER, spill
from ..tools.truncate import spill_hint, truncate

MAX_BLOB_BYTES = 5 * 1024 * 1024  # what webfetch takes


def text_of(blocks: Iterable[Any]) -> str:
    """What of a result's blocks a model can read; what it cannot is named. Secrets that come back are blanked out."""
    return redact_known("\n".join(_part(block) for block in blocks))


async def fitted(context: ToolContext, call_id: str, text: str) -> str:
    """The text, or its beginning and where the whole is."""
    cut = truncate(text)
    if not cut.notice:
        return text
    return cut.shown(spill_hint(await spill(context, call_id, text.encode("utf-8", "replace"))))


async def content_of(context: ToolContext, call_id: str, contents: Iterable[Any]) -> str:
    """A resource's texts as they are; of its blobs, where they lie now."""
    parts = [
        part.text if getattr(part, "text", None) is not None else await _stored(context, f"{call_id}-{number}", part)
        for number, part in enumerate(contents)
    ]
    return await fitted(context, call_id, redact_known("\n".join(parts)) or "(empty)")


async def _stored(context: ToolContext, name: str, part: Any) -> str:
    kind = part.mime_type or "of unknown type"
    try:
        content = base64.b64decode(part.blob, validate=True)
    except ValueError:
        return f"(a blob, {kind}, that cannot be decoded)"
    if len(content) > MAX_BLOB_BYTES:
        return f"(a blob, {kind}, of {len(content)} bytes: left out, the limit is {MAX_BLOB_BYTES})"
    path = f"{SPILL_FOLDER}/{name}.bin"
    await (await context.sandbox()).write(path, content)
    return f"(a blob, {kind}, of {len(content)} bytes: it is in {path})"


def _part(block: Any) -> str:
    match block.type:
        case "text":
            return block.text
        case "resource" if getattr(block.resource, "text", None) is not None:
            return block.resource.text
        case "resource_link":
            return f"({block.name}: {block.uri})"
        case kind:
            return f"({kind} left out: it is no text)"
