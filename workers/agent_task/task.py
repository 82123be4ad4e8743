"""An agent's task: a session opened or resumed, the loop around it, and what comes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial

from pydantic import TypeAdapter

from envelope.agents import price_hint
from envelope.budget import Metrics
from envelope.events import MessageAdded
from envelope.messages import Attachment, Output, TaskRequest
from repo.fairness import beside
from transport.base import Transport, Wait
from transport.blobs.owners import acting_tenant
from transport.delivery import Pause
from transport.money import Ledger
from transport.raising import ask_for_more, ask_for_more_of_tenant

from ..after_write.care import FileCare
from ..agent.background import background_wait, waits_for_children
from ..agent.compacting import is_request, only_compacted
from ..agent.hearing import wait_of
from ..agent.history import Prompt, reopen_session
from ..agent.loop import run
from ..agent.session import Session
from ..agents.base import Agent
from ..commands.prompts import Prompts, is_from_person
from ..delivery.attempt import Attempt, resume_token
from ..delivery.output_schema import answer_tools
from ..delivery.results import TaskOutcome
from ..errors import BadInput
from ..kit import Kit
from ..llm.prices import Price
from ..mcp.hub import mcp_servers
from ..recording.dubbed import PRICE_NAME, Dubbed
from ..recording.recorder import Recorder, attachments
from ..recording.tape import NoTape, Tape
from ..references.names import check_refs
from ..sandboxes.subpath import folder_of
from ..sessions.between_turns import Turns
from ..sessions.titles import Titling
from .first_prompt import first_prompt
from .opening import new_session
from .params import agent_params, require_session, undoing
from .planning import carrying_out, with_plan_file
from .rigging import Rigging, hearing

PRICE: TypeAdapter[Price | None] = TypeAdapter(Price | None)
SHOWN_PROMPT_CHARS = 4096  # people see the beginning; the request holds the whole


@dataclass(frozen=True, slots=True)
class AgentTasks:
    """Runs agents for attempts; shared by all attempts of a worker."""

    kit: Kit

    async def run(self, attempt: Attempt) -> TaskOutcome | Pause:
        """From wherever the session stands to its end, or to where it waits: for subagents, people, money.

        `BadInput` and `NoModel` before the first call.
        """
        return await self.run_on(await self._tape(attempt), attempt)

    async def run_on(self, tape: Tape, attempt: Attempt) -> TaskOutcome | Pause:
        """As `run`, with what `tape` makes of the world."""
        answer = await answer_tools(attempt.request)  # what cannot be used ends the task before anything is spent
        check_refs(attempt.request.context_refs)
        folder_of(attempt.request)
        turns, report = Turns(self.kit.transport, attempt), attempt.reporter.report
        session = await with_all_that_was_paid(await self._session(attempt, turns, tape), attempt, self.kit.transport)
        session = await with_plan_file(session, attempt, tape)
        tape.opened(session)
        attempt.reporter.totals.metrics = spent(session)
        if attempt.claim.checkpoint is None:
            shown = attempt.request.input.prompt[:SHOWN_PROMPT_CHARS]
            report(MessageAdded(role="user", text=shown, synthetic=session.messages[-1].synthetic))
        ledger = await attempt.reporter.ask_ledger()
        price = await self._price(tape, PRICE_NAME, session.model, attempt.agent)
        require_price(price, session, ledger)
        session = with_its_traces_cap(session, ledger)
        equipment = self.kit.equipment
        titling = Titling(self.kit.models, self.kit.limiter, self.kit.agents, equipment.habits, attempt)
        reachable = equipment.mcp.enabled_for(attempt.request.tenant)
        async with (
            titling.beside(session),
            mcp_servers(reachable, attempt.request.auth_scope, attempt.sandbox.opened, report) as servers,
            FileCare(equipment.after_write, report) as care,
        ):
            rigging = Rigging(self.kit, attempt, tape, turns, price, titling, servers.tools, care, answer)
            is_new, model = attempt.claim.checkpoint is None, ""
            while session.model != model:  # another one goes on where a model has failed
                model = session.model
                loop = await rigging.loop(session)
                prompts = Prompts(loop, self.kit.agents, servers.prompts, tape, equipment.guidance.user_dir)
                if is_new and is_from_person(attempt.request):
                    session = await prompts.opened(session, attempt.request.input.prompt)
                session, is_new = await run(session, hearing(loop, prompts, attempt.agent.name)), False
                if session.model != model:
                    price = await self._price(tape, f"{PRICE_NAME} of {session.model}", session.model, attempt.agent)
                    rigging = replace(rigging, price=price)
        if wait := _wait_of(session):
            return Pause(wait)
        token = resume_token(attempt.claim, attempt.request, attempt.reporter)
        return _outcome(session, attempt.request.task_id, token, await attachments(self.kit.transport.blobs, session))

    async def _price(self, tape: Tape, name: str, model: str, agent: Agent) -> Price | None:
        return await tape.kept(name, PRICE, lambda: self.kit.models.price(model, agent.model_options))

    async def _tape(self, attempt: Attempt) -> Tape:
        params, blobs = agent_params(attempt.request), self.kit.transport.blobs
        if params.replay is not None:
            return await beside.run(acting_tenant(), partial(Dubbed, await blobs.get(params.replay)))
        return Recorder(blobs, attempt) if params.record else NoTape()

    async def _session(self, attempt: Attempt, turns: Turns, tape: Tape) -> Session:
        """This task's own checkpoint, else the session that the request continues, else a new one."""
        request = attempt.request
        model = self.kit.models.choose(request.model, attempt.agent.model)
        if attempt.claim.checkpoint:
            return await self._with_work(attempt, await turns.load(attempt.claim.checkpoint))
        if params := undoing(request):
            return await self._with_work(attempt, await turns.undo(require_session(attempt, params), params))
        if attempt.claim.session:
            earlier = await turns.load_to_go_on(attempt.claim.session)
            only_compact = is_request(request.input.prompt)
            earlier = await self._with_work(attempt, without_what_its_caller_has(earlier, request))
            prompt: str | Prompt = ""
            if not only_compact:
                said = await first_prompt(request, request.input.prompt or "Go on.", attempt.sandbox)
                prompt = carrying_out(said, earlier, attempt)
            session = reopen_session(earlier, attempt.agent, model=model, prompt=prompt, budget=request.budget)
            return only_compacted(session) if only_compact else session
        return await new_session(attempt, self.kit.equipment.guidance, tape, model=model)

    async def _with_work(self, attempt: Attempt, session: Session) -> Session:
        """The session; its earlier work will be in the sandbox."""
        if session.changes:
            attempt.sandbox.earlier_work_diff = await self.kit.transport.blobs.get(session.changes)
        return session


def require_price(price: Price | None, session: Session, ledger: Ledger) -> None:
    if price is None and (ledger.tightest.cap_microusd is not None or session.budget.max_cost_microusd is not None):
        raise BadInput(
            f"the price of the model {session.model!r} is not known, and the task has a cost cap",
            hint=price_hint(session.model),
        )


def with_its_traces_cap(session: Session, ledger: Ledger) -> Session:
    """A task that may spend all its trace's money has no smaller limit when somebody raises the trace's."""
    budget = session.budget
    if not budget.waits_at_cap or budget.max_cost_microusd != ledger.cap_microusd:
        return session
    return session.model_copy(update={"budget": budget.model_copy(update={"max_cost_microusd": None})})


async def with_all_that_was_paid(session: Session, attempt: Attempt, transport: Transport) -> Session:
    """What attempts before have paid after they had stored the session last: the money of their last turn is gone."""
    if attempt.claim.lease.attempt == 1:
        return session
    paid = (await transport.record(attempt.request.task_id)).spent_microusd
    return session.model_copy(update={"cost_microusd": max(session.cost_microusd, paid)})


def spent(session: Session) -> Metrics:
    calls = len(session.tool_calls) + sum(answer.ran and not answer.waits for answer in session.open_turn)
    return Metrics(usage=session.usage, cost_microusd=session.cost_microusd, turns=session.turn, tool_calls=calls)


def _wait_of(session: Session) -> Wait | None:
    """What the session cannot go on without; None when it is over."""
    if session.open_turn:
        return wait_of(session.open_turn)
    if session.waits_at_microusd is not None:
        ask = ask_for_more_of_tenant if session.waits_for_tenant else ask_for_more
        return Wait(asks=frozenset({ask(session.waits_at_microusd)}))
    if waits_for_children(session):
        return background_wait(session)
    return None


def without_what_its_caller_has(earlier: Session, request: TaskRequest) -> Session:
    """A subagent starts from its caller's workspace as it is now: what it did before is in there, or was refused.

    What a failed one had done was never taken in, and who leads a goal takes in nothing.
    """
    has_caller = request.parent_task_id is not None and not agent_params(request).keeps_work
    taken_in = has_caller and earlier.outcome is not None and earlier.outcome.error is None
    return earlier.model_copy(update={"changes": None}) if taken_in else earlier


def _outcome(session: Session, task_id: str, token: str, attached: tuple[Attachment, ...]) -> TaskOutcome:
    outcome = session.outcome
    if outcome is None:
        raise AssertionError("the loop ends with an outcome")
    text = outcome.text or ("" if outcome.structured is None else json.dumps(outcome.structured, ensure_ascii=False))
    output = Output(text=text, structured=outcome.structured)
    return TaskOutcome(output, outcome.errors(task_id), session.tool_calls, token, attached, outcome.next_agent)
