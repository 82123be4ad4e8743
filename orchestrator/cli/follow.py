"""Staying with a task until it ends, is detached from, or is cancelled by whoever waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport.base import Entry

from ..asks import OpenAsk, find_ask
from ..client import Muster
from ..errors import BadInput
from ..session.fold import Session
from ..watch import Show, watch
from .asking import ask_at_keyboard, show_ask
from .console import interactive, note
from .interrupt import Choice, Interrupts, ask_choice, interrupts
from .live import shown, skew_of
from .person import person

T = TypeVar("T")

# From the cancellation to the result: sandboxes are killed, not asked, so that a few seconds do.
CANCEL_WAIT_S = 15.0


@dataclass(frozen=True, slots=True)
class Followed:
    """`result` is None when the task goes on without us, or did not end in time after an interrupt.

    `asks`: it waits for an answer that nobody here can give.
    """

    view: Session
    result: TaskResult | None
    interrupted: bool = False
    asks: bool = False


async def follow(muster: Muster, view: Session, *, as_json: bool, may_ask: bool, owner: bool = True) -> Followed:
    """Show the view to its end. A first Ctrl-C detaches (always, when this is not the task's `owner`) or cancels.

    What its tasks ask is answered at the keyboard. Where there is none, the owner is told how, and leaves.
    """
    async with interrupts() as heard:
        can_answer = interactive() and not as_json and (may_ask or not owner)
        showing = _Showing(muster, view, as_json=as_json, skew_ms=await skew_of(muster))
        stopped = await showing.until_over(heard, can_answer=can_answer, leaves=owner)
        view, task_id = showing.view, view.root
        if stopped is _Stop.ENDED:
            return Followed(view, await muster.result(task_id))
        if stopped is _Stop.ASKED:
            note(f"it waits for the answer; then see it with: muster task watch {task_id}")
            return Followed(view, None, asks=True)
        if not owner or await ask_choice(may_ask=may_ask) is Choice.DETACH:
            note(f"it goes on; see it with: muster task watch {task_id}")
            return Followed(view, None, interrupted=True)
        note("cancelling …")
        await muster.cancel(task_id, "interrupted", by=person())
        return Followed(view, await _last_word(muster, task_id), interrupted=True)


class _Stop(Enum):
    """Why nothing more is shown."""

    ENDED = "ended"
    ASKED = "asked"
    INTERRUPTED = "interrupted"


class _Showing:
    """A view that is shown while it changes, and taken off the screen while a person answers."""

    def __init__(self, muster: Muster, view: Session, *, as_json: bool, skew_ms: int) -> None:
        self.view = view
        self._muster = muster
        self._as_json = as_json
        self._skew_ms = skew_ms
        self._show: Show | None = None
        self._asked = asyncio.Event()
        self._put: set[str] = set()  # asks that were put to the person here, or told

    async def until_over(self, heard: Interrupts, *, can_answer: bool, leaves: bool) -> _Stop:
        """`leaves`: at the first ask that nobody here can answer; else it is shown like all that happens."""
        watching = asyncio.create_task(watch(self._muster, self.view, self._remember))
        interrupted = asyncio.create_task(heard.first.wait())
        try:
            while True:
                await self._until(self._asked.wait(), watching, interrupted, shown_meanwhile=True)
                if watching.done():
                    watching.result()
                    return _Stop.ENDED
                if interrupted.done():
                    return _Stop.INTERRUPTED
                self._asked.clear()
                if can_answer:
                    can_answer = await self._until(self._put_new(), watching, interrupted) is not False
                elif leaves and await self._say_how():
                    return _Stop.ASKED
        finally:
            watching.cancel()
            interrupted.cancel()
            await asyncio.gather(watching, interrupted, return_exceptions=True)

    async def _until(
        self, work: Coroutine[Any, Any, T], *others: asyncio.Task[Any], shown_meanwhile: bool = False
    ) -> T | None:
        """What the work came to, or None when one of the others was done first."""
        with (
            shown(self.view, as_json=self._as_json, skew_ms=self._skew_ms) if shown_meanwhile else nullcontext() as show
        ):
            self._show = show
            working = asyncio.create_task(work)
            try:
                await asyncio.wait((working, *others), return_when=asyncio.FIRST_COMPLETED)
                return working.result() if working.done() else None
            finally:
                self._show = None
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)

    def _remember(self, view: Session, entry: Entry) -> None:
        self.view = view
        if self._show:
            self._show(view, entry)
        if self._new():
            self._asked.set()

    def _new(self) -> list[str]:
        """Asks that tasks wait for by now: one that was only just told of cannot be answered yet."""
        asked = ((ask_id, task.state) for task in self.view.tasks.values() for ask_id in task.asks)
        open_now = (ask_id for ask_id, state in asked if state is State.WAITING)
        return [ask_id for ask_id in open_now if ask_id not in self._put]

    async def _open(self, ask_id: str) -> OpenAsk | None:
        """None when it is not open now: it was answered elsewhere, or its task is awake for a word that it was told,
        and asks again, which the view will have."""
        try:
            one = await find_ask(self._muster.transport, ask_id, self._muster.ask_texts)
        except BadInput:
            return None
        self._put.add(ask_id)
        return one

    async def _put_new(self) -> bool:
        """False when the terminal has gone."""
        try:
            for ask_id in self._new():
                if one := await self._open(ask_id):
                    await ask_at_keyboard(self._muster, one)
        except EOFError:
            return False
        return True

    async def _say_how(self) -> bool:
        """How new asks are answered elsewhere; False when none is open."""
        asks = [one for ask_id in self._new() if (one := await self._open(ask_id))]
        for one in asks:
            show_ask(one, self._muster.settings.state_dir)
        return bool(asks)


async def _last_word(muster: Muster, task_id: str) -> TaskResult | None:
    try:
        async with asyncio.timeout(CANCEL_WAIT_S):
            async for result in muster.results([task_id]):
                return result
    except TimeoutError:
        note(f"it has not ended after {CANCEL_WAIT_S:.0f} s, but it will; see: muster task show {task_id}")
    return None
