"""The hooks of one task, asked one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from envelope.events import Event, WarningRaised
from envelope.logs import get_logger

from ..llm.base import ChatMessage, ChatModel, ModelEvent, ToolCall, ToolChoice, ToolSpec
from ..tools.base import ToolResult
from .api import TIMEOUT_S, NotesWanted, Parameters, Refuse, TaskView, ToolUse
from .installed import Installed

_log = get_logger("hooks")


@dataclass(frozen=True, slots=True)
class Failed:
    """A hook that did not answer."""

    name: str


@dataclass(frozen=True, slots=True)
class Hooks:
    """`emit` tells people of a hook that fails."""

    installed: Sequence[Installed]
    task: TaskView
    emit: Callable[[Event], None]
    timeout_s: float = TIMEOUT_S

    async def before(self, call: ToolCall) -> ToolCall | str:
        """The call with the input that the hooks want for it, or why it is not run."""
        for one in self._with("before_tool"):
            use = ToolUse(self.task, call.id, call.name, call.input or {})
            match await self._ask(one, "before_tool", use):
                case Failed(name):
                    return f"not run: the hook {name}, which checks calls, has failed"
                case Refuse(reason):
                    return f"not allowed: {reason} (says the hook {one.name})"
                case None:
                    pass
                case changed:
                    call = call.model_copy(update={"input": dict(changed)})
        return call

    async def after(self, call: ToolCall, result: ToolResult) -> ToolResult:
        use = ToolUse(self.task, call.id, call.name, call.input or {})
        return await self._through("after_tool", result, lambda hook, so_far: hook.after_tool(use, so_far))

    async def messages(self, messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
        return await self._through("messages", messages, lambda hook, so_far: hook.messages(self.task, so_far))

    async def system_prompt(self, prompt: str) -> str:
        return await self._through("system_prompt", prompt, lambda hook, so_far: hook.system_prompt(self.task, so_far))

    async def tool_definitions(self, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        return await self._through(
            "tool_definitions", tools, lambda hook, so_far: hook.tool_definitions(self.task, so_far)
        )

    async def parameters(self, parameters: Parameters) -> Parameters:
        return await self._through(
            "chat_parameters", parameters, lambda hook, so_far: hook.chat_parameters(self.task, so_far)
        )

    async def compacting(self, wanted: NotesWanted) -> NotesWanted:
        async def ask(hook: Any, so_far: NotesWanted) -> NotesWanted | None:
            answer = await hook.compacting(self.task, so_far)
            if answer is not None and not isinstance(answer, NotesWanted):
                raise TypeError(f"NotesWanted or None is wanted, not {type(answer).__name__}")
            return answer

        return await self._through("compacting", wanted, ask)

    async def shell_environment(self) -> Mapping[str, str]:
        environment: dict[str, str] = {}
        for one in self._with("shell_environment"):
            found = await self._ask(one, "shell_environment", self.task)
            if isinstance(found, Mapping):
                environment |= {str(name): str(value) for name, value in found.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return environment

    def _with(self, point: str) -> list[Installed]:
        return [one for one in self.installed if hasattr(one.hook, point)]

    async def _through(self, point: str, value: Any, ask: Callable[[Any, Any], Awaitable[Any]]) -> Any:
        """The value as each hook in turn wants it; one that fails is passed over."""
        for one in self._with(point):
            answer = await self._within(one, point, lambda one=one, value=value: ask(one.hook, value))
            value = value if answer is None or isinstance(answer, Failed) else answer
        return value

    async def _ask(self, one: Installed, point: str, *arguments: Any) -> Any:
        return await self._within(one, point, lambda: getattr(one.hook, point)(*arguments))

    async def _within(self, one: Installed, point: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        try:
            async with asyncio.timeout(self.timeout_s):
                return await ask()
        except Exception as error:  # an operator's own code, which may fail in any way; the task must not fail with it
            _log.warning("hook_failed", hook=one.name, point=point, exc_info=error)
            self.emit(WarningRaised(message=f"the hook {one.name} failed in {point}: {error!r}"[:500]))
            return Failed(one.name)


@dataclass(frozen=True, slots=True)
class HookedModel:
    """A model that is asked what the hooks make of the messages and tools."""

    model: ChatModel
    hooks: Hooks

    @property
    def name(self) -> str:
        return self.model.name

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice = "auto"
    ) -> AsyncGenerator[ModelEvent, None]:
        shown, offered = await self._messages(messages), await self.hooks.tool_definitions(tools)
        async with aclosing(self.model.stream(shown, offered, tool_choice)) as events:
            async for event in events:
                yield event

    async def _messages(self, messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
        first, *rest = messages
        if first.role == "system":
            first = first.model_copy(update={"content": await self.hooks.system_prompt(first.content)})
        shown = [first, *rest]
        before = {id(one.provider_items): one for one in shown if one.provider_items}
        return [_as_changed(one, before.get(id(one.provider_items))) for one in await self.hooks.messages(shown)]


def _as_changed(message: ChatMessage, before: ChatMessage | None) -> ChatMessage:
    """What a hook took out of a reply must not go to the provider in the form that the provider gave it."""
    if message.provider_items is None:
        return message
    is_same = before is not None and _said(before) == _said(message)
    return message if is_same else message.model_copy(update={"provider_items": None})


def _said(message: ChatMessage) -> tuple[object, ...]:
    return message.role, message.content, message.reasoning, message.tool_calls


def hooked(model: ChatModel, hooks: Hooks) -> ChatModel:
    return HookedModel(model, hooks) if hooks.installed else model
