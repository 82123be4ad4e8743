"""Going on with a session that has ended: `muster task resume`, `muster run --resume`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envelope.budget import Budget as TaskBudget
from envelope.errors import ExitCode
from envelope.events import TurnFinished
from envelope.messages import TaskProgress, TaskRequest

from ..catalogue import agents_of
from ..client import Muster
from ..project.gate_rules import gate_rules
from ..resume import ResumeOptions, resume_request, why_unproved
from ..session.fold import Session
from ..sessions import SessionRow
from ..settings import Settings
from .console import data, note
from .estimate import Spending, agreed
from .follow import follow
from .known import fleet_of
from .options import grants, microusd
from .outcome import exit_code_after
from .report_forms import Wanted
from .reports import write_reports
from .show import show_result


@dataclass(frozen=True, slots=True)
class Resuming:
    """The command line, as it was meant. `words` name the task; `options`: what is not to be as before."""

    words: str
    prompt: str
    options: ResumeOptions
    detach: bool
    as_json: bool
    yes: bool
    settings: Settings
    reports: tuple[Wanted, ...] = ()


def resume_options(
    budget: float | None,
    deadline_s: int | None,
    *,
    gate: Sequence[str] | None,
    gate_rule: Sequence[str] | None,
    setup: Sequence[str] | None,
    model: str,
    allow: Sequence[str] | None,
    no_input: bool = False,
) -> ResumeOptions:
    """The options as they stand on the command line."""
    cap = microusd(budget)
    return ResumeOptions(
        budget=None if cap is None else TaskBudget(max_cost_microusd=cap, waits_at_cap=not no_input),
        deadline_ms=deadline_s and deadline_s * 1000,
        no_input=no_input,
        gate=tuple(gate or ()),
        gate_rules=gate_rules(gate_rule or (), {}),
        setup=tuple(setup or ()),
        model=model,
        allow=grants(allow),
    )


async def resumed(wish: Resuming) -> int:
    """Submit the task that goes on, and stay with it unless told otherwise; the exit code."""
    async with fleet_of(wish.settings, wish.words) as (muster, record):
        request = await resume_request(muster.transport, record.task_id, wish.prompt, wish.options)
        if not await _agreed(muster, await muster.session(record.task_id), request, wish):
            note("nothing was submitted")
            return ExitCode.CANCELLED
        handle = await muster.submit(request)
        if wish.detach:
            if why := why_unproved(request):
                note(why)
            note(f"its session goes on; see it with: muster task watch {handle.task_id}")
            data(handle.task_id)
            return ExitCode.OK
        view = Session.of(handle.task_id, handle.trace_id, agent=request.agent, title=request.intent)
        followed = await follow(muster, view, as_json=wish.as_json, may_ask=not wish.options.no_input)
        await write_reports(muster, wish.reports, followed.result)
        if followed.result is not None and not wish.as_json:
            await show_result(muster, followed.view, followed.result)
        return exit_code_after(followed)


async def _agreed(muster: Muster, session: SessionRow, request: TaskRequest, wish: Resuming) -> bool:
    agent, workers = await muster.request(session.task_id), await muster.workers()
    card = agents_of(workers).get(agent.agent)
    spending = Spending(
        wish.prompt,
        request.model or (card.model if card else ""),
        request.budget.max_cost_microusd,
        may_ask=not (wish.yes or wish.options.no_input or wish.detach or wish.as_json),
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
