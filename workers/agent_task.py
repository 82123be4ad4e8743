"""An agent's task: a session opened or resumed, the loop around it, and what is stored after each turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from envelope.budget import Metrics, Usage
from envelope.deadline import remaining_ms
from envelope.events import MessageAdded
from envelope.messages import ErrorInfo, Output, TaskRequest
from transport.base import Transport, Wait
from transport.delivery import Pause
from transport.outbox import Outbox

from .agent.history import open_session, reopen_session
from .agent.loop import Loop, run
from .agent.prompt import look_around, system_prompt
from .agent.session import Session
from .agent.todos import todos_of
from .agents.base import Agent
from .attempt import Attempt, resume_token
from .checkpoints import Checkpoints
from .children import QueuedChildren
from .errors import BadInput
from .llm.prices import Price, cost_microusd
from .llm.retry import Retrying
from .models import Models
from .opening import first_prompt, whole_system
from .output_schema import answer_tools
from .references.names import check_refs
from .references.tool import reading_references
from .results import TaskOutcome
from .room import Room
from .subpath import folder_of, in_folder, require_folder
from .tools.base import ToolContext
from .tools.dispatch import run_calls
from .tools.registry import all_tools, offered
from .tools.web import WEB_TOOLS
from .turns import Turns
from .web.access import WebAccess

SHOWN_PROMPT_CHARS = 4096  # people see the beginning; the request holds the whole


@dataclass(frozen=True, slots=True)
class AgentTasks:
    """Runs agents for attempts; shared by all attempts of a worker."""

    transport: Transport
    outbox: Outbox
    models: Models
    agents: Mapping[str, Agent]
    web: WebAccess = field(default_factory=WebAccess)

    async def run(self, attempt: Attempt) -> TaskOutcome | Pause:
        """From wherever the session stands to its end, or to where it waits for subagents.

        `BadInput` and `NoModel` before the first call.
        """
        answer_tools(attempt.request)  # what cannot be used ends the task before anything is spent
        check_refs(attempt.request.context_refs)
        folder_of(attempt.request)
        turns = Turns(self.transport, attempt)
        session = await self._session(attempt, turns)
        attempt.reporter.totals.metrics = _spent(session)
        if attempt.claim.checkpoint is None:
            attempt.reporter.report(MessageAdded(role="user", text=attempt.request.input.prompt[:SHOWN_PROMPT_CHARS]))
        ledger = await attempt.reporter.ask_ledger()
        price = await self.models.price(session.model)
        has_cap = ledger.cap_microusd is not None or session.budget.max_cost_microusd is not None
        if price is None and has_cap:
            raise BadInput(
                f"the price of the model {session.model!r} is not known, and the task has a cost cap",
                hint="add it to MUSTER_PRICES, or submit without a cost cap",
            )
        session = await run(session, await self._loop(attempt, session, price, turns))
        if children := frozenset(answer.child for answer in session.open_turn if answer.child):
            return Pause(Wait(children))
        return _outcome(session, resume_token(attempt.claim, attempt.request, attempt.reporter))

    async def _session(self, attempt: Attempt, turns: Turns) -> Session:
        """This task's own checkpoint, else the session that the request continues, else a new one."""
        request = attempt.request
        model = self.models.choose(request.model, attempt.agent.model)
        if attempt.claim.checkpoint:
            return await self._with_work(attempt, await turns.load(attempt.claim.checkpoint))
        if attempt.claim.session:
            earlier = await Checkpoints(self.transport.blobs).load(attempt.claim.session)
            earlier = await self._with_work(attempt, _without_what_its_caller_has(earlier, request))
            prompt = await first_prompt(request, request.input.prompt or "Go on.", attempt.sandbox)
            return reopen_session(earlier, attempt.agent, model=model, prompt=prompt, budget=request.budget)
        sandbox, prepared = await attempt.sandbox.opened(), await attempt.sandbox.prepared()
        folder = folder_of(request)
        await require_folder(sandbox, folder)
        environment = await look_around(
            sandbox,
            date=datetime.now(UTC).date().isoformat(),
            base=prepared.spec.base,
            writable=not prepared.spec.read_only,
            directory=folder,
        )
        system = whole_system(system_prompt(attempt.agent, environment), request)
        prompt = await first_prompt(request, request.input.prompt, attempt.sandbox)
        return open_session(attempt.agent, model=model, system=system, prompt=prompt, budget=request.budget)

    async def _with_work(self, attempt: Attempt, session: Session) -> Session:
        """The session; its earlier work will be in the sandbox."""
        if session.changes:
            attempt.sandbox.earlier_work_diff = await self.transport.blobs.get(session.changes)
        return session

    async def _loop(self, attempt: Attempt, session: Session, price: Price | None, turns: Turns) -> Loop:
        names = tuple(sorted((*all_tools(), *WEB_TOOLS)))
        room = Room(self.transport, attempt.request.trace_id)
        children = QueuedChildren(self.transport, self.outbox, attempt, self.agents, names, room)
        context = ToolContext(
            attempt.sandbox.opened,
            children,
            dict(session.read_digests),
            todos=todos_of(session),
            emit=attempt.reporter.report,
        )
        capabilities = attempt.request.capabilities
        shown = offered(
            attempt.agent, attempt.guard, capabilities, children.catalogue(), model=session.model, web=self.web
        )
        rooted = in_folder({tool.name: tool for tool in shown}, folder_of(attempt.request))
        own = rooted | answer_tools(attempt.request)
        tools = reading_references(own, attempt, self.transport, self.web)
        model = self.models.named(session.model, temperature=attempt.agent.temperature)
        time_left_s = await self._time_left(attempt)
        return Loop(
            model=Retrying(model, attempt.reporter.report, time_left_s=time_left_s),
            tools=tools,
            run_calls=lambda calls, on_change: run_calls(calls, tools, context, attempt.guard, on_change),
            context=context,
            emit=attempt.reporter.report,
            save=lambda current: turns.save(current, context),
            hear=turns.hear,
            price=lambda usage: _cost(price, usage),
            exhausted=lambda: attempt.reporter.ledger.exhausted,
        )

    async def _time_left(self, attempt: Attempt) -> Callable[[], float]:
        """The store's clock is read once; from there our own steady one counts."""
        left_ms = remaining_ms(attempt.claim.expires_at_ms, now_ms=await self.transport.now_ms())
        clock = asyncio.get_running_loop().time
        ends_at_s = clock() + left_ms / 1000
        return lambda: ends_at_s - clock()


def _spent(session: Session) -> Metrics:
    calls = len(session.tool_calls) + sum(answer.ran and not answer.child for answer in session.open_turn)
    return Metrics(usage=session.usage, cost_microusd=session.cost_microusd, turns=session.turn, tool_calls=calls)


def _cost(price: Price | None, usage: Usage) -> int:
    return 0 if price is None else cost_microusd(price, usage)


def _without_what_its_caller_has(earlier: Session, request: TaskRequest) -> Session:
    """A subagent starts from its caller's workspace as it is now: what it did before is in there, or was refused.

    What a failed one had done was never taken in.
    """
    taken_in = request.parent_task_id is not None and earlier.outcome is not None and earlier.outcome.error is None
    return earlier.model_copy(update={"changes": None}) if taken_in else earlier


def _outcome(session: Session, token: str) -> TaskOutcome:
    outcome = session.outcome
    if outcome is None:
        raise AssertionError("the loop ends with an outcome")
    errors = () if outcome.error is None else (ErrorInfo.of(outcome.error, outcome.detail, outcome.hint),)
    text = outcome.text or ("" if outcome.structured is None else json.dumps(outcome.structured, ensure_ascii=False))
    return TaskOutcome(Output(text=text, structured=outcome.structured), errors, session.tool_calls, token)
