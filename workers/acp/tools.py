"""What a program asks us to do in its sandbox: read, write and run, each as a call below scope, rules, hooks, people.

Not the tools that a model is offered: the program wants a file as it is, and a command that goes on.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sandbox.base import WORKSPACE

from ..permissions.guard import ENGINE
from ..permissions.variables import is_own
from ..project.framing import shortened
from ..tools.base import Target, ToolContext, ToolResult
from ..tools.bash import Bash
from ..tools.diff import diff_of, shown_diff
from ..tools.files import decoded, encoded, load, load_if_there, store
from ..tools.paths import absolute, path_targets, relative

ANY: dict[str, Any] = {"type": "object"}
MAX_ASKED_CHARS = 200  # of what is none of ours, on one line
PATHS = ("filePath", "file_path", "path", "filepath")


class ReadText:
    name = "read"
    description = "Read a text file."
    parameters = ANY

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return path_targets("read", arguments["path"])

    def title(self, arguments: Mapping[str, Any]) -> str:
        return relative(arguments["path"])

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        path, line, limit = absolute(arguments["path"]), arguments.get("line"), arguments.get("limit")
        text = decoded(path, await load(await context.sandbox(), path))
        if line is not None or limit is not None:
            start = max(0, (line or 1) - 1)
            text = "".join(text.splitlines(keepends=True)[start : None if limit is None else start + limit])
        return ToolResult(text, self.title(arguments))


class WriteText:
    name = "write"
    description = "Write a text file."
    parameters = ANY

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return path_targets("edit", arguments["path"])

    def title(self, arguments: Mapping[str, Any]) -> str:
        return relative(arguments["path"])

    async def preview(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        path = absolute(arguments["path"])
        before = await load_if_there(await context.sandbox(), path)
        return await shown_diff({path: (before, encoded(path, arguments["content"]))})

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        path = absolute(arguments["path"])
        content = encoded(path, arguments["content"])
        before = await load_if_there(await context.sandbox(), path)
        await store(context, path, content)
        return ToolResult(f"Wrote {path}.", self.title(arguments), metadata=await diff_of({path: (before, content)}))


class RunCommand(Bash):
    """Started, and not waited for: `start` gives the terminal's name."""

    description = "Run a command in a terminal."
    parameters = ANY

    def __init__(self, start: Callable[[str, str, Mapping[str, str]], Awaitable[str]]) -> None:
        self._start = start

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        """Variables that something else may read are judged as if the line itself set them."""
        names = (name for name in arguments.get("env", {}) if not is_own(name))
        return [*super().targets(arguments), *(Target("bash", f"{name}=") for name in names)]

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        cwd = absolute(arguments.get("workdir", WORKSPACE))
        env = {**context.shell_environment, **arguments.get("env", {})}
        return ToolResult(await self._start(arguments["command"], cwd, env), self.title(arguments))


@dataclass(slots=True)
class Permission:
    """The program wants to do something by itself: only whether it may is looked at. It cannot do more than its sandbox
    lets it, whatever it asks, and its patch is checked like any other."""

    name: str
    wanted: Sequence[Target]
    about: str
    detail: str
    given: dict[str, Any]  # what it says of it: for hooks, and for people
    description: str = "Ask whether the program may do it."
    parameters: dict[str, Any] = field(default_factory=lambda: ANY)

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return list(self.wanted)

    def title(self, arguments: Mapping[str, Any]) -> str:
        return self.about

    async def preview(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        return self.detail

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult("allowed", self.about)


def permission(kind: str, title: str, raw_input: object, paths: Sequence[str], detail: str) -> Permission:
    """What the program wants, in terms of our permissions; what cannot be told is asked for as what it is called."""
    given = cast(dict[str, Any], raw_input) if isinstance(raw_input, dict) else {}
    about = shortened(title, MAX_ASKED_CHARS) or kind
    named = [*paths, *(given[key] for key in PATHS if isinstance(given.get(key), str))]
    command, url = _command(given.get("command")), given.get("url")
    match kind:
        case "execute" if command:
            cwd = given.get("cwd") or given.get("workdir")
            where = {"workdir": cwd} if isinstance(cwd, str) and cwd else {}
            return Permission("bash", Bash().targets({"command": command, **where}), about, command, given)
        case "edit" | "delete" | "move" if named:
            return Permission("edit", _on("edit", named), about, detail or about, given)
        case "read" | "search" if named:
            return Permission("read", _on("read", named), about, detail or about, given)
        case "fetch" if isinstance(url, str) and url:
            return Permission("webfetch", [Target("webfetch", url)], about, url, given)
        case _:
            return Permission(ENGINE, [Target(ENGINE, about)], about, detail or about, given)


def _on(permission: str, paths: Sequence[str]) -> list[Target]:
    return [target for path in dict.fromkeys(map(absolute, paths)) for target in path_targets(permission, path)]


def command_line(program: str, arguments: Sequence[str]) -> str:
    """One program with its arguments; without any, most write a whole line for a shell.

    >>> command_line("echo", ["a b"]), command_line("echo a && echo b", [])
    ("echo 'a b'", 'echo a && echo b')
    """
    return shlex.join([program, *arguments]) if arguments else program


def _command(written: object) -> str:
    if isinstance(written, str):
        return written
    if not isinstance(written, list):
        return ""
    words = cast(list[object], written)
    return shlex.join(map(str, words)) if words else ""
