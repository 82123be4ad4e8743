"""The seam between the loop and a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from envelope.events import Event, Todo
from envelope.messages import TaskResult
from sandbox.base import WORKSPACE, Job, Sandbox

from ..llm.base import FilePart, ToolCall
from .people import Asked, People
from .planning import Planning
from .truncate import truncate as truncate


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model gets back (`content`), and what people see (`title`).

    `is_error` marks a call that did not do what it was asked to; a command's non-zero exit code is no such error.
    `metadata` is for people and programs, never for the model: JSON, and bounded by the tool that fills it. Tools that
    write have their unified diff in `diff`. `files` are shown to a model that can see them.
    """

    content: str
    title: str = ""
    is_error: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    files: tuple[FilePart, ...] = ()


@dataclass(frozen=True, slots=True)
class Delegated:
    """In place of a result: the call is a subagent's now, and the result of its task is the answer.

    `started_at_ms`: when the call began, by the clock of the worker that ran it. `session`, where it is not the child's
    own, and `agent`: for a call that is sent to the background.
    """

    child_task_id: str
    title: str = ""
    started_at_ms: int = 0
    session: str = ""
    agent: str = ""


# What came of a call: its result, or who has it now.
CallResult = ToolResult | Delegated | Asked


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that a call touches: a permission's name and what is matched against its patterns. `path`: where in
    the sandbox it looks for it, following links. `written`: the same as the model wrote it, where that differs; rules
    may be about either."""

    permission: str
    pattern: str
    path: str = field(default="", compare=False)
    written: str = ""

    @property
    def spellings(self) -> tuple[str, ...]:
        return (self.pattern, self.written) if self.written else (self.pattern,)


@dataclass(frozen=True, slots=True)
class ChildRequest:
    """`session`: of an earlier subagent, to go on with; empty: a new one. `in_background`: nobody waits for it."""

    call_id: str
    agent: str
    description: str
    prompt: str
    session: str = ""
    in_background: bool = False


class Children(Protocol):
    """Runs subagents: through the queue, on any machine, with a narrowed scope and their own deadline."""

    def in_background(self, agent: str) -> bool:
        """Does its caller never wait for an agent of this name?"""
        ...

    async def start(self, request: ChildRequest) -> str:
        """The subagent's task; the same call leads to the same one. `ToolError` when it may not start."""
        ...

    async def tell(self, session: str, text: str) -> bool:
        """Pass a word on to a subagent that is at work; False: it has ended. `ToolError` for one of others."""
        ...

    async def sent_to_background(self, task_ids: Sequence[str]) -> Sequence[str]:
        """Those that a person does not let their caller wait for any longer."""
        ...

    async def ended(self, task_ids: Sequence[str]) -> Mapping[str, TaskResult]:
        """The results of those that have ended, or do so soon, each with its patch applied here. A collision is one
        more error in it."""
        ...

    async def ended_by_now(self, task_ids: Sequence[str]) -> Mapping[str, TaskResult]:
        """As `ended`, of those that have ended already."""
        ...

    def catalogue(self) -> Mapping[str, str]:
        """Name → description of the agents that this task may start."""
        ...


@dataclass(slots=True)
class BackgroundCommand:
    """What `bash` has left running, in which sandbox. `seen_bytes`: how much of its output the model was shown."""

    command: str
    sandbox: Sandbox
    job: Job
    seen_bytes: int = 0
    end_told: bool = False


GetSandbox = Callable[[], Awaitable[Sandbox]]


def nobody_watches(event: Event) -> None:
    """For contexts whose tools are called by no loop."""


# Paths that were written → what the model should know of them.
AfterWrite = Callable[["ToolContext", Sequence[str]], Awaitable[str]]


async def nobody_looks(context: ToolContext, paths: Sequence[str]) -> str:
    """For contexts whose written files nobody looks after."""
    return ""


class ToolHooks(Protocol):
    """What an operator's own code says of calls."""

    async def before(self, call: ToolCall) -> ToolCall | str:
        """The call to run in its place, or why none is."""
        ...

    async def after(self, call: ToolCall, result: ToolResult) -> ToolResult: ...


class NoHooks:
    async def before(self, call: ToolCall) -> ToolCall | str:
        return call

    async def after(self, call: ToolCall, result: ToolResult) -> ToolResult:
        return result


async def nothing_nearby(path: str) -> str:
    """For contexts without a project."""
    return ""


async def no_links(path: str) -> str:
    """For contexts without a workspace."""
    return path


async def kept_nowhere(content: bytes) -> str:
    """For contexts without a store."""
    return ""


@dataclass(slots=True)
class ToolContext:
    """What a tool may use: the task's sandbox (opened at the first use), its subagents, and what it has read.

    `read_digests` maps a path to the digest of the content that this session last read or wrote; edits of a file that
    is not there, or has another content by now, are refused. It is part of the session and survives a restart.
    `todos` is the session's list as it stands (see `agent/todos.py`). `emit` tells people what a result does not.
    `nearby` gives what a project says about the folder of a file that is read; `user_dir` has the user's own skills.
    `cwd` is where commands run, as far as they have left `folder`; it is part of the session, too.
    `commands` run in the background, by the ids that the model knows; they are gone with the sandbox.
    """

    sandbox: GetSandbox
    children: Children
    read_digests: dict[str, str]
    may_have_written: bool = False  # set by tools that can change the workspace; tells the loop to take a snapshot
    left_running: bool = False  # a command has left processes behind, which may write at any time
    permit: Callable[[], AbstractAsyncContextManager[None]] = nullcontext  # held while a command runs
    tenant: str = ""  # whose turn it is, where something is done for a few at once
    folder: str = WORKSPACE  # where the task begins
    cwd: str = ""
    commands: dict[str, BackgroundCommand] = field(default_factory=dict[str, "BackgroundCommand"])
    todos: tuple[Todo, ...] = ()
    emit: Callable[[Event], None] = nobody_watches
    after_write: AfterWrite = nobody_looks
    hooks: ToolHooks = field(default_factory=NoHooks)
    shell_environment: Mapping[str, str] = field(default_factory=dict[str, str])
    nearby: Callable[[str], Awaitable[str]] = nothing_nearby
    resolve: Callable[[str], Awaitable[str]] = no_links  # where a path leads, by whichever links
    user_dir: Path | None = None
    keep: Callable[[bytes], Awaitable[str]] = kept_nowhere  # stores a whole output; its blob, or nothing
    keep_file: Callable[[bytes], Awaitable[str]] = kept_nowhere  # stores a file as it is; likewise
    spilled: dict[str, str] = field(default_factory=dict[str, str])  # call → blob, until its result is there
    cut_short: dict[str, str] = field(default_factory=dict[str, str])  # call → its output until it was stopped
    absent: Mapping[str, str] = field(default_factory=dict[str, str])  # tool → why it is not offered
    people: People | None = None  # None: nobody can be asked
    planning: Planning = field(default_factory=Planning)

    @property
    def writes_by_itself(self) -> bool:
        """May the workspace change without a call? What ended meanwhile, and was not told, has written too."""
        return self.left_running or not all(each.end_told for each in self.commands.values())


class Tool(Protocol):
    name: str
    description: str
    parameters: dict[str, Any]

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        """What permission must be asked for, before anything runs. Paths relative to the workspace."""
        ...

    def title(self, arguments: Mapping[str, Any]) -> str: ...

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> CallResult: ...
