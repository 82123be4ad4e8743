"""`read`: a file's lines with their numbers, or a directory's entries."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from sandbox.base import Sandbox
from sandbox.errors import PathError

from ..llm.base import FilePart
from ..llm.files import MAX_FILE_BYTES, media_type_of
from .base import Target, ToolContext, ToolResult
from .errors import ToolError
from .files import digest, is_binary, load, similar_names
from .list import MAX_ENTRIES, entries_text
from .paths import absolute, path_targets, relative
from .schema import count, parameters, text
from .truncate import MAX_LINES, cut_line, truncate


class Read:
    name = "read"
    description = (
        f"Read a file, by default its first {MAX_LINES} lines; offset and limit choose others. Each line comes as"
        " `number: text`. A directory gives its entries, which offset and limit choose as well; an image or a PDF is"
        " shown as it is."
    )
    parameters = parameters(
        ["filePath"],
        filePath=text("absolute path of the file or directory"),
        offset=count("first line or entry, counted from 1"),
        limit=count(f"number of lines (default {MAX_LINES}) or entries (at most {MAX_ENTRIES})"),
    )

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return path_targets("read", arguments["filePath"])

    def title(self, arguments: Mapping[str, Any]) -> str:
        return relative(arguments["filePath"])

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        sandbox, path = await context.sandbox(), absolute(arguments["filePath"])
        if await _kind(sandbox, path) == "directory":
            offset, limit = arguments.get("offset", 1), arguments.get("limit", MAX_ENTRIES)
            content = await entries_text(sandbox, path, offset=offset, limit=limit)
            return ToolResult(_framed(path, "directory", content), title=self.title(arguments))
        raw = await load(sandbox, path)
        if media_type := media_type_of(raw):
            return await _attached(context, path, raw, media_type)
        if is_binary(path, raw):
            raise ToolError(f"{path} is a binary file and cannot be shown as text")
        shown = numbered(
            raw.decode("utf-8-sig", "replace"), arguments.get("offset", 1), arguments.get("limit", MAX_LINES)
        )
        context.read_digests[path] = digest(raw)
        reminder = await context.nearby(path)
        content = _framed(path, "file", shown)
        return ToolResult(f"{content}\n\n{reminder}" if reminder else content, title=self.title(arguments))


async def _attached(context: ToolContext, path: str, raw: bytes, media_type: str) -> ToolResult:
    if len(raw) > MAX_FILE_BYTES:
        raise ToolError(
            f"{path} ({media_type}) has {len(raw)} bytes, and at most {MAX_FILE_BYTES} can be shown; make a smaller"
            " copy with bash, or look into it there"
        )
    blob = await context.keep_file(raw)
    if not blob:
        raise ToolError(f"{path} ({media_type}) cannot be shown here; look into it with bash")
    file = FilePart(blob=blob, media_type=media_type, name=posixpath.basename(path), size_bytes=len(raw))
    context.read_digests[path] = digest(raw)
    content = _framed(path, file.kind, f"({media_type}, {len(raw)} bytes; goes with this answer)")
    return ToolResult(content, title=relative(path), files=(file,))


async def _kind(sandbox: Sandbox, path: str) -> str:
    try:
        return (await sandbox.stat(path)).kind
    except PathError as e:
        similar = await similar_names(sandbox, path)
        if path in similar:  # a link that leads nowhere, a name that is not UTF-8
            raise ToolError(f"{path} is listed, but cannot be opened by this name ({e}); look at it with bash") from e
        guess = (
            f"; did you mean {', '.join(similar)}?" if similar else f"; list {posixpath.dirname(path)} to see what is"
        )
        raise ToolError(f"{path} does not exist{guess}") from e


def numbered(content: str, offset: int, limit: int) -> str:
    """`limit` lines from line `offset` (from 1) as `number: text`, and a footer that says where to go on."""
    # Only newlines end lines here, as in grep and in every editor; str.splitlines knows nine more.
    lines = content.removesuffix("\n").split("\n") if content else []
    if offset > max(1, len(lines)):
        raise ToolError(f"offset {offset} is past the end: the file has {len(lines)} lines")
    wanted = [line.removesuffix("\r") for line in lines[offset - 1 : offset - 1 + limit]]
    cut = truncate("\n".join(f"{number}: {cut_line(line)}" for number, line in enumerate(wanted, offset)))
    last = offset - 1 + len(wanted) - cut.dropped_lines
    if last >= len(lines):
        return f"{cut.text}\n\n(end of file, {len(lines)} lines)"
    return f"{cut.text}\n\n(lines {offset} to {last} of {len(lines)}; go on with offset={last + 1})"


def _framed(path: str, kind: str, content: str) -> str:
    return f"<path>{path}</path>\n<type>{kind}</type>\n<content>\n{content}\n</content>"
