"""One session of an editor's: its prompts, one after the other, and what becomes of each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from acp.schema import AvailableCommandsUpdate, PromptResponse, SessionMode, SessionModeState

from envelope.agents import AgentCard, CommandCard
from envelope.lifecycle import TERMINAL
from envelope.messages import TaskResult
from transport.base import Handle, TaskRecord
from transport.errors import NotFound

from ..client import Muster
from ..errors import Answered, BadInput, UnknownName, near_miss
from ..looking import WouldWrite, require_writing
from ..prompting import listener, session_of
from ..session.fold import Session
from ..submit import intent_of
from .asking import in_words
from .book import Book, Kept
from .change import apply as apply_change
from .change import as_text, change_of, offer, require
from .commands import OF_SESSIONS, command_in, known_commands
from .door import Door
from .floor import CANCELLED, Floor
from .goals import Desk, Terms, goal_of
from .prompts import Block, Prompt, prompt_of
from .retelling import retell, view_of
from .stops import cost_microusd, end_text, stop_of, usage_of
from .texts import shown
from .turn import Turn, Unanswered
from .updates import Teller

# For what a prompt does before its task is there to follow: what was cancelled ends, and a bundle is packed.
LEAVE_S = 10.0

log = logging.getLogger(__name__)


@dataclass
class EditorSession:
    muster: Muster
    door: Door
    book: Book
    terms: Terms
    kept: Kept
    desk: Desk
    agents: Sequence[AgentCard]
    cards: Sequence[CommandCard]
    notes: list[str] = field(default_factory=list[str])  # told with the next prompt
    _teller: Teller = field(init=False)
    _floor: Floor = field(default_factory=Floor)
    _turn: Turn | Unanswered | None = None  # that has the floor, or waits for the next prompt
    _background: asyncio.Task[PromptResponse | None] | None = None

    def __post_init__(self) -> None:
        self._teller = Teller(Path(self.kept.root), self.kept.mode)

    @property
    def modes(self) -> SessionModeState:
        modes = [
            SessionMode(id=card.name, name=shown(card.name), description=shown(card.description) or None)
            for card in self.agents
        ]
        return SessionModeState(current_mode_id=self.kept.mode, available_modes=modes)

    async def tell_commands(self) -> None:
        commands = known_commands(self.cards)
        await self.door.send(
            [AvailableCommandsUpdate(session_update="available_commands_update", available_commands=commands)]
        )

    def refresh(self) -> None:
        """What was done in the session meanwhile, by other editors or before it was opened anew."""
        self._has(self.book.latest(self.kept))

    def set_mode(self, mode: str) -> None:
        """Who does the prompts from now on; one that is under way stays with whom it began."""
        known = [card.name for card in self.agents]
        if mode not in known:
            raise UnknownName(f"there is no mode {mode[:40]!r}", hint=near_miss(mode, known))
        self._teller.mode = mode
        self._has(self.kept)
        if self.kept.tasks:
            self._keep(lambda now: now.model_copy(update={"mode": mode}))

    async def prompt(self, blocks: Sequence[Block]) -> PromptResponse:
        """What becomes of it. A word to an agent at work is heard by its next turn; any other waits for its own."""
        prompt = prompt_of(blocks, Path(self.kept.root))
        under_way, turn, cancels = self._floor.work, self._turn, self._floor.cancels
        if under_way is None or not isinstance(turn, Turn) or not self._may_join(turn):
            return await self._floor.take(lambda: self._worked(self._answered(prompt)), cancels) or CANCELLED
        handle = await self._tell(turn.task_id, prompt)
        if handle.existing:
            return await asyncio.shield(under_way)
        # its agent was just through: another goes on
        response = await self._floor.take(lambda: self._worked(self._follow_new(handle, prompt.text)), cancels)
        if response is None:
            await self._cancel(handle.task_id)
        return response or CANCELLED

    async def cancel(self) -> None:
        """The task of the prompt that is under way, with all below it, and the prompts that wait for their turn."""
        self._floor.cancel()
        match self._turn:
            case None:
                pass
            case Unanswered(turn) if self._floor.work is None:
                self._turn = None
                await self._floor.take(lambda: self._taken_back(turn), self._floor.cancels)
            case (Turn() as turn) | Unanswered(turn):
                await self._cancel(turn.task_id)

    async def replay(self) -> None:
        """Tell all that the fleet still knows of the session; what is under way is followed from there."""
        live: Turn | None = None
        for task_id in self.kept.tasks:
            try:
                live = await retell(self.muster, self.door, self._teller, await self.muster.record(task_id))
            except NotFound:
                await self.door.mention("An earlier prompt of this session is no longer kept.\n")
        self._go_on_with(live)

    async def take_up(self) -> None:
        """Go on with what is under way; nothing of before is told."""
        if (record := await self._at_work()) is not None:
            self._go_on_with(Turn(self.muster, self.door, self._teller, view_of(record)))

    async def close(self) -> None:
        """Cancel what is under way, unless it is not this editor's to stop, and leave."""
        try:
            with suppress(WouldWrite):
                await self.cancel()
        finally:
            await self.leave()

    async def leave(self) -> None:
        """Nothing more is told or asked here; the task goes on. What has begun to be handed over is noted first."""
        self.door.left.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._floor.take(_nothing, self._floor.cancels)

    async def settle(self) -> TaskRecord | None:
        """Write down which of Muster's sessions the agent has begun, for the next prompt to go on with; the task that
        had it last."""
        for task_id in reversed(self.kept.tasks):
            try:
                request = await listener(self.muster.transport, task_id)
                record = await self.muster.record(request.task_id)
            except (NotFound, BadInput):
                continue
            if record.checkpoint is not None:
                self._goes_on(session_of(request), request.trace_id)
                return record
        return None

    def _goes_on(self, session: str, near: str) -> None:
        if (self.kept.session, self.kept.near) != (session, near):
            self._keep(lambda now: now.model_copy(update={"session": session, "near": near}))

    def _may_join(self, turn: Turn) -> bool:
        """What was cancelled hears nothing more; and who only looks has no say in what is under way."""
        return turn.is_heard and not self._floor.is_cancelled and not self.muster.settings.read_only

    def _keep(self, changed: Callable[[Kept], Kept]) -> None:
        """Write down what is new."""
        self._has(self.book.change(self.kept, changed))

    def _has(self, kept: Kept) -> None:
        """The mode is this editor's own."""
        self.kept = kept.model_copy(update={"mode": self._teller.mode})
        self._teller.costs = kept.costs

    async def _cancel(self, task_id: str) -> None:
        await self.muster.cancel(task_id, "cancelled in the editor", by=self.door.by)

    async def _taken_back(self, turn: Turn) -> PromptResponse:
        """A question that waited for the next prompt; what comes now begins after it."""
        await self._cancel(turn.task_id)
        return CANCELLED

    async def _worked(self, work: Awaitable[PromptResponse]) -> PromptResponse:
        """Whatever becomes of it, a turn that waits for no answer is over."""
        try:
            return await work
        finally:
            if isinstance(self._turn, Turn):
                self._turn = None

    async def _tell(self, task_id: str, prompt: Prompt) -> Handle:
        if prompt.files:
            raise BadInput("a file cannot join a prompt that is under way", hint="wait for its end")
        self._teller.heard.add(prompt.text)
        return await self.muster.prompt(task_id, prompt.text, by=self.door.by)

    async def _answered(self, prompt: Prompt) -> PromptResponse:
        if self.door.left.is_set():  # while it waited for its turn
            return CANCELLED
        if isinstance(waiting := self._turn, Unanswered):
            reply = in_words(waiting.asked.ask, prompt.text)
            try:
                await self.muster.reply(waiting.asked, reply, by=self.door.by)
            except Answered as e:
                await self.door.mention(f"{e.message}; your message was not sent.\n")
            return await self._followed(waiting.turn)
        match command_in(prompt.text, self.cards, Path(self.kept.root)):
            case "apply":
                return await self._apply()
            case "diff":
                return await self._show_change()
            case command if command in OF_SESSIONS:
                return await self._follow_new(await self._told_to_session(prompt.text), prompt.text)
            case _:
                return await self._said(prompt)

    async def _said(self, prompt: Prompt) -> PromptResponse:
        """A goal of its own, unless the session is at work for another editor, which is told so."""
        self.refresh()
        elsewhere = await self._at_work()
        if elsewhere is None:
            return await self._follow_new(await self._submitted(prompt), prompt.text)
        handle = await self._tell(elsewhere.task_id, prompt)
        if handle.existing:
            return await self._follow(elsewhere)
        return await self._follow_new(handle, prompt.text)

    async def _at_work(self) -> TaskRecord | None:
        """The last task of the session, unless it has ended or is about to."""
        if not self.kept.tasks:
            return None
        try:
            record = await self.muster.record(self.kept.tasks[-1])
        except NotFound:
            return None
        return None if record.state in TERMINAL or record.cancelled_by else record

    async def _submitted(self, prompt: Prompt) -> Handle:
        before = await self.settle()  # a prompt that nobody followed to its end has begun one, too
        if before is not None and before.state not in TERMINAL:  # cancelled: the session is its own until it has ended
            await self.muster.gather([Handle(before.task_id, before.trace_id)])
        notes, self.notes = self.notes, []
        request = await goal_of(self.muster, self.kept, self.desk, prompt, self.terms, notes.append)
        for note in notes:
            await self.door.mention(note)
        self._teller.heard.add(prompt.text)
        return await self.muster.submit(request)

    async def _told_to_session(self, text: str) -> Handle:
        if not self.kept.tasks:
            raise BadInput(f"{text.strip()} is about what was said before", hint="say something first")
        return await self.muster.prompt(self.kept.tasks[-1], text.strip(), by=self.door.by)

    async def _follow_new(self, handle: Handle, title: str) -> PromptResponse:
        self._keep(lambda now: now.with_task(handle.task_id, intent_of(title)))
        return await self._follow(await self.muster.record(handle.task_id))

    async def _follow(self, record: TaskRecord) -> PromptResponse:
        self._turn = Turn(self.muster, self.door, self._teller, view_of(record))
        self._teller.said = False
        if self._floor.is_cancelled:
            await self._cancel(record.task_id)
        return await self._followed(self._turn)

    async def _followed(self, turn: Turn) -> PromptResponse:
        """To the end of the turn, or to a question for the next prompt, or to where the session is left."""
        self._turn = turn
        ended = await self.door.until_left(turn.follow())
        if ended is None:
            return CANCELLED
        if isinstance(ended, Unanswered):
            self._turn = ended
            return PromptResponse(stop_reason="end_turn", usage=usage_of(turn.view))
        self._turn = None
        await self.settle()
        self._keep(lambda now: self._after(now, turn.view, ended))
        return await self._concluded(turn.view, ended)

    def _after(self, kept: Kept, view: Session, result: TaskResult) -> Kept:
        update = {"mode": self._teller.mode, "title": self._teller.name or kept.title}
        return kept.with_cost(view.root, cost_microusd(view, result)).model_copy(update=update)

    async def _concluded(self, view: Session, result: TaskResult) -> PromptResponse:
        stop = stop_of(result)
        response = PromptResponse(stop_reason=stop, usage=usage_of(view))
        if not self._teller.said and result.output.text:
            await self.door.say(await self.muster.answer(result))
        await self.door.say(end_text(view, result))
        if stop == "cancelled" or self.muster.settings.read_only:
            return response
        change = await change_of(self.muster, self.kept)
        if change is not None and result.errors:
            await self.door.say("\n\nWhat it has changed so far: /diff shows it, /apply takes it.")
        elif change is not None:
            self._has(await offer(self.muster, self.door, change, self.book, self.kept))
        return CANCELLED if self._floor.is_cancelled else response

    async def _apply(self) -> PromptResponse:
        require_writing(self.muster.settings, "your files would be changed")
        self.refresh()
        change = require(await change_of(self.muster, self.kept))
        self._has(await apply_change(self.muster, change, self.book, self.kept))
        await self.door.say(f"Applied to {self.kept.root}.")
        return PromptResponse(stop_reason="end_turn")

    async def _show_change(self) -> PromptResponse:
        self.refresh()
        await self.door.say(as_text(require(await change_of(self.muster, self.kept))))
        return PromptResponse(stop_reason="end_turn")

    def _go_on_with(self, turn: Turn | None) -> None:
        if turn is None:
            return
        self._turn = turn
        following = self._floor.take(lambda: self._worked(self._followed(turn)), self._floor.cancels)
        self._background = asyncio.create_task(following)
        self._background.add_done_callback(_looked_at)


async def _nothing() -> PromptResponse:
    return CANCELLED


def _looked_at(task: asyncio.Task[PromptResponse | None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("a prompt that was taken up again ended badly: %s", error)
