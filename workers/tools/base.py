"""The seam between the loop and a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from envelope.messages import TaskResult
from sandbox.base import Sandbox


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model gets back (`content`), and what people see (`title`).

    `is_error` marks a call that did not do what it was asked to; a command's non-zero exit code is no such error.
    """

    content: str
    title: str = ""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that a call touches: a permission's name and what is matched against its patterns."""

    permission: str
    pattern: str


@dataclass(frozen=True, slots=True)
class ChildRequest:
    call_id: str
    agent: str
    description: str
    prompt: str


class Children(Protocol):
    """Runs subagents: through the queue, on any machine, with a narrowed scope and their own deadline."""

    async def run(self, request: ChildRequest) -> TaskResult: ...
    def catalogue(self) -> Mapping[str, str]:
        """Name → description of the agents that this task may start."""
        ...


GetSandbox = Callable[[], Awaitable[Sandbox]]


@dataclass(slots=True)
class ToolContext:
    """What a tool may use: the task's sandbox (opened at the first use), its subagents, and what it has read.

    `read_digests` maps a path to the digest of the content that this session last read or wrote; edits of a file that
    is not there, or has another content by now, are refused. It is part of the session and survives a restart.
    """

    sandbox: GetSandbox
    children: Children
    read_digests: dict[str, str]
    may_have_written: bool = False  # set by tools that can change the workspace; tells the loop to take a snapshot


class Tool(Protocol):
    name: str
    description: str
    parameters: dict[str, Any]

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        """What permission must be asked for, before anything runs. Paths relative to the workspace."""
        ...

    def title(self, arguments: Mapping[str, Any]) -> str: ...

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult: ...
