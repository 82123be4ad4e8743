"""What the file tools share: reading text whole, and knowing whether the agent has seen what it is about to change."""

from __future__ import annotations

import hashlib
import posixpath

from envelope.near import close_names
from sandbox.base import MIB, Command, Sandbox
from sandbox.errors import PathError

from .base import ToolContext
from .errors import ToolError

MAX_FILE_BYTES = 10 * MIB  # what one read may carry; larger files are for grep and the shell

_BINARY_SUFFIXES = frozenset(
    {".7z", ".a", ".bin", ".bmp", ".class", ".dll", ".dylib", ".exe", ".gif", ".gz", ".ico", ".jar", ".jpeg", ".jpg"}
    | {".mp3", ".mp4", ".o", ".pdf", ".png", ".pyc", ".so", ".tar", ".wasm", ".webp", ".whl", ".xz", ".zip"}
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))  # without those that texts have
SNIFFED_BYTES = 4096  # as OpenCode does; git looks at twice as much


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def load(sandbox: Sandbox, path: str) -> bytes:
    """A file's whole content; `ToolError` says what to do when it cannot be had."""
    entry = await sandbox.stat(path)
    if entry.kind == "directory":
        raise ToolError(f"{path} is a directory")
    if entry.size_bytes > MAX_FILE_BYTES:
        raise ToolError(f"{path} has {entry.size_bytes} bytes, too many to read; use grep, or bash with sed -n")
    content = await sandbox.read(path, max_bytes=MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:  # it has grown meanwhile; an edit of its first part would cut off the rest
        raise ToolError(f"{path} has more than {MAX_FILE_BYTES} bytes, too many to read; use grep, or bash with sed -n")
    return content


async def load_if_there(sandbox: Sandbox, path: str) -> bytes | None:
    """The content, or None where there is nothing."""
    try:
        await sandbox.stat(path)
    except PathError:
        return None
    return await load(sandbox, path)


def require_seen(context: ToolContext, path: str, content: bytes) -> None:
    """Refuse to change a file that the session has not read, or that is no longer what it read."""
    seen = context.read_digests.get(path)
    if seen is None:
        raise ToolError(f"{path} was not read in this session; read it first")
    if seen != digest(content):
        raise ToolError(f"{path} has changed since it was read; read it again")


async def store(context: ToolContext, path: str, content: bytes, *, mode: int | None = None) -> None:
    """Write a file and remember that the session knows its content. Without `mode` it keeps the one it has."""
    context.may_have_written = True
    await (await context.sandbox()).write(path, content, mode=mode)
    context.read_digests[path] = digest(content)


async def remove(context: ToolContext, path: str) -> None:
    """Delete a file, or the link to it; no error where there is nothing."""
    context.may_have_written = True
    ended = await (await context.sandbox()).exec(Command(["rm", "-f", "--", path]))
    if ended.exit_code:
        raise ToolError(f"{path} could not be deleted: {ended.output.decode('utf-8', 'replace').strip()}")
    context.read_digests.pop(path, None)


def decoded(path: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as e:
        raise ToolError(f"{path} is not UTF-8 text; change it with bash") from e


def encoded(path: str, text: str) -> bytes:
    """A model can write half a surrogate pair as JSON, and no file can hold one."""
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        raise ToolError(f"the text for {path} holds half a surrogate pair (\\ud800 to \\udfff); leave it out") from e


def is_binary(path: str, content: bytes) -> bool:
    """By a known suffix, a NUL byte, or more than 30 % control bytes at the start."""
    head = content[:SNIFFED_BYTES]
    if posixpath.splitext(path)[1].lower() in _BINARY_SUFFIXES or 0 in head:
        return True
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls > 0.3 * len(head)


async def similar_names(sandbox: Sandbox, path: str) -> list[str]:
    """Up to three paths in the same folder that the model may have meant."""
    folder, name = posixpath.split(path)
    try:
        entries = await sandbox.list(folder)
    except PathError:
        return []
    names = [posixpath.basename(entry.path) for entry in entries]
    return [posixpath.join(folder, found) for found in close_names(name, names, count=3)]
