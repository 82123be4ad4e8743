"""Staying with a task until it ends, is detached from, or is cancelled by whoever waits for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from envelope.messages import TaskResult
from transport.base import Entry

from ..client import Muster
from ..trace_view import TraceView
from .console import note
from .interrupt import Choice, Interrupts, ask_choice, interrupts
from .live import shown, skew_of
from .watch import watch

# From the cancellation to the result: sandboxes are killed, not asked, so that a few seconds do.
CANCEL_WAIT_S = 15.0


@dataclass(frozen=True, slots=True)
class Followed:
    """`result` is None when the task goes on without us, or did not end in time after an interrupt."""

    view: TraceView
    result: TaskResult | None
    interrupted: bool = False


async def follow(muster: Muster, view: TraceView, *, as_json: bool, may_ask: bool, owner: bool = True) -> Followed:
    """Show the view to its end. A first Ctrl-C detaches (always, when this is not the task's `owner`) or cancels."""
    async with interrupts() as heard:
        view, ended = await _show(muster, view, heard, as_json=as_json)
        task_id = view.root
        if ended:
            return Followed(view, await muster.result(task_id))
        if not owner or await ask_choice(may_ask=may_ask) is Choice.DETACH:
            note(f"it goes on; see it with: muster task watch {task_id}")
            return Followed(view, None, interrupted=True)
        note("cancelling …")
        await muster.cancel(task_id, "interrupted", by="cli")
        return Followed(view, await _last_word(muster, task_id), interrupted=True)


async def _show(muster: Muster, view: TraceView, heard: Interrupts, *, as_json: bool) -> tuple[TraceView, bool]:
    """The view as far as it was seen, and whether that is to its end."""
    latest = view
    with shown(view, as_json=as_json, skew_ms=await skew_of(muster)) as show:

        def remember(now: TraceView, entry: Entry) -> None:
            nonlocal latest
            latest = now
            show(now, entry)

        watching = asyncio.create_task(watch(muster, view, remember))
        interrupted = asyncio.create_task(heard.first.wait())
        try:
            await asyncio.wait((watching, interrupted), return_when=asyncio.FIRST_COMPLETED)
            return (watching.result(), True) if watching.done() else (latest, False)
        finally:
            watching.cancel()
            interrupted.cancel()
            await asyncio.gather(watching, interrupted, return_exceptions=True)


async def _last_word(muster: Muster, task_id: str) -> TaskResult | None:
    try:
        async with asyncio.timeout(CANCEL_WAIT_S):
            async for result in muster.results([task_id]):
                return result
    except TimeoutError:
        note(f"it has not ended after {CANCEL_WAIT_S:.0f} s, but it will; see: muster task show {task_id}")
    return None
