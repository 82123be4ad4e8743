"""A model that is shown the files of its messages, as far as it can see them."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from .base import ChatMessage, ChatModel, Kind, ModelEvent, ToolChoice, ToolSpec
from .files import to_show, with_files


@dataclass(frozen=True, slots=True)
class Seeing:
    """`load` gives a blob's content, None when it is no longer kept. What was loaded for one call is there for the
    next."""

    model: ChatModel
    sees: frozenset[Kind]
    load: Callable[[str], Awaitable[bytes | None]]
    _contents: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        return self.model.name

    def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice = "auto"
    ) -> AsyncGenerator[ModelEvent, None]:
        # Most histories have no files, and pay nothing for that some do.
        if not any(message.files for message in messages):
            return self.model.stream(messages, tools, tool_choice)
        return self._shown(messages, tools, tool_choice)

    async def _shown(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice
    ) -> AsyncGenerator[ModelEvent, None]:
        await self._load(to_show(messages, self.sees))
        shown = with_files(messages, self._contents, self.sees)
        async with aclosing(self.model.stream(shown, tools, tool_choice)) as events:
            async for event in events:
                yield event

    async def _load(self, wanted: frozenset[str]) -> None:
        for blob in self._contents.keys() - wanted:
            del self._contents[blob]
        for blob in wanted - self._contents.keys():
            if (content := await self.load(blob)) is not None:
                self._contents[blob] = base64.b64encode(content).decode()
