"""A task whose session a program leads: `engine: acp` in its agent's file. It may, and costs, what any agent does."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envelope.events import MessageAdded, WarningRaised
from envelope.messages import Output, TaskRequest

from ..after_write.care import FileCare
from ..after_write.settings import AfterWrite
from ..agent.history import open_session, reopen_session, with_prompts
from ..agent.means import Loop
from ..agent.session import Session
from ..agent_task.first_prompt import first_prompt
from ..agent_task.params import agent_params, undoing
from ..agent_task.rigging import Rigging
from ..agent_task.task import (
    SHOWN_PROMPT_CHARS,
    require_price,
    spent,
    with_all_that_was_paid,
    with_its_traces_cap,
    without_what_its_caller_has,
)
from ..delivery.attempt import Attempt, resume_token
from ..delivery.holding import Holding
from ..delivery.results import TaskOutcome
from ..errors import BadInput
from ..kit import Kit
from ..llm.base import ChatMessage
from ..recording.tape import NoTape
from ..references.names import check_refs
from ..sandboxes.subpath import folder_of, require_folder
from ..sessions.between_turns import Turns
from ..sessions.titles import Titling
from ..tools.base import Tool
from .calls import Calls
from .ending import Ending
from .keeper import Keeper
from .meter import Meter
from .program import environment, running
from .relay import open_relay
from .terminals import Terminals
from .told import Told

if TYPE_CHECKING:
    from .client import EngineClient

AGAIN = "the attempt before this one was lost, and the agent's program with it: it begins again; what was spent counts"
EARLIER = "Earlier in this session (your work is in the workspace):"
# Of what was said before; the newest of it.
MAX_EARLIER_CHARS = 32_000


@dataclass(frozen=True, slots=True)
class EngineTasks:
    """Runs programs for attempts; shared by all attempts of a worker."""

    kit: Kit

    async def run(self, attempt: Attempt) -> TaskOutcome:
        """`BadInput` for what no program can be asked, and for one that cannot be led; `EngineFailed` when it breaks
        off. It waits with its slot and its sandbox alone: a parked task would lose the program."""
        request, report = attempt.request, attempt.reporter.report
        _require_led_alone(request)
        check_refs(request.context_refs)
        turns = Turns(self.kit.transport, attempt)
        session = await with_all_that_was_paid(await self._session(attempt, turns), attempt, self.kit.transport)
        attempt.reporter.totals.metrics = spent(session)
        if attempt.claim.checkpoint is None:
            report(MessageAdded(role="user", text=request.input.prompt[:SHOWN_PROMPT_CHARS]))
        elif session.outcome is None:
            report(WarningRaised(message=AGAIN))
        ledger = await attempt.reporter.ask_ledger()
        price = await self.kit.models.price(session.model, attempt.agent.model_options)
        require_price(price, session, ledger)
        session = with_its_traces_cap(session, ledger)
        titling = Titling(self.kit.models, self.kit.limiter, self.kit.agents, self.kit.equipment.habits, attempt)
        async with titling.beside(session), FileCare(AfterWrite(), report) as care:
            rigging = Rigging(self.kit, attempt, NoTape(), turns, price, titling, _nothing_foreign, care)
            loop = await rigging.loop(session)
            session = await _gone_on_with(session, loop)
            if session.outcome is None:
                session = await self._led(attempt, session, loop)
        return _outcome(session, request.task_id, resume_token(attempt.claim, request, attempt.reporter))

    async def _session(self, attempt: Attempt, turns: Turns) -> Session:
        """As for any agent, but what is in the middle of something begins again: the program's own state is lost."""
        request = attempt.request
        model = self.kit.models.choose(request.model, attempt.agent.model)
        if attempt.claim.checkpoint:
            session = await turns.load(attempt.claim.checkpoint)
        elif attempt.claim.session:
            earlier = without_what_its_caller_has(await turns.load_to_go_on(attempt.claim.session), request)
            said = request.input.prompt or "Go on."
            session = reopen_session(earlier, attempt.agent, model=model, prompt=said, budget=request.budget)
        else:
            system, prompt = attempt.agent.prompt, request.input.prompt
            session = open_session(attempt.agent, model=model, system=system, prompt=prompt, budget=request.budget)
        if session.changes:
            attempt.sandbox.earlier_work_diff = await self.kit.transport.blobs.get(session.changes)
        return session

    async def _led(self, attempt: Attempt, session: Session, loop: Loop) -> Session:
        """The session with its outcome, stored."""
        sandbox, folder = await attempt.sandbox.opened(), folder_of(attempt.request)
        await require_folder(sandbox, folder)
        ending = Ending()
        async with AsyncExitStack() as stack:
            stack.callback(ending.close)
            holding = Holding(self.kit.transport, attempt.claim.lease, attempt.reporter)
            keeper = Keeper(session, loop)
            meter = await stack.enter_async_context(Meter(keeper, loop, holding, ending.stop, ending.fail))
            relay = await stack.enter_async_context(open_relay(sandbox, meter, ending.fail))
            terminals = Terminals(sandbox)
            stack.push_async_callback(terminals.close)
            env = environment(attempt.agent.env, relay=relay, model=session.model)
            program = await stack.enter_async_context(running(sandbox, attempt.agent.command, folder, env))
            told = Told(loop.emit, keeper.count, ending.flood)
            stack.callback(told.end)
            calls = Calls(loop, attempt.guard, holding, keeper, told)
            client_of, conversation_of = _protocol()
            client: EngineClient = client_of(*(calls, terminals, told, meter), folder, ending.refuse, ending.fail)
            conversation = conversation_of(
                *(sandbox, program, client, told, meter, ending),
                lambda: meter.is_busy or told.under_way > 0 or holding.waits or terminals.is_at_work,
            )
            outcome = await conversation.run(
                await _prompts(attempt, session),
                lambda: keeper.hear(told.text),
                folder=folder,
                mode=attempt.agent.session_mode,
                guard=attempt.guard,
            )
        return await keeper.end(outcome)


async def _gone_on_with(session: Session, loop: Loop) -> Session:
    """The session; one that had ended well goes on with what people said before its task had."""
    if session.outcome is None or session.outcome.error is not None:
        return session
    prompts = await loop.hear()
    for prompt in prompts:
        loop.emit(MessageAdded(role="user", text=prompt))
    return with_prompts(session, prompts)


def _protocol():  # noqa: ANN202 - the library's types are known where it is
    """Imported now: few workers lead a program, and the library takes a third of a second."""
    try:
        from .client import EngineClient
        from .conversation import Conversation
    except ImportError as e:
        raise BadInput(
            "this worker cannot lead a program: the Agent Client Protocol is not installed",
            hint="install muster with its extra `acp` for the workers",
        ) from e
    return EngineClient, Conversation


def _require_led_alone(request: TaskRequest) -> None:
    """What is done by our own loop alone."""
    params = agent_params(request)
    wanted = {
        "output_schema": request.output_schema is not None,
        "record": params.record,
        "replay": params.replay is not None,
        "undo, revert_to, fork_of": undoing(request) is not None,
        "plan, waypoints": params.plan is not None or bool(params.waypoints),
    }
    if asked := ", ".join(name for name, is_wanted in wanted.items() if is_wanted):
        raise BadInput(f"an agent with `engine: acp` cannot be asked for: {asked}", hint="name another agent for that")


async def _prompts(attempt: Attempt, session: Session) -> list[str]:
    """The agent's own words, what was said before, and what is to be done, with all that the request brings along."""
    system, *_, latest = session.messages
    asked = await first_prompt(attempt.request, latest.content, attempt.sandbox)
    if asked.files:
        attempt.reporter.report(WarningRaised(message="images and documents are files in the sandbox for this agent"))
    return [text for text in (attempt.agent.prompt, _earlier(session, system), asked.text) if text]


def _earlier(session: Session, system: ChatMessage) -> str:
    said = [message for message in session.messages[:-1] if message is not system and message.role != "system"]
    text = "\n\n".join(f"{message.role}: {message.content}" for message in said if message.content)
    return f"{EARLIER}\n\n{text[-MAX_EARLIER_CHARS:]}" if text else ""


def _outcome(session: Session, task_id: str, token: str) -> TaskOutcome:
    outcome = session.outcome
    if outcome is None:
        raise AssertionError("a program's session ends with an outcome")
    return TaskOutcome(Output(text=outcome.text), outcome.errors(task_id), session.tool_calls, token)


async def _nothing_foreign() -> list[Tool]:
    """Tools of MCP servers are for our own loop; a program has its own."""
    return []
