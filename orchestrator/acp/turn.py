"""One prompt of an editor's, from its task to the end: told as it goes, its asks put to the person."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass

from envelope.lifecycle import State
from envelope.messages import TaskResult

from ..asks import OpenAsk, find_ask
from ..client import Muster
from ..errors import Answered, BadInput
from ..session.fold import Session
from ..watch import steps
from .asking import InWords, put, question_text
from .door import Door
from .failures import request_error
from .updates import Teller, is_main

log = logging.getLogger(__name__)

HOW = "muster ask answer {} …"


class Turn:
    """Who waits for it may stop at any time: the task goes on, and whoever comes next follows it from here."""

    def __init__(self, muster: Muster, door: Door, teller: Teller, view: Session) -> None:
        self.view = view
        self._muster = muster
        self._door = door
        self._teller = teller
        self._entries = 0  # that were read
        self._put: dict[str, asyncio.Task[None]] = {}  # asks that were put to the person
        self._in_words: asyncio.Queue[OpenAsk] = asyncio.Queue()

    @property
    def task_id(self) -> str:
        return self.view.root

    @property
    def is_heard(self) -> bool:
        """Is there an agent that a word could be for? A goal has none before its driver has begun."""
        return any(is_main(self.view, task) for task in self.view.tasks.values())

    async def follow(self) -> TaskResult | Unanswered:
        """To the task's end, or to a question that the person answers with their next prompt."""
        told = asyncio.create_task(self._tell())
        asked = asyncio.create_task(self._in_words.get())
        try:
            await asyncio.wait((told, asked), return_when=asyncio.FIRST_COMPLETED)
            return told.result() if told.done() else Unanswered(self, asked.result())
        finally:
            others = (told, asked, *self._put.values())
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            # what was taken off the screen is put again by whoever follows from here
            self._put = {ask_id: task for ask_id, task in self._put.items() if not task.cancelled()}

    async def _tell(self) -> TaskResult:
        self._look()  # what was open before is put again
        async with aclosing(steps(self._muster, self.view)) as seen:
            async for self.view, entry in seen:
                await self._door.send(self._teller.updates(self.view, entry))
                self._entries += 1
                self._look()
        result = await self._muster.result(self.view.root)
        assert result is not None  # its trace has been read to its end
        return result

    def _look(self) -> None:
        """Put what tasks wait for by now: an ask that was only just told of cannot be answered yet."""
        for task in self.view.tasks.values():
            if task.state is State.WAITING:
                agent = "" if is_main(self.view, task) else task.agent
                for ask_id in task.asks:
                    if ask_id not in self._put:
                        self._put[ask_id] = asyncio.create_task(self._ask(ask_id, agent))

    async def _ask(self, ask_id: str, agent: str) -> None:
        entries = self._entries
        try:
            one = await find_ask(self._muster.transport, ask_id, self._muster.ask_texts)
        except BadInput:
            # Answered meanwhile; or its task was woken by a word to it, and asks again: what tells so has come by now,
            # or will.
            del self._put[ask_id]
            if self._entries != entries:
                self._look()
            return
        if self._muster.settings.read_only:
            await self._door.mention(f"It waits for an answer, which must come from elsewhere: {HOW.format(ask_id)}\n")
            return
        try:
            reply = await put(self._door, one.ask, agent)
            if reply is InWords.NEXT_PROMPT:
                questions = "\n\n".join(map(question_text, one.ask.questions))
                await self._door.say(f"\n\n{questions}\n\n(Your next message is the answer.)")
                await self._in_words.put(one)
            elif reply is not None:
                await self._muster.reply(one, reply, by=self._door.by)
        except Answered as e:
            await self._door.mention(f"{e.message}\n")
        except ConnectionError:
            pass  # the editor has gone; the ask stays open at the other doors
        except Exception as e:
            log.error("an ask could not be put", exc_info=e)
            await self._door.say(f"\n\nA question could not be put here ({request_error(e)}): {HOW.format(ask_id)}")


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A turn that waits: the person's next prompt is the answer to what it asks."""

    turn: Turn
    asked: OpenAsk
