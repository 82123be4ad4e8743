"""What stands between the turns of an attempt: prompts that came in are heard, and the session is stored."""

from __future__ import annotations

from collections.abc import Sequence

from envelope.agent_params import AgentParams
from envelope.budget import Usage
from transport.base import Prompt, Transport

from ..agent.session import Session
from ..delivery.attempt import Attempt
from ..tools.base import ToolContext
from .checkpoints import Checkpoints
from .turn_log import forked, reverted, unreverted


class Turns:
    def __init__(self, transport: Transport, attempt: Attempt) -> None:
        self._transport = transport
        self._attempt = attempt
        self._checkpoints = Checkpoints(transport.blobs)
        self._heard = 0  # prompts that the session holds, and no checkpoint does
        self._mail: Sequence[Prompt] | None = None  # what came in until the last checkpoint, and was not heard yet

    async def load(self, checkpoint: str) -> Session:
        """This task's own session, to go on where its last checkpoint stands."""
        return await self._checkpoints.load(checkpoint)

    async def load_to_go_on(self, checkpoint: str) -> Session:
        """Another task's session; this one's turns join its log."""
        return await self._checkpoints.load_to_go_on(checkpoint)

    async def undo(self, checkpoint: str, params: AgentParams) -> Session:
        """Another task's session, taken back to an earlier turn or forth again: from here on that is how it stands.

        Of a fork: a copy of it, which is this task's own.
        """
        blobs = self._transport.blobs
        if params.fork_of:
            ref = await forked(blobs, checkpoint, params.revert_to)
        elif params.unrevert:
            ref = await unreverted(blobs, checkpoint)
        else:
            ref = await reverted(blobs, checkpoint, params.revert_to)
        await self._attempt.reporter.checkpoint(ref)
        session = await self._checkpoints.load_to_go_on(ref)
        return session.model_copy(update={"tool_calls": (), "usage": Usage(), "cost_microusd": 0, "turn": 0})

    async def hear(self) -> Sequence[str]:
        """What people have said to the session since its last checkpoint, which has told it as a rule."""
        mail, self._mail = self._mail, None
        prompts = await self._transport.inbox(self._attempt.claim.lease) if mail is None else mail
        self._heard = len(prompts)
        return [prompt.text for prompt in prompts]

    async def save(self, session: Session, context: ToolContext) -> Session:
        """Store the session after a turn, and the work's diff with it where there may be a new one."""
        if context.may_have_written or context.writes_by_itself:
            context.may_have_written = False
            diff = await self._attempt.sandbox.work_diff()
            changes = await self._transport.blobs.put(diff) if diff else None
            session = session.model_copy(update={"changes": changes})
        heard, self._heard = self._heard, 0
        self._mail = await self._attempt.reporter.checkpoint(await self._checkpoints.save(session), heard=heard)
        return session
