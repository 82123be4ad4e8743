"""What can be asked of a tool server: commands and files, as values. Knows no engine."""

from __future__ import annotations

import json
import math
import posixpath
import stat
from collections.abc import Mapping, Sequence
from typing import Any, cast

from repo.errors import PatchRefused

from .base import MIB, WORKSPACE, Command, ExecResult, FileStat, GrepMatch, OnOutput
from .channel import Channel, Reply
from .errors import PathError, SandboxError, SandboxLost
from .service import JobClient, ServiceClient, names_of
from .view import APPLY
from .watching import UNWATCHED, SandboxWatch

FILE_TIMEOUT_S = 30.0  # a 64 MiB write over the stream takes under 1 s; the rest is a busy machine
APPLY_TIMEOUT_S = 120.0  # thousands of files on a busy machine
SEARCH_TIMEOUT_S = 60.0  # ripgrep reads gigabytes in that time
# Half of it is kept from the start of ripgrep's output: ten thousand long lines, more than any limit asks for.
SEARCH_OUTPUT_BYTES = 4 * MIB
LISTING_BYTES = 32 * MIB  # a thousand of the longest paths, each byte of them escaped; of others, all that there are
MAX_PATH_CHARS = 4096  # what the kernel takes; nobody asks for a longer one's sake
MAX_LINE_COLUMNS = 2000  # a minified file must not fill a model's window with one match
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
NOT_GIT = "--glob=!.git"  # after any other glob: the last that matches a path decides
RIPGREP = ("rg", "--no-config", "--hidden", "--color=never", "--no-messages")


class ToolClient:
    """Commands and files of one sandbox. See `Sandbox` for what the calls promise."""

    def __init__(self, channel: Channel, env: Mapping[str, str]) -> None:
        """`env` is added to every command, and the command's own wins."""
        self._channel = channel
        self._env = dict(env)
        self.watch: SandboxWatch = UNWATCHED

    async def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        _require_possible(command)
        arguments = {
            "argv": _argv(command.command),
            "cwd": command.cwd,
            "env": {**self._env, **command.env},
            "timeout_s": command.timeout_s,
            "max_output_bytes": command.max_output_bytes,
        }
        reply = await self._channel.call(
            "exec",
            arguments,
            body=command.stdin,
            timeout_s=command.timeout_s,
            max_bytes=command.max_output_bytes,
            on_data=on_output,
        )
        result = _exec_result(reply)
        self.watch.ran(result.duration_s)
        return result

    async def spawn(self, command: Command) -> JobClient:
        _require_possible(command)
        arguments = {
            "argv": _argv(command.command),
            "cwd": command.cwd,
            "env": {**self._env, **command.env},
            "max_output_bytes": command.max_output_bytes,
        }
        return await JobClient.start(self._channel, arguments)

    async def start(
        self, command: Sequence[str], *, cwd: str = WORKSPACE, env: Mapping[str, str] | None = None
    ) -> ServiceClient:
        return await ServiceClient.start(
            self._channel, {"argv": _argv(command), "cwd": cwd, "env": {**self._env, **(env or {})}}
        )

    async def read(self, path: str, *, offset_bytes: int = 0, max_bytes: int = 10 * MIB) -> bytes:
        arguments = {"path": path, "offset_bytes": offset_bytes, "max_bytes": max_bytes}
        return (await self._file("read", arguments, max_bytes=max_bytes)).body

    async def write(self, path: str, content: bytes, *, mode: int | None = None) -> None:
        await self._file("write", {"path": path, "mode": mode}, body=content)

    async def stat(self, path: str) -> FileStat:
        return _file_stat((await self._file("stat", {"path": path})).header.get("entry"))

    async def resolve(self, path: str) -> str:
        real = (await self._file("resolve", {"path": path})).header.get("path")
        if not isinstance(real, str):
            raise SandboxLost("The sandbox did not say where a path leads.")
        return real

    async def list(self, path: str, *, limit: int = 1000) -> list[FileStat]:
        reply = await self._file("list", {"path": path, "limit": limit}, max_bytes=LISTING_BYTES)
        return [_file_stat(entry) for entry in _entries(reply.body)]

    async def glob(self, pattern: str, path: str = WORKSPACE, *, limit: int = 100) -> tuple[list[str], bool]:
        await self._require_folder(path)
        records, cut = await self._ripgrep(["--files", "--null", f"--glob={pattern}", NOT_GIT, "."], path, end=b"\0")
        paths = [posixpath.normpath(posixpath.join(path, _text(record))) for record in records]
        return paths[:limit], cut or len(paths) > limit

    async def grep(
        self, pattern: str, path: str = WORKSPACE, *, include: str | None = None, limit: int = 100
    ) -> tuple[list[GrepMatch], bool]:
        kind = (await self.stat(path)).kind
        if kind not in ("file", "directory"):  # of a pipe or a device there is no end to read
            raise PathError(f"{path} is neither a file nor a folder.")
        folder, target = (path, ".") if kind == "directory" else posixpath.split(path)
        options = ["--line-number", "--with-filename", "--null", "--no-heading", f"--max-columns={MAX_LINE_COLUMNS}"]
        options += ["--max-columns-preview", *([f"--glob={include}"] if include else [])]
        records, cut = await self._ripgrep([*options, NOT_GIT, f"--regexp={pattern}", "--", target], folder, end=b"\n")
        # No match has none behind its path: so ripgrep says, among them, that a file turned out to be binary.
        lines = [record for record in records if b"\0" in record]
        if records and not lines:
            raise SandboxError(f"What matches is in binary files: {_text(records[0])}")
        matches = [_match(folder, record) for record in lines[:limit]]
        return matches, cut or len(lines) > limit

    async def apply_inside(self, diff: bytes) -> None:
        """As the agent would: a hostile workspace configures this git, but inside is all that it reaches."""
        result = await self.exec(Command(["git", *APPLY], stdin=diff, timeout_s=APPLY_TIMEOUT_S))
        if result.exit_code != 0:
            said = result.output.decode(errors="replace").strip()
            raise PatchRefused(f"The patch does not apply to the workspace: {said[-500:]}")

    async def kill_all(self) -> None:
        """End every process of the sandbox; the tool server goes on answering."""
        await self._file("kill_all", {})

    async def end_in(self, lifetime_s: int) -> None:
        """The sandbox ends itself after `lifetime_s` at the latest; never later than it would have."""
        await self._file("end_in", {"lifetime_s": lifetime_s})

    async def relay(self, socket_path: str) -> int:
        """Join a port on the sandbox's loopback to a unix socket inside; the port."""
        port = (await self._file("relay", {"path": socket_path})).header.get("port")
        if not isinstance(port, int):
            raise SandboxLost("The sandbox did not say where its relay listens.")
        return port

    async def _file(self, op: str, arguments: Mapping[str, Any], *, body: bytes = b"", max_bytes: int = 0) -> Reply:
        if len(arguments.get("path", "")) > MAX_PATH_CHARS:
            raise PathError(f"A path has at most {MAX_PATH_CHARS} characters.")
        return await self._channel.call(op, arguments, body=body, timeout_s=FILE_TIMEOUT_S, max_bytes=max_bytes)

    async def _require_folder(self, path: str) -> None:
        if (await self.stat(path)).kind != "directory":
            raise PathError(f"{path} is not a folder.")

    async def _ripgrep(self, arguments: list[str], folder: str, *, end: bytes) -> tuple[list[bytes], bool]:
        """The whole records of ripgrep's output by their paths, and whether some are missing.

        It is quicker where it need not keep the order, which decides only what is left of more than is kept.
        """
        result = await self._search(arguments, folder)
        if result.truncated_bytes and not result.timed_out:
            result = await self._search(["--sort=path", *arguments], folder)
        cut = result.truncated_bytes > 0 or result.timed_out
        kept = result.output[: SEARCH_OUTPUT_BYTES // 2] if result.truncated_bytes else result.output
        # After the last separator stands nothing, or half a record.
        return sorted(kept.split(end)[:-1], key=_folders), cut

    async def _search(self, arguments: list[str], folder: str) -> ExecResult:
        """As a command, its output is capped inside."""
        result = await self.exec(
            Command([*RIPGREP, *arguments], folder, timeout_s=SEARCH_TIMEOUT_S, max_output_bytes=SEARCH_OUTPUT_BYTES)
        )
        if result.exit_code >= 2 and not result.timed_out:  # 1 is: nothing found
            raise SandboxError(f"The search failed: {_text(result.output[:500]).strip()}")
        return result


def _folders(record: bytes) -> list[bytes]:
    """So that `a/x` stands before `a-b`, as with ripgrep. Lines of one file stay as they came."""
    return record.partition(b"\0")[0].split(b"/")


def _require_possible(command: Command) -> None:
    if not command.command:
        raise SandboxError("A command needs at least one word.")
    if math.isnan(command.timeout_s):
        raise SandboxError("A time-out is a number of seconds.")
    if command.max_output_bytes < 0:
        raise SandboxError("The limit of a command's output cannot be negative.")


def _argv(command: str | Sequence[str]) -> list[str]:
    """For a vector, the shell finds the program, and says 127 or 126 as it would for a line; it reads none of the
    words."""
    return ["/bin/sh", "-c", command] if isinstance(command, str) else ["/bin/sh", "-c", 'exec "$@"', "sh", *command]


def _text(data: bytes) -> str:
    """File names and lines need not be UTF-8; what leaves here is."""
    return data.decode("utf-8", "backslashreplace")


def _match(folder: str, record: bytes) -> GrepMatch:
    path, _, rest = record.partition(b"\0")
    number, _, line = rest.partition(b":")
    if not number.isdigit():
        raise SandboxError(f"The search failed: {_text(record[:500])}")
    return GrepMatch(posixpath.normpath(posixpath.join(folder, _text(path))), int(number), _text(line))


def _exec_result(reply: Reply) -> ExecResult:
    match reply.header:
        case {
            "exit_code": int(exit_code),
            "truncated_bytes": int(truncated_bytes),
            "timed_out": bool(timed_out),
            "duration_s": float(duration_s),
        }:
            left = names_of(reply.header)
            return ExecResult(exit_code, reply.body, truncated_bytes, timed_out, duration_s, left)
        case _:
            raise SandboxLost("The sandbox's account of a command makes no sense.")


def _entries(body: bytes) -> list[object]:
    try:
        decoded: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise SandboxLost("The sandbox's listing makes no sense.") from error
    if not isinstance(decoded, list):
        raise SandboxLost("The sandbox's listing makes no sense.")
    return cast("list[object]", decoded)


def _file_stat(entry: object) -> FileStat:
    match entry:
        case [str(path), int(mode), int(size_bytes), float(modified_s)]:
            kind = KINDS.get(stat.S_IFMT(mode), "other")
            return FileStat(path, kind, size_bytes, stat.S_IMODE(mode), modified_s)
        case _:
            raise SandboxLost("The sandbox's account of a file makes no sense.")
