"""What a hook can be. For those who write one; nothing here runs.

A hook is an object with one or more of the methods below, named by an entry point of the group `muster.hooks` in a
package that is installed beside the worker (a class is called without arguments first). It runs in the worker's own
process, with all its rights: a repository cannot bring one. None as an answer leaves things as they are. Hooks are
asked in the order of their names, each with what the one before made of it, and have `TIMEOUT_S`.

A hook that raises or takes too long is a warning among the task's events, and things stay as they were; with one
exception: a `before_tool` that fails refuses the call, since it may be there to keep something from happening.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..agent.summary import NotesWanted as NotesWanted
from ..llm.base import ChatMessage, ToolSpec
from ..tools.base import ToolResult

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class TaskView:
    """The task that a hook is asked about."""

    task_id: str
    trace_id: str
    agent: str
    model: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call as the model made it; `input` has not been checked yet, by the tool's schema or by any permission."""

    task: TaskView
    call_id: str
    tool: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call is not run, and the model is told why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a model call is made with; None: the provider's default."""

    temperature: float | None


class BeforeTool(Protocol):
    async def before_tool(self, use: ToolUse) -> Mapping[str, Any] | Refuse | None:
        """Another input, which is then checked like the model's own; or a refusal."""
        ...


class AfterTool(Protocol):
    async def after_tool(self, use: ToolUse, result: ToolResult) -> ToolResult | None: ...


class Messages(Protocol):
    async def messages(self, task: TaskView, messages: Sequence[ChatMessage]) -> Sequence[ChatMessage] | None:
        """The whole history as the model is about to see it; what is stored does not change."""
        ...


class SystemPrompt(Protocol):
    async def system_prompt(self, task: TaskView, prompt: str) -> str | None: ...


class ToolDefinitions(Protocol):
    async def tool_definitions(self, task: TaskView, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec] | None:
        """How the tools are described. One that is added here is not there to be called."""
        ...


class ChatParameters(Protocol):
    async def chat_parameters(self, task: TaskView, parameters: Parameters) -> Parameters | None: ...


class ShellEnvironment(Protocol):
    async def shell_environment(self, task: TaskView) -> Mapping[str, str] | None:
        """Variables for the commands of `bash`. The agent can read them: they are no place for a secret."""
        ...


class Compacting(Protocol):
    async def compacting(self, task: TaskView, wanted: NotesWanted) -> NotesWanted | None:
        """Before a full window is told in notes: what else their writer should know (`context`), or another
        `template` in the place of ours. The record of the session is there in any case."""
        ...


Hook = (
    BeforeTool | AfterTool | Messages | SystemPrompt | ToolDefinitions | ChatParameters | ShellEnvironment | Compacting
)

POINTS = (
    *("before_tool", "after_tool", "messages", "system_prompt", "tool_definitions", "chat_parameters"),
    *("shell_environment", "compacting"),
)
