"""One session of an editor's: its prompts, one after the other, and what becomes of each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from acp import update_user_message_text
from acp.schema import AvailableCommandsUpdate, PromptResponse, SessionMode, SessionModeState

from envelope.agents import AgentCard, CommandCard
from envelope.lifecycle import TERMINAL
from envelope.messages import TaskResult
from transport.base import Handle, TaskRecord
from transport.errors import NotFound

from ..asks import OpenAsk
from ..client import Muster
from ..errors import Answered, BadInput, UnknownName, near_miss
from ..looking import require_writing
from ..prompting import listener, session_of
from ..session.fold import Session, apply
from ..submit import intent_of
from .asking import in_words
from .book import Book, Kept
from .change import apply as apply_change
from .change import as_text, change_of, offer, require
from .commands import OF_SESSIONS, command_in, known_commands
from .door import Door
from .goals import Desk, Terms, goal_of
from .prompts import Block, Prompt, prompt_of
from .stops import end_text, stop_of, usage_of
from .texts import shown
from .turn import Turn
from .updates import Teller

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
    _turn: Turn | None = None
    _asked: OpenAsk | None = None  # the next prompt is the answer
    _ended: asyncio.Future[PromptResponse] | None = None  # of the turn that is under way
    _cancels: int = 0  # by the editor, so far
    _cancels_before: int = 0  # the turn that is under way began
    _background: asyncio.Task[PromptResponse] | None = None

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

    def set_mode(self, mode: str) -> None:
        """Who does the prompts from now on; one that is under way stays with whom it began."""
        known = [card.name for card in self.agents]
        if mode not in known:
            raise UnknownName(f"there is no mode {mode[:40]!r}", hint=near_miss(mode, known))
        self._teller.mode = mode
        self.kept = self.kept.model_copy(update={"mode": mode})
        if self.kept.tasks:
            self.kept = self.book.save(self.kept)

    async def prompt(self, blocks: Sequence[Block]) -> PromptResponse:
        """What becomes of it. A word to an agent at work is heard by its next turn; any other waits for its own."""
        prompt = prompt_of(blocks, Path(self.kept.root))
        if self._ended is None or self._turn is None or self._cancelled:
            return await self._in_its_turn(prompt, None)
        ended = self._ended
        handle = await self._tell(self._turn, prompt)
        if handle.existing:
            return await asyncio.shield(ended)
        return await self._in_its_turn(prompt, handle)  # its agent was just through: another goes on

    async def cancel(self) -> None:
        """The task of the prompt that is under way, with all below it, and the prompts that wait for their turn."""
        self._cancels += 1
        if self._asked is not None and self._ended is None and self._turn is not None:
            task_id, self._asked, self._turn = self._turn.task_id, None, None
        elif self._turn is not None:
            task_id = self._turn.task_id
        else:
            return
        await self._cancel(task_id)

    async def replay(self) -> None:
        """Tell all that the fleet still knows of the session; what is under way is followed from there."""
        live: Turn | None = None
        for task_id in self.kept.tasks:
            try:
                live = await self._retell(await self.muster.record(task_id))
            except NotFound:
                await self.door.mention("An earlier prompt of this session is no longer kept.\n")
        self._go_on_with(live)

    async def take_up(self) -> None:
        """Go on with what is under way; nothing of before is told."""
        if not self.kept.tasks:
            return
        try:
            record = await self.muster.record(self.kept.tasks[-1])
        except NotFound:
            return
        if record.state not in TERMINAL:
            self._go_on_with(Turn(self.muster, self.door, self._teller, await self._view_of(record)))

    async def leave(self) -> None:
        """Nothing more is told or asked here; the task goes on."""
        if self._background is not None:
            self._background.cancel()
            await asyncio.gather(self._background, return_exceptions=True)

    async def settle(self) -> None:
        """Write down which of Muster's sessions the agent has begun: the next prompt goes on with it."""
        for task_id in reversed(self.kept.tasks):
            try:
                request = await listener(self.muster.transport, task_id)
                record = await self.muster.record(request.task_id)
            except (NotFound, BadInput):
                continue
            if record.checkpoint is not None:
                found = {"session": session_of(request), "near": request.trace_id}
                self.kept = self.kept.model_copy(update=found)
                return

    async def _cancel(self, task_id: str) -> None:
        await self.muster.cancel(task_id, "cancelled in the editor", by=self.door.by)

    @property
    def _cancelled(self) -> bool:
        return self._cancels != self._cancels_before

    async def _in_its_turn(self, prompt: Prompt, begun: Handle | None) -> PromptResponse:
        cancels = self._cancels
        while self._ended is not None:
            await asyncio.wait({self._ended})
        if self._cancels != cancels:
            if begun is not None:
                await self._cancel(begun.task_id)
            return PromptResponse(stop_reason="cancelled")
        ended = self._begin()
        return await self._until_ended(ended, self._follow_new(begun, prompt.text) if begun else self._answered(prompt))

    def _begin(self) -> asyncio.Future[PromptResponse]:
        self._ended = asyncio.get_running_loop().create_future()
        self._cancels_before = self._cancels
        return self._ended

    async def _until_ended(
        self, ended: asyncio.Future[PromptResponse], work: Awaitable[PromptResponse]
    ) -> PromptResponse:
        """The work, while whoever says more meanwhile waits for its end, too."""
        try:
            response = await work
        except BaseException as e:
            ended.cancel() if isinstance(e, asyncio.CancelledError) else ended.set_exception(e)
            if not ended.cancelled():
                ended.exception()  # seen here
            raise
        else:
            ended.set_result(response)
            return response
        finally:
            self._ended = None
            if self._asked is None:
                self._turn = None

    async def _tell(self, turn: Turn, prompt: Prompt) -> Handle:
        if prompt.files:
            raise BadInput("a file cannot join a prompt that is under way", hint="wait for its end")
        self._teller.heard.add(prompt.text)
        return await self.muster.prompt(turn.task_id, prompt.text, by=self.door.by)

    async def _answered(self, prompt: Prompt) -> PromptResponse:
        if (asked := self._asked) is not None:
            reply = in_words(asked.ask, prompt.text)
            try:
                await self.muster.reply(asked, reply, by=self.door.by)
            except Answered as e:
                await self.door.mention(f"{e.message}; your message was not sent.\n")
            self._asked = None
            return await self._followed()
        match command_in(prompt.text, self.cards, Path(self.kept.root)):
            case "apply":
                return await self._apply()
            case "diff":
                return await self._show_change()
            case command if command in OF_SESSIONS:
                return await self._follow_new(await self._told_to_session(prompt.text), prompt.text)
            case _:
                return await self._follow_new(await self._submitted(prompt), prompt.text)

    async def _submitted(self, prompt: Prompt) -> Handle:
        await self.settle()  # a prompt that nobody followed to its end has begun one, too
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
        title = self.kept.title or intent_of(title)
        tasks = (*self.kept.tasks, handle.task_id)
        self.kept = self.book.save(self.kept.model_copy(update={"tasks": tasks, "title": title}))
        view = await self._view_of(await self.muster.record(handle.task_id))
        self._turn = Turn(self.muster, self.door, self._teller, view)
        self._teller.said = False
        if self._cancelled:
            await self._cancel(handle.task_id)
        return await self._followed()

    async def _followed(self) -> PromptResponse:
        """To the end of the turn that is under way, or to a question for the next prompt."""
        assert self._turn is not None
        turn = self._turn
        ended = await turn.follow()
        if isinstance(ended, OpenAsk):
            self._asked = ended
            return PromptResponse(stop_reason="end_turn", usage=usage_of(turn.view))
        self._turn = None
        await self.settle()
        update = {"mode": self._teller.mode, "title": self._teller.name or self.kept.title}
        self.kept = self.book.save(self.kept.model_copy(update=update))
        return await self._concluded(turn.view, ended)

    async def _concluded(self, view: Session, result: TaskResult) -> PromptResponse:
        stop = stop_of(result)
        if not self._teller.said and result.output.text:
            await self.door.say(await self.muster.answer(result))
        await self.door.say(end_text(view, result))
        response = PromptResponse(stop_reason=stop, usage=usage_of(view))
        change = await change_of(self.muster, self.kept) if stop != "cancelled" else None
        if change is not None and result.errors:
            await self.door.say("\n\nWhat it has changed so far: /diff shows it, /apply takes it.")
        elif change is not None:
            self.kept = self.book.save(await offer(self.door, change, self.kept))
        return response

    async def _apply(self) -> PromptResponse:
        require_writing(self.muster.settings, "your files would be changed")
        change = require(await change_of(self.muster, self.kept))
        self.kept = self.book.save(await apply_change(change, self.kept))
        await self.door.say(f"Applied to {self.kept.root}.")
        return PromptResponse(stop_reason="end_turn")

    async def _show_change(self) -> PromptResponse:
        await self.door.say(as_text(require(await change_of(self.muster, self.kept))))
        return PromptResponse(stop_reason="end_turn")

    async def _view_of(self, record: TaskRecord) -> Session:
        return Session.of(record.task_id, record.trace_id, agent=record.agent, title=record.intent)

    async def _retell(self, record: TaskRecord) -> Turn | None:
        """One prompt and what came of it; the turn, if it is under way."""
        text = (await self.muster.request(record.task_id)).input.prompt
        await self.door.send([update_user_message_text(shown(text))])
        self._teller.heard.add(text)
        self._teller.said = False
        view = await self._view_of(record)
        async for entry in self.muster.follow(record.trace_id, wait=False):
            if apply(view, entry):
                await self.door.send(self._teller.updates(view, entry))
        result = await self.muster.result(record.task_id)
        if result is None:
            return Turn(self.muster, self.door, self._teller, view)
        if not self._teller.said and result.output.text:
            await self.door.say(await self.muster.answer(result))
        await self.door.say(end_text(view, result))
        return None

    def _go_on_with(self, turn: Turn | None) -> None:
        if turn is None:
            return
        self._turn = turn
        self._background = asyncio.create_task(self._until_ended(self._begin(), self._followed()))
        self._background.add_done_callback(_looked_at)


def _looked_at(task: asyncio.Task[PromptResponse]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("a prompt that was taken up again ended badly: %s", error)
