"""What the loop of one attempt runs with: tools and the context around them, a model and the money for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envelope.budget import Usage
from envelope.deadline import remaining_ms
from envelope.redaction import redact_known
from transport.errors import NotFound

from ..after_write.care import FileCare
from ..agent.background import words_of_children
from ..agent.means import Loop
from ..agent.session import Session
from ..agent.todos import todos_of
from ..commands.prompts import Prompts
from ..delivery.attempt import Attempt
from ..delivery.people import people_of
from ..hooks.api import Parameters, TaskView
from ..hooks.chain import Hooks, hooked
from ..kit import Kit
from ..llm.base import Kind
from ..llm.limited import Limited
from ..llm.prices import Price, cost_microusd
from ..llm.retry import Retrying
from ..llm.seeing import Seeing
from ..project.nearby import nearby_instructions
from ..recording.tape import Foreign, Tape
from ..references.tool import reading_references
from ..sandboxes.subpath import folder_of, in_folder
from ..sessions.between_turns import Turns
from ..sessions.titles import Titling
from ..subagents.children import QueuedChildren
from ..subagents.inheritance import TOO_DEEP, levels_below
from ..subagents.room import Room
from ..tools.base import Tool, ToolContext
from ..tools.dispatch import run_calls
from ..tools.registry import all_tools, offered
from ..tools.task import TASK
from ..tools.web import WEB_TOOLS
from .opening import may_read
from .params import agent_params
from .planning import planning_of, planning_tools
from .till import TraceTill


@dataclass(frozen=True, slots=True)
class Rigging:
    """One attempt's. `foreign`: tools of others, as they are when it is called. `price` is None when nobody knows it,
    and nothing is capped then."""

    kit: Kit
    attempt: Attempt
    tape: Tape
    turns: Turns
    price: Price | None
    titling: Titling
    foreign: Foreign
    care: FileCare
    answer: Mapping[str, Tool] = field(
        default_factory=dict[str, Tool]
    )  # the tool that gives it, where its form is wanted

    async def loop(self, session: Session) -> Loop:
        """What a session's turns need, with hooks and recording around it; tools may be others at each turn."""
        attempt, tape, report = self.attempt, self.tape, self.attempt.reporter.report
        hooks = self._hooks(session)
        limits, sees = await self.kit.models.limits(session.model), await self.kit.models.sees(session.model)
        till = TraceTill(attempt.reporter, self.price, limits, waits_at_cap=attempt.request.budget.waits_at_cap)
        context = await self._context(session, hooks)
        foreign = tape.foreign(self.foreign)
        known = await foreign()
        tools = self._tools(context, session, known)
        hear_people = tape.hear(self.turns.hear)

        async def hear() -> Sequence[str]:
            """Between two turns, when the tools may become others, too."""
            nonlocal known
            prompts, now = await hear_people(), await foreign()
            if now != known:
                known = now
                tools.clear()
                tools.update(self._tools(context, session, now))
            return prompts

        async def save(current: Session) -> Session:
            return await self.turns.save(await tape.saving(self.titling.counted(current)), context)

        return Loop(
            model=await self._model(session, sees, hooks, till),
            tools=tools,
            run_calls=tape.run_calls(
                lambda calls, on_change: run_calls(calls, tools, context, attempt.guard, on_change)
            ),
            context=context,
            emit=report,
            save=save,
            hear=hear,
            price=self._cost,
            # who may wait for more is told by the till, before each call
            exhausted=tape.exhausted(
                lambda: "" if attempt.request.budget.waits_at_cap else attempt.reporter.ledger.exhausted
            ),
            policy=replace(
                self.kit.equipment.habits.policy(limits, self.kit.agents), sees=sees, wanted=hooks.compacting
            ),
            till=till,
            fallback=await self._fallback(session),
            is_stopped=attempt.is_stopped,
            is_outside=lambda name: any(tool.name == name for tool in known),
            told=tape.told(lambda current: words_of_children(current, context)),
        )

    def _hooks(self, session: Session) -> Hooks:
        request = self.attempt.request
        view = TaskView(request.task_id, request.trace_id, self.attempt.agent.name, session.model)
        return Hooks(self.kit.equipment.hooks, view, self.attempt.reporter.report)

    async def _context(self, session: Session, hooks: Hooks) -> ToolContext:
        attempt, digests = self.attempt, dict(session.read_digests)

        async def nearby(path: str) -> str:
            sandbox = await attempt.sandbox.opened()
            return await nearby_instructions(sandbox, path, digests, lambda file: may_read(attempt.guard, file))

        return ToolContext(
            attempt.sandbox.opened,
            self._children(),
            digests,
            permit=attempt.sandbox.permit,
            tenant=attempt.request.tenant,
            folder=folder_of(attempt.request),
            cwd=session.cwd,
            todos=todos_of(session),
            emit=attempt.reporter.report,
            after_write=self.care,
            hooks=hooks,
            shell_environment=await hooks.shell_environment(),
            nearby=nearby,
            user_dir=self.kit.equipment.guidance.user_dir,
            resolve=self._resolve,
            keep=self._keep,
            keep_file=self.kit.transport.blobs.put,
            absent={} if self._levels() else {TASK: TOO_DEEP},
            people=await people_of(
                self.kit.transport, attempt, session.approved_in, timeout_ms=self.kit.ask_timeout_ms
            ),
            planning=planning_of(session, attempt, self.kit.agents),
        )

    def _children(self) -> QueuedChildren:
        names = tuple(sorted((*all_tools(), *WEB_TOOLS)))
        room = Room(self.kit.transport, self.attempt.request.trace_id)
        kit, levels = self.kit, self._levels()
        return QueuedChildren(
            kit.transport, kit.outbox, self.attempt, kit.agents, names, room, levels, kit.park_after_s
        )

    def _levels(self) -> int:
        return levels_below(self.attempt.request, self.kit.subagent_depth)

    def _tools(self, context: ToolContext, session: Session, foreign: Sequence[Tool]) -> dict[str, Tool]:
        attempt = self.attempt
        web = self.kit.web.of(attempt.request.tenant)
        shown = offered(
            attempt.agent,
            attempt.guard,
            attempt.request.capabilities,
            context.children.catalogue(),
            model=session.model,
            foreign=foreign,
            web=web,
        )
        theirs = {tool.name for tool in foreign}
        ours = in_folder({tool.name: tool for tool in shown if tool.name not in theirs}, folder_of(attempt.request))
        own = {**ours, **self.answer}
        found = {tool.name: tool for tool in shown if tool.name in theirs}
        known = reading_references(found | own, attempt, self.kit.transport, web)
        return planning_tools(known, context.planning, attempt)

    async def _model(self, session: Session, sees: frozenset[Kind], hooks: Hooks, till: TraceTill) -> Retrying:
        """Retries around what is recorded, around hooks, around the fleet's limit, around the engine, which is shown
        the files that it can see."""
        models, report = self.kit.models, self.attempt.reporter.report
        told = agent_params(self.attempt.request).temperature
        chat = await hooks.parameters(Parameters(self.attempt.agent.temperature if told is None else told))
        time_left_s = await self._time_left()
        limited = Limited(
            Seeing(
                models.named(
                    session.model,
                    temperature=chat.temperature,
                    output_limit=lambda: till.output_tokens,
                    effort=self.attempt.agent.variant,
                    options=self.attempt.agent.model_options,
                ),
                sees,
                self._loaded,
            ),
            self.kit.limiter,
            models.rate_key(session.model),
            self.attempt.claim.lease.trace_id,
            report,
            time_left_s,
        )
        return self.tape.model(Retrying(hooked(limited, hooks), report, time_left_s=time_left_s))

    async def _fallback(self, session: Session) -> str:
        """Who named a model wants that one. Where money is capped, one whose price nobody knows cannot go on."""
        models = (self.attempt.agent.model, *self.attempt.agent.fallback_models)
        if self.attempt.request.model or session.model not in models:
            return ""
        is_capped = self.attempt.reporter.ledger.tightest.cap_microusd is not None
        for name in models[models.index(session.model) + 1 :]:
            if not (is_capped or session.budget.max_cost_microusd is not None) or await self.kit.models.price(name):
                return name
        return ""

    async def _time_left(self) -> Callable[[], float]:
        """The store's clock is read once; from there our own steady one counts."""
        left_ms = remaining_ms(self.attempt.claim.expires_at_ms, now_ms=await self.kit.transport.now_ms())
        clock = asyncio.get_running_loop().time
        ends_at_s = clock() + left_ms / 1000
        return lambda: ends_at_s - clock()

    async def _resolve(self, path: str) -> str:
        return await (await self.attempt.sandbox.opened()).resolve(path)

    async def _loaded(self, blob: str) -> bytes | None:
        try:
            return await self.kit.transport.blobs.get(blob)
        except NotFound:
            return None

    async def _keep(self, content: bytes) -> str:
        """A whole output as a blob, without the keys that this process knows."""
        return await self.kit.transport.blobs.put(redact_known(content.decode("utf-8", "replace")).encode())

    def _cost(self, usage: Usage, service_rank: str) -> int:
        return 0 if self.price is None else cost_microusd(self.price, usage, service_rank)


def hearing(loop: Loop, prompts: Prompts, agent: str) -> Loop:
    """The loop, with prompts that come in read as commands where they are some."""
    return replace(loop, hear=lambda: prompts.heard(agent))
