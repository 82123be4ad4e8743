"""The part of `Muster` that is about sessions: which there are, copies of them, and what they hold."""

from __future__ import annotations

from envelope.agent_params import AgentParams
from envelope.lifecycle import TERMINAL, State
from transport.base import Handle

from .errors import BadInput
from .looking import STEERS, require_writing
from .prompting import listener, session_of, undoing
from .records import Records
from .resume import goal_id
from .sessions import SessionPage, SessionRow, checkpoint_of, exported, fork_request, session_row, sessions_of
from .submit import DRIVERS


class SessionMethods:
    async def sessions(
        self: Records, *, tenant: str | None = None, archived: bool = False, after: str = "", limit: int = 20
    ) -> SessionPage:
        """Sessions with agents that people began, the latest first; the archived ones instead of the others."""
        return await sessions_of(self.transport, tenant=tenant, archived=archived, after=after, limit=limit)

    async def session(self: Records, task_id: str) -> SessionRow:
        """The session of a task; of a goal its agent's. `BadInput` for what has none."""
        return await session_row(self.transport, await listener(self.transport, task_id))

    async def fork(self: Records, task_id: str, *, turn: int | None = None) -> Handle:
        """Open a session with a copy of a task's, as it stood after a turn of it (None: the last so far; 0: none).

        A task of its own, which asks no model; prompts to it go on from there. Nothing of the old session changes.
        """
        return await self.submit(await fork_request(self.transport, await listener(self.transport, task_id), turn))

    async def revert(self: Records, task_id: str, turn: int) -> Handle:
        """Take a task's session and its work back to where a turn ended (0: before the first prompt), in a task of its
        own, which asks no model; prompts to it go on from there. `prompt` with /undo and /redo is the short way.
        """
        request = await listener(self.transport, task_id)
        goal = await goal_id(self.transport, request)
        return await self.submit(undoing(request, AgentParams(revert_to=turn), goal=goal))

    async def background(self: Records, task_id: str) -> None:
        """Send a subagent to the background: the call that its caller waits in returns, and the caller goes on and
        hears of its end later. Said again, it is the same. `BadInput` for a task that nobody waits for.
        """
        require_writing(self.settings, STEERS)
        request = await self.transport.request(task_id)
        caller = await self.transport.request(request.parent_task_id) if request.parent_task_id else None
        if caller is None or caller.recipient == DRIVERS:
            raise BadInput(
                f"the task {task_id} is no subagent", hint=f"see which there are: muster task tree {task_id}"
            )
        record, waiting = await self.record(task_id), await self.record(caller.task_id)
        if record.state in TERMINAL:
            raise BadInput(
                f"the subagent {task_id} has ended already: {record.state}",
                hint=f"see what came of it: muster task show {task_id}",
            )
        # what a caller that is not parked will wait for the queue cannot know
        known = waiting.state is State.WAITING or task_id in waiting.background
        begun = None if known else (await self.tree(request.trace_id)).tasks.get(task_id)
        is_there = begun is not None and begun.spawned is not None and begun.spawned.background
        if is_there or not await self.transport.background(task_id):
            raise BadInput(
                f"nobody waits for the subagent {task_id}",
                hint=f"its caller works, or waits for something else; see: muster task show {caller.task_id}",
            )

    async def archive(self: Records, task_id: str, *, archived: bool = True) -> None:
        """Leave a task's session out of listings, or list it again."""
        require_writing(self.settings, STEERS)
        await self.transport.archive(session_of(await listener(self.transport, task_id)), archived=archived)

    async def export(self: Records, task_id: str, *, sanitize: bool, markdown: bool = False) -> str:
        """A task's session as JSON, or to read; `sanitize` leaves out every text, so that it may be shared."""
        request = await listener(self.transport, task_id)
        checkpoint = await checkpoint_of(self.transport, request)
        return await exported(self.transport.blobs, checkpoint, sanitize=sanitize, markdown=markdown)
