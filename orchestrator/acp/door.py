"""The editor at the other end, as one session sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from acp import update_agent_message_text, update_agent_thought_text
from acp.interfaces import Client
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ElicitationFormSessionMode,
    ElicitationSchema,
    PermissionOption,
    ToolCallUpdate,
)

from .texts import shown

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Door:
    """`by`: who sits there, as records name them. `has_forms`: it can show a form, and not only a choice.

    `left`: the session was closed, or opened anew, and this is not its door any more: nothing is told.
    """

    client: Client
    session_id: str
    by: str
    has_forms: bool
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_left(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What the work comes to; None, and it is stopped or never begun, when the session is left before that."""
        if self.left.is_set():
            work.close()
            return None
        working, leaving = asyncio.create_task(work), asyncio.create_task(self.left.wait())
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
            return None if leaving.done() else working.result()
        finally:
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)

    async def send(self, updates: Iterable[Any]) -> None:
        for update in updates:
            if not self.left.is_set():
                await self.client.session_update(session_id=self.session_id, update=update)

    async def say(self, text: str) -> None:
        await self.send([update_agent_message_text(shown(text))])

    async def mention(self, text: str) -> None:
        """What is good to know, and no part of the answer."""
        await self.send([update_agent_thought_text(shown(text))])

    async def choose(self, about: ToolCallUpdate, options: Sequence[PermissionOption]) -> str | None:
        """The id of what the person chose; None when the editor took the question away."""
        answer = await self.client.request_permission(
            session_id=self.session_id, tool_call=about, options=list(options)
        )
        return answer.outcome.option_id if isinstance(answer.outcome, AllowedOutcome) else None

    async def fill(self, message: str, form: ElicitationSchema) -> dict[str, Any] | None:
        """What the person wrote into a form; None when they did not send it."""
        mode = ElicitationFormSessionMode(session_id=self.session_id, requested_schema=form)
        answer = await self.client.create_elicitation(message=message, mode=mode)
        if not isinstance(answer, AcceptElicitationResponse):
            return None
        return answer.model_dump(mode="json").get("content") or {}
