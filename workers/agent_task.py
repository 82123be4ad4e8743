"""An agent's task: a session opened or resumed, the loop around it, and what is stored after each turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from envelope.budget import Metrics, Usage
from envelope.deadline import remaining_ms
from envelope.events import MessageAdded
from envelope.messages import ErrorInfo, Output, TaskRequest
from transport.base import Ledger, Transport, Wait
from transport.delivery import Pause
from transport.outbox import Outbox
from transport.raising import ask_for_more

from .after_write.care import FileCare
from .agent.compacting import is_request, only_compacted
from .agent.history import reopen_session
from .agent.loop import Loop, run
from .agent.session import Session
from .agent.todos import todos_of
from .agents.base import Agent
from .attempt import Attempt, resume_token
from .checkpoints import Checkpoints
from .children import QueuedChildren
from .commands.prompts import Prompts, is_from_person
from .equipment import Equipment
from .errors import BadInput
from .hooks.api import Parameters, TaskView
from .hooks.chain import Hooks, hooked
from .llm.limited import Limited, Limiter
from .llm.prices import Price, cost_microusd
from .llm.retry import Retrying
from .mcp.hub import mcp_tools
from .models import Models
from .opening import may_read, new_session
from .project.nearby import nearby_instructions
from .results import TaskOutcome
from .till import TraceTill
from .titles import Titling
from .tools.base import Tool, ToolContext
from .tools.dispatch import run_calls
from .tools.registry import all_tools, offered
from .turns import Turns

SHOWN_PROMPT_CHARS = 4096  # people see the beginning; the request holds the whole


@dataclass(frozen=True, slots=True)
class AgentTasks:
    """Runs agents for attempts; shared by all attempts of a worker."""

    transport: Transport
    outbox: Outbox
    models: Models
    agents: Mapping[str, Agent]
    equipment: Equipment
    limiter: Limiter

    async def run(self, attempt: Attempt) -> TaskOutcome | Pause:
        """From wherever the session stands to its end, or to where it waits for subagents.

        `BadInput` and `NoModel` before the first call.
        """
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
        session = _with_its_traces_cap(session, ledger)
        titling = Titling(self.models, self.limiter, self.agents, self.equipment.habits, attempt)
        scope, report = attempt.request.auth_scope, attempt.reporter.report
        async with (
            titling.beside(session),
            mcp_tools(self.equipment.mcp, scope, attempt.sandbox.opened, report) as foreign,
            FileCare(self.equipment.after_write, report) as care,
        ):
            loop = await self._loop(attempt, session, price, turns, titling, foreign, care)
            prompts = Prompts(loop, self.agents, self.equipment.guidance.user_dir)
            if attempt.claim.checkpoint is None and is_from_person(attempt.request):
                session = await prompts.opened(session)
            session = await run(session, replace(loop, hear=lambda: prompts.heard(attempt.agent.name)))
        if children := frozenset(answer.child for answer in session.open_turn if answer.child):
            return Pause(Wait(children))
        if session.waits_at_microusd is not None:
            return Pause(Wait(asks=frozenset({ask_for_more(session.waits_at_microusd)})))
        return _outcome(session, resume_token(attempt.claim, attempt.request, attempt.reporter))

    async def _session(self, attempt: Attempt, turns: Turns) -> Session:
        """This task's own checkpoint, else the session that the request continues, else a new one."""
        request = attempt.request
        model = self.models.choose(request.model, attempt.agent.model)
        if attempt.claim.checkpoint:
            return await self._with_work(attempt, await turns.load(attempt.claim.checkpoint))
        if attempt.claim.session:
            earlier = await Checkpoints(self.transport.blobs).load(attempt.claim.session)
            only_compact = is_request(request.input.prompt)
            prompt = "" if only_compact else request.input.prompt or "Go on."
            session = reopen_session(earlier, attempt.agent, model=model, prompt=prompt, budget=request.budget)
            session = only_compacted(session) if only_compact else session
            return await self._with_work(attempt, _without_what_its_caller_has(session, earlier, request))
        return await new_session(attempt, self.equipment.guidance, model=model)

    async def _with_work(self, attempt: Attempt, session: Session) -> Session:
        """The session; its earlier work will be in the sandbox."""
        if session.changes:
            attempt.sandbox.earlier_work_diff = await self.transport.blobs.get(session.changes)
        return session

    async def _loop(
        self,
        attempt: Attempt,
        session: Session,
        price: Price | None,
        turns: Turns,
        titling: Titling,
        foreign: Sequence[Tool],
        care: FileCare,
    ) -> Loop:
        names = tuple(sorted(all_tools()))
        children = QueuedChildren(self.transport, self.outbox, attempt, self.agents, names)
        view = TaskView(attempt.request.task_id, attempt.request.trace_id, attempt.agent.name, session.model)
        hooks = Hooks(self.equipment.hooks, view, attempt.reporter.report)
        digests = dict(session.read_digests)

        async def nearby(path: str) -> str:
            sandbox = await attempt.sandbox.opened()
            return await nearby_instructions(sandbox, path, digests, lambda file: may_read(attempt.guard, file))

        context = ToolContext(
            attempt.sandbox.opened,
            children,
            digests,
            todos=todos_of(session),
            emit=attempt.reporter.report,
            after_write=care,
            hooks=hooks,
            shell_environment=await hooks.shell_environment(),
            nearby=nearby,
            user_dir=self.equipment.guidance.user_dir,
        )
        capabilities = attempt.request.capabilities
        shown = offered(
            attempt.agent, attempt.guard, capabilities, children.catalogue(), model=session.model, foreign=foreign
        )
        tools: dict[str, Tool] = {tool.name: tool for tool in shown}
        limits = await self.models.limits(session.model)
        till = TraceTill(attempt.reporter, price, limits, waits_at_cap=attempt.request.budget.waits_at_cap)
        chat = await hooks.parameters(Parameters(attempt.agent.temperature))
        temperature, output_limit = chat.temperature, lambda: till.output_tokens
        time_left_s = await self._time_left(attempt)
        model = Limited(
            self.models.named(session.model, temperature=temperature, output_limit=output_limit),
            self.limiter,
            self.models.rate_key(session.model),
            attempt.claim.lease.trace_id,
            attempt.reporter.report,
            time_left_s,
        )
        return Loop(
            model=hooked(Retrying(model, attempt.reporter.report, time_left_s=time_left_s), hooks),
            tools=tools,
            run_calls=lambda calls, on_change: run_calls(calls, tools, context, attempt.guard, on_change),
            context=context,
            emit=attempt.reporter.report,
            save=lambda current: turns.save(titling.counted(current), context),
            hear=turns.hear,
            price=lambda usage: _cost(price, usage),
            # who may wait for more is told by the till, before each call
            exhausted=lambda: attempt.reporter.ledger.exhausted and not attempt.request.budget.waits_at_cap,
            policy=self.equipment.habits.policy(limits, self.agents),
            till=till,
        )

    async def _time_left(self, attempt: Attempt) -> Callable[[], float]:
        """The store's clock is read once; from there our own steady one counts."""
        left_ms = remaining_ms(attempt.claim.expires_at_ms, now_ms=await self.transport.now_ms())
        clock = asyncio.get_running_loop().time
        ends_at_s = clock() + left_ms / 1000
        return lambda: ends_at_s - clock()


def _with_its_traces_cap(session: Session, ledger: Ledger) -> Session:
    """A task that may spend all its trace's money has no smaller limit when somebody raises the trace's."""
    budget = session.budget
    if not budget.waits_at_cap or budget.max_cost_microusd != ledger.cap_microusd:
        return session
    return session.model_copy(update={"budget": budget.model_copy(update={"max_cost_microusd": None})})


def _spent(session: Session) -> Metrics:
    calls = len(session.tool_calls) + sum(answer.ran and not answer.child for answer in session.open_turn)
    return Metrics(usage=session.usage, cost_microusd=session.cost_microusd, turns=session.turn, tool_calls=calls)


def _cost(price: Price | None, usage: Usage) -> int:
    return 0 if price is None else cost_microusd(price, usage)


def _without_what_its_caller_has(session: Session, earlier: Session, request: TaskRequest) -> Session:
    """A subagent starts from its caller's workspace as it is now: what it did before is in there, or was refused.

    What a failed one had done was never taken in.
    """
    taken_in = request.parent_task_id is not None and earlier.outcome is not None and earlier.outcome.error is None
    return session.model_copy(update={"changes": None}) if taken_in else session


def _outcome(session: Session, token: str) -> TaskOutcome:
    outcome = session.outcome
    if outcome is None:
        raise AssertionError("the loop ends with an outcome")
    errors = () if outcome.error is None else (ErrorInfo.of(outcome.error, outcome.detail, outcome.hint),)
    return TaskOutcome(Output(text=outcome.text), errors, session.tool_calls, token)
