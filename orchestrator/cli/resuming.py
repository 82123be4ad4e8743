"""Going on with a session that has ended: `muster task resume`, `muster run --resume`."""

from __future__ import annotations

from dataclasses import dataclass

from envelope.budget import Budget as TaskBudget
from envelope.errors import ExitCode
from envelope.events import TurnFinished
from envelope.messages import TaskProgress

from ..catalogue import agents_of
from ..client import Muster
from ..session.fold import Session
from ..sessions import SessionRow
from ..settings import Settings
from .console import data, note
from .estimate import Spending, agreed
from .follow import follow
from .known import fleet_of
from .outcome import exit_code_after
from .show import show_result


@dataclass(frozen=True, slots=True)
class Resuming:
    """The command line, as it was meant. `words` name the task."""

    words: str
    prompt: str
    budget_microusd: int | None
    deadline_s: int | None
    detach: bool
    as_json: bool
    yes: bool
    settings: Settings
    no_input: bool = False


async def resumed(wish: Resuming) -> int:
    """Submit the task that goes on, and stay with it unless told otherwise; the exit code."""
    async with fleet_of(wish.settings, wish.words) as (muster, record):
        if not await _agreed(muster, await muster.session(record.task_id), wish):
            note("nothing was submitted")
            return ExitCode.CANCELLED
        cap = wish.budget_microusd
        budget = None if cap is None else TaskBudget(max_cost_microusd=cap, waits_at_cap=not wish.no_input)
        deadline_ms = wish.deadline_s and wish.deadline_s * 1000
        handle = await muster.resume(
            record.task_id, wish.prompt, budget=budget, deadline_ms=deadline_ms, no_input=wish.no_input
        )
        if wish.detach:
            note(f"its session goes on; see it with: muster task watch {handle.task_id}")
            data(handle.task_id)
            return ExitCode.OK
        request = await muster.request(handle.task_id)
        view = Session.of(handle.task_id, handle.trace_id, agent=request.agent, title=request.intent)
        followed = await follow(muster, view, as_json=wish.as_json, may_ask=not wish.no_input)
        if followed.result is not None and not wish.as_json:
            await show_result(muster, followed.view, followed.result)
        return exit_code_after(followed)


async def _agreed(muster: Muster, session: SessionRow, wish: Resuming) -> bool:
    request, workers = await muster.request(session.task_id), await muster.workers()
    card = agents_of(workers).get(request.agent)
    cap = request.budget.max_cost_microusd if wish.budget_microusd is None else wish.budget_microusd
    spending = Spending(
        wish.prompt,
        request.model or (card.model if card else ""),
        cap,
        may_ask=not (wish.yes or wish.no_input or wish.detach or wish.as_json),
        history_tokens=await _history_tokens(muster, session),
    )
    return await agreed(spending, workers, ask_above_microusd=muster.settings.ask_above_microusd)


async def _history_tokens(muster: Muster, session: SessionRow) -> int:
    """What the last turn that is still told of was sent and said: each one that comes is sent that, too."""
    usages = [
        event.usage
        for entry in await muster.events(session.trace_id)
        if isinstance(entry.message, TaskProgress) and entry.message.task_id == session.task_id
        for event in entry.message.events
        if isinstance(event, TurnFinished)
    ]
    return usages[-1].input_tokens + usages[-1].output_tokens if usages else 0
