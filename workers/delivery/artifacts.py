"""What a task leaves beside its patch: files under one folder, attached to its result."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator, Callable

from envelope.artifacts import FOLDER
from envelope.messages import Attachment
from sandbox.base import FileStat, Sandbox
from sandbox.errors import PathError
from transport.blobs.base import Blobs

SYSTEM_LINE = f"Files that you leave under {FOLDER} (a report, a log, a picture) are attached to the result."
# Enough for a report with its pictures; results and blobs of a whole fleet are kept for days.
MAX_FILES = 50
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 5
MEDIA_TYPES = {
    **dict.fromkeys((".txt", ".log"), "text/plain"),
    ".md": "text/markdown",
    ".html": "text/html",
    ".csv": "text/csv",
    ".json": "application/json",
    ".pdf": "application/pdf",
    ".png": "image/png",
    **dict.fromkeys((".jpg", ".jpeg"), "image/jpeg"),
    ".svg": "image/svg+xml",
    ".zip": "application/zip",
}


async def attached(sandbox: Sandbox, blobs: Blobs, warn: Callable[[str], None]) -> tuple[Attachment, ...]:
    """The files as attachments, by their names under the folder; `warn` is told what had no room."""
    taken: list[Attachment] = []
    left = MAX_BYTES
    async for entry in _files(sandbox, FOLDER, MAX_DEPTH):
        name = posixpath.relpath(entry.path, FOLDER)
        if len(taken) == MAX_FILES:
            warn(f"only the first {MAX_FILES} files of {FOLDER} are attached")
            break
        if entry.size_bytes > min(left, MAX_FILE_BYTES):
            warn(f"{name} ({entry.size_bytes} bytes) is too large to be attached")
            continue
        try:
            content = await sandbox.read(entry.path, max_bytes=MAX_FILE_BYTES)
        except PathError as e:  # it is gone, nobody may read it, or its name is no text: the work counts all the same
            warn(f"{name} could not be read and is not attached: {e}")
            continue
        left -= len(content)
        media_type = MEDIA_TYPES.get(posixpath.splitext(name)[1].lower(), "application/octet-stream")
        blob = await blobs.put(content)
        taken.append(Attachment(blob=blob, name=name, media_type=media_type, size_bytes=len(content)))
    return tuple(taken)


async def _files(sandbox: Sandbox, folder: str, depth: int) -> AsyncIterator[FileStat]:
    """Plain files by name, folder by folder; no link is followed."""
    try:
        entries = await sandbox.list(folder)
    except PathError:
        return  # there is none
    for entry in entries:
        if entry.kind == "file":
            yield entry
        elif entry.kind == "directory" and depth > 1:
            async for inner in _files(sandbox, entry.path, depth - 1):
                yield inner
