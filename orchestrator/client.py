"""The Python client; the command line uses the same one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Unpack, overload

from envelope.agent_params import UNDOING
from envelope.agents import AgentCard, WorkerCard
from envelope.asks import Reply
from envelope.lifecycle import State
from envelope.messages import Attachment, TaskRequest, TaskResult, Workspace
from envelope.plan import Plan
from repo.local import Place
from transport.approvals import Answer
from transport.audit import Decision
from transport.base import Allotment, DeadLetter, Entry, Handle, Page, PoolStats, TaskRecord, Transport
from transport.errors import NotFound
from transport.money import Ledger
from transport.outbox import Outbox
from transport.settings import connect
from transport.watching import UNWATCHED, StoreWatch

from .allotting import checked_allotment
from .approvals import approve_in
from .ask_texts import AskTexts
from .asks import OpenAsk, give, open_asks
from .budgets import Funds, checked_tenant, funds_of, raise_cap
from .catalogue import agent_named, agents_of
from .costs import Cost, cost_of
from .errors import BadInput
from .facets import Facets
from .families import MAX_LISTED, all_of, children_of, root_of
from .fanout.items import items_of_values
from .fanout.spec import FanoutFields, fanout_request
from .gathering import Gathered, Want
from .goals import doers_of, goal_for
from .looking import STEERS, require_writing
from .packing import attached, packed
from .pages import Wanted, page_of
from .planner.modes import PlanMode
from .planner.wish import plan_again
from .plans import plans_of
from .prompting import listener, session_of
from .read_only import looking_only, narrowed, require_own_sessions, require_stoppable
from .requeue import requeued
from .resolving import requests_from
from .resume import ResumeFields, ResumeOptions, inherited_fields, resume_request, terms_in
from .session.fold import Session
from .session.kept import Folds
from .session_methods import SessionMethods
from .settings import Settings, load_settings
from .staying import stay
from .submit import BUILD, DRIVERS, GoalFields, TaskFields, repeated
from .uploads import Charge, count_words, counting, taken_from_outside

# Where workers put an answer that is too long to travel in its result, whose text then ends with this name.
WHOLE_TEXT = "output.txt"


class Muster(Facets, SessionMethods):
    """A connection to a fleet. Submitting, following and cancelling; the work itself goes on without it."""

    def __init__(self, transport: Transport, settings: Settings) -> None:
        self.transport = transport
        self.settings = settings
        self.charge: Charge | None = None
        self._outbox = Outbox(transport)
        self._folds = Folds(transport)
        self.ask_texts = AskTexts(transport)

    @classmethod
    @asynccontextmanager
    async def connect(cls, settings: Settings | None = None, watch: StoreWatch = UNWATCHED) -> AsyncGenerator[Muster]:
        """Connect to the fleet that `settings` (default: `MUSTER_*` and the user's file) name.

        `transport.errors.Unreachable` when no server answers: this starts nothing (`muster up` does).
        """
        chosen = settings or load_settings()
        transport = await connect(chosen, pools=chosen.known_pools, watch=watch)
        try:
            yield cls(transport, chosen)
        finally:
            await transport.close()

    @overload
    async def submit(self, request: TaskRequest, /) -> Handle: ...
    @overload
    async def submit(self, **fields: Unpack[TaskFields]) -> Handle: ...
    async def submit(self, request: TaskRequest | None = None, /, **fields: Unpack[TaskFields]) -> Handle:  # pyright: ignore[reportInconsistentOverload]
        """Hand over one task, ready-made or by its fields. When this returns, it will have exactly one result."""
        [handle] = await self.submit_many([request or fields])
        return handle

    async def submit_many(self, tasks: Sequence[TaskRequest | TaskFields]) -> list[Handle]:
        """Hand over all tasks or none; the handles are in the order of the tasks.

        What a failover of the server forgets is handed over again, by whoever waits for it here (`results`, `gather`).
        Who names no `auth_scope` or pool gets the agent's own, as live workers offer it: `UnknownName` when none does.
        """
        requests = await requests_from(self.transport, tasks)
        if self.settings.read_only:
            await require_own_sessions(self.transport, requests)
        requests = narrowed(requests, self.settings)
        return await self._outbox.submit(await taken_from_outside(requests, self.charge))

    def read_only(self) -> Muster:
        """The same connection for what strangers ask for: what it submits only looks; `WouldWrite` where it cannot."""
        return looking_only(self)

    def counting(self, charge: Charge, *, tenant: str, reads: str) -> Muster:
        """The same connection for a caller from outside: `charge` is asked before any bytes of theirs are stored. They
        are stored for `tenant`, and read as far as `reads` may (`*`: all)."""
        return counting(self, charge, tenant=tenant, reads=reads)

    async def goal(
        self,
        goal: str,
        *,
        agent: str = BUILD,
        plan: PlanMode | str = PlanMode.NONE,
        given_plan: Plan | None = None,
        **fields: Unpack[GoalFields],
    ) -> TaskRequest:
        """A goal, to be given to `run` or `submit`: an agent works on it, and its gate proves the change.

        `plan`: layered, light, on-demand, living or none; `given_plan`: the first plan, made by you, whose steps are
        dispatched. One that goes on with a `session` has that one's gate, unless you name another.
        `UnknownName` for an agent that no live worker offers.
        """
        session = fields.get("session", "")
        tenant = fields.get("tenant") or self.settings.tenant
        known: GoalFields = inherited_fields(await terms_in(self.transport, session, tenant)) if session else {}
        said: GoalFields = {"sender": "api", **known, **fields}
        workspace = said.get("workspace")
        commit = workspace.base if workspace else ""
        workers = await self.workers()
        doers = doers_of(agent, workers, plan=plan, given_plan=given_plan, commit=commit, tenant=tenant)
        return goal_for(goal, doers, self.settings, **said)

    async def fanout(
        self, agent: str, prompt: str, items: Iterable[Any], **fields: Unpack[FanoutFields]
    ) -> TaskRequest:
        """One prompt for each of many items, to be given to `submit_repeatable`, which does again only what failed.

        `{item}` in the prompt stands for the item, `{name}` for its field. `BadInput` where each would be the same.
        """
        workers, workspace = await self.workers(), fields.get("workspace")
        commit, tenant = workspace.base if workspace else "", fields.get("tenant") or self.settings.tenant
        card = agent_named(agent, workers, by_person=False, commit=commit, tenant=tenant)
        said: FanoutFields = {"sender": "api", **fields}
        over = items_of_values(items, name="the list of items")
        blobs, settings, charge = self.transport.blobs, self.settings, self.charge
        return await fanout_request(prompt, over, agent=card, blobs=blobs, settings=settings, charge=charge, **said)

    async def plans(self, task_id: str) -> dict[str, Plan]:
        """How far the plan of a task is, by the task that keeps it; of a goal also those of the tasks below it."""
        record = await self.record(task_id)
        return plans_of(await self.tree(record.trace_id), record)

    async def replan(self, task_id: str, reason: str, *, by: str = "api") -> list[TaskRecord]:
        """Have the rest of a goal planned again, by any of its tasks: its steps that are under way, which are returned,
        are stopped. `BadInput` where no step of such a plan is under way."""
        require_writing(self.settings, STEERS)
        return await plan_again(self.transport, await self.record(task_id), reason, by=by)

    async def run(
        self,
        request: TaskRequest | None = None,
        /,
        *,
        watch: Callable[[Entry], None] | None = None,
        **fields: Unpack[TaskFields],
    ) -> TaskResult:
        """Hand over one task, as `submit` does, and wait for its result; `watch` sees what happens meanwhile.

        A failed task is a result, not an exception. Who stops waiting stops nothing: `cancel` does.
        """
        handle = await (self.submit(**fields) if request is None else self.submit(request))
        return await stay(self.transport, self._outbox, handle, watch)

    async def resume(
        self,
        task_id: str,
        prompt: str = "",
        **options: Unpack[ResumeFields],
    ) -> Handle:
        """Go on, in a new task, with the session of one that has ended, however it ended; of a goal with its agent's.

        Without a prompt it takes up its work where that stopped. What is left out is as before: gate, rules, grants,
        limits. Where a goal began the session, the new task is a goal, whose gate runs against what was verified last,
        too. `no_input`: nobody answers any more, whoever did before.
        `Busy` while a task runs the session, `Refused` for a session that never got to a turn.
        """
        return await self.submit(await resume_request(self.transport, task_id, prompt, ResumeOptions(**options)))

    async def submit_repeatable(self, request: TaskRequest) -> Handle:
        """As `submit`, but when the same work was done before and did not complete, it is done again.

        `Handle.existing` then means: it completed before, or is still under way.
        """
        handle = await self.submit(request)
        while handle.existing and await self._ended_badly(handle.task_id):
            request = repeated(request, handle.task_id)
            handle = await self.submit(request)
        return handle

    async def _ended_badly(self, task_id: str) -> bool:
        result = await self.result(task_id)
        return result is not None and result.status is not State.COMPLETED

    def follow(self, trace_id: str, *, after: str = "0", wait: bool = True) -> AsyncIterator[Entry]:
        """The trace's events from any id on; ends after the result of its root task.

        Without `wait` it ends with the newest event that there is.
        """
        return self.transport.follow(trace_id, after=after, wait=wait)

    async def events(self, trace_id: str) -> list[Entry]:
        """What the trace's stream holds now."""
        return [entry async for entry in self.follow(trace_id, wait=False)]

    async def tree(self, trace_id: str) -> Session:
        """The trace's tasks as they are now, folded from its events; a snapshot that stays so.

        Who asks again on the same connection pays for what has happened since.
        """
        return await self._folds.of(trace_id)

    def watch_tree(self, trace_id: str) -> AsyncGenerator[tuple[Session, set[str]]]:
        """The trace's tasks as they go on, each time with those that have changed; see `Folds.watch`."""
        return self._folds.watch(trace_id)

    async def cost(self, trace_id: str) -> Cost:
        """What the trace has cost, by model and by agent, beside its cap; `reserved` is under way."""
        session, ledger = await self.tree(trace_id), await self.transport.ledger(trace_id)
        return cost_of(session, ledger, await self.tasks(trace_id=trace_id, limit=MAX_LISTED))

    async def gather(
        self,
        handles: Iterable[Handle],
        want: Want = Want(),
        *,
        timeout_s: float | None = None,
        cancel_missing: bool = False,
    ) -> Gathered:
        """Wait until there is what is wanted (by default: all), or for `timeout_s`.

        The results are in the order of the handles. A failed task is a result, not an exception. Who has none is in
        `missing`, and goes on unless `cancel_missing`.
        """
        asked = list(handles)
        want.checked(len(asked))
        ended: list[TaskResult] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), aclosing(self.results(one.task_id for one in asked)) as results:
                async for result in results:
                    ended.append(result)
                    if want.is_met(ended):
                        break
        gathered = Gathered(asked, ended, want)
        for handle in gathered.missing if cancel_missing else ():
            await self.cancel(handle.task_id, "enough others were there")
        return gathered

    def results(self, task_ids: Iterable[str]) -> AsyncGenerator[TaskResult]:
        """The results as they come, each once."""
        return self._outbox.results(dict.fromkeys(task_ids))

    async def submit_forgotten(self, task_id: str) -> None:
        """Submit a task of ours again if the server has forgotten it; `NotFound` for another's."""
        await self._outbox.submit_forgotten([task_id])

    async def cancel(self, task_id: str, reason: str = "asked for", *, by: str = "api") -> int:
        """Stop a task and everything below it; how many tasks were still alive."""
        if self.settings.read_only:
            await require_stoppable(self.transport, task_id)
        return await self.transport.cancel(task_id, by=by, reason=reason)

    async def prompt(self, task_id: str, text: str, *, by: str = "api") -> Handle:
        """Say something to a task's session, or to the agent of a goal: its next turn hears it.

        The handle is of the task that answers: the one that runs the session now (`existing`), else a new one that goes
        on with it. `BadInput` for what has no session, and for no words; `Busy` for `/undo` and `/redo` meanwhile.
        """
        require_writing(self.settings, "a session that may write would hear this")
        if not text.strip():
            raise BadInput("there is nothing in the prompt", hint="say what the agent should do")
        if text.strip() not in UNDOING:
            with suppress(NotFound):
                request = await listener(self.transport, task_id)
                await count_words(text, self.charge)
                return await self.transport.prompt(session_of(request), text, by=by)
        return await self.submit(await resume_request(self.transport, task_id, text))

    async def asks(self, *, trace_id: str | None = None, tenant: str | None = None) -> list[OpenAsk]:
        """What people are asked now, by the tasks of one trace, of one tenant or of all."""
        return await open_asks(self.transport, trace_id=trace_id, tenant=tenant, texts=self.ask_texts)

    async def reply(self, ask: OpenAsk, reply: Reply, *, by: str = "api") -> Answer:
        """Answer an ask (see `asks.reply_to`). `Answered`, with who said what, when somebody was first.

        What "always" allows is kept here, too, for the project that the task names.
        """
        require_writing(self.settings, "an answer lets work go on that may write")
        await count_words(reply.text() if reply.message or reply.answers else "", self.charge)
        standing = await give(self.transport, ask, reply, by=by)
        if reply.rules:
            terms = (await self.request(ask.task.task_id)).asks
            approve_in(self.settings.state_dir, terms.project if terms else "", reply.rules)
        return standing

    async def tasks(self, *, trace_id: str | None = None, limit: int = 100) -> list[TaskRecord]:
        """A trace's tasks in order of submission; without a trace the latest roots first."""
        return await self.transport.tasks(trace_id=trace_id, limit=limit)

    async def roots(
        self, *, tenant: str | None = None, states: Collection[State] = (), after: str = "", limit: int = 100
    ) -> Page:
        """Goals, batches and other root tasks that are still kept, latest first; `cursor` is what to go on `after`.

        Of a tenant, or of all; in one of these states, or in any. A page may have fewer than `limit` and yet a cursor.
        """
        return await page_of(self.transport, Wanted(tenant, states), after=after, limit=limit)

    async def record(self, task_id: str) -> TaskRecord:
        return await self.transport.record(task_id)

    async def children(self, task: TaskRecord) -> list[TaskRecord]:
        """The tasks that a task started, in order of submission; of a batch its shards, too."""
        return await children_of(self.transport, task)

    async def request(self, task_id: str) -> TaskRequest:
        return await self.transport.request(task_id)

    async def result(self, task_id: str) -> TaskResult | None:
        """The task's result, or None while it is under way."""
        return await self.transport.result(task_id)

    async def workers(self) -> list[WorkerCard]:
        """Who is alive, orchestrators among them."""
        return await self.transport.workers()

    async def agents(self, *, commit: str = "") -> list[AgentCard]:
        """Who can be asked for, as live workers offer them; with those of a repository's commit that one has seen for
        this client's tenant."""
        return list(agents_of(await self.workers(), commit=commit, tenant=self.settings.tenant).values())

    async def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        """Tasks that ended because nobody could do them, the latest first."""
        return await self.transport.dead_letters(limit=limit)

    async def requeue(self, task_id: str, *, by: str = "api") -> Handle:
        """Do a dead task's work again, as a new task whose `retry_of` names it; its letter leaves the list.

        Twice is once: the second time gives the first one's handle. For errors see `requeue.py`.
        """
        require_writing(self.settings, STEERS)
        request = await requeued(self.transport, task_id)
        await self.transport.audit.note(Decision(by, "requeue", task_id, request.tenant, {"task": request.task_id}))
        handle = await self.submit(request)
        await self.transport.purge([task_id], by=by)
        return handle

    async def purge(self, task_ids: Iterable[str], *, by: str = "api") -> int:
        """Take tasks off the list of dead letters; how many were on it. Their records stay until retention."""
        require_writing(self.settings, STEERS)
        return await self.transport.purge(task_ids, by=by)

    async def pools(self) -> list[PoolStats]:
        """What waits and runs in each pool that is configured here or served by anybody."""
        served = {card.pool for card in await self.workers()}
        return await self.transport.stats(sorted({DRIVERS, *self.settings.pools, *served}))

    async def allot(self, tenant: str, allotment: Allotment, *, by: str = "api") -> None:
        """Say what a tenant gets beside others, from now on. `BadInput` for what nobody can get."""
        require_writing(self.settings, STEERS)
        await self.transport.allot(*checked_allotment(tenant, allotment), by=by)

    async def allotments(self) -> Mapping[str, Allotment]:
        """By tenant; who is not named gets the weight 1, and has no cap."""
        return await self.transport.allotments()

    async def budget(self, trace_id: str) -> Funds:
        """The money of a trace, or of a batch or fan-out with all its shards: spent, set aside, allowed, waited for."""
        root = await root_of(self.transport, trace_id)
        return await funds_of(self.transport, root, await all_of(self.transport, root))

    async def raise_budget(self, trace_id: str, cap_microusd: int, *, by: str = "api") -> Ledger:
        """Let a trace, batch or fan-out spend up to this much; its own money now. A higher cap, or none, stays.

        Who waits for it goes on. The driver of a batch or a fan-out shares it among the shards that live, in equal
        parts, with what those that ended have not spent: within seconds, or when an orchestrator drives it again.
        """
        require_writing(self.settings, STEERS)
        root = await root_of(self.transport, trace_id)
        return await raise_cap(self.transport, root, cap_microusd, by=by)

    async def tenant_budget(self, tenant: str) -> Ledger:
        """What a tenant has spent in all its traces since its beginning, what they have set aside, and its cap."""
        return await self.transport.funds(checked_tenant(tenant))

    async def cap_tenant(
        self, tenant: str, cap_microusd: int | None, *, by: str = "api", only_lower: bool = False
    ) -> Ledger:
        """Let a tenant spend up to this much in all its traces together (None: as much as it likes), from now on; it
        holds for what is under way. Who waits for more goes on when there is more. `only_lower`: a lower cap stays."""
        require_writing(self.settings, STEERS)
        return await self.transport.fund(checked_tenant(tenant), cap_microusd, by=by, only_lower=only_lower)

    async def diff(self, task_id: str) -> bytes:
        """The task's change as git reads it; empty when it changed nothing. `NotFound` while it is under way."""
        result = await self.result(task_id)
        if result is None:
            raise NotFound(f"the task {task_id} has not ended yet", hint=f"wait for it: muster task watch {task_id}")
        return await self.transport.blobs.get(result.patch.diff) if result.patch else b""

    async def answer(self, result: TaskResult) -> str:
        """The whole text that a task answered; of a long one its result carries the beginning only."""
        text = result.output.text
        if not text.endswith(f"{WHOLE_TEXT}]"):
            return text
        return (await self.attachment(result, WHOLE_TEXT)).decode(errors="replace")

    async def attachment(self, result: TaskResult, name: str) -> bytes:
        """An artefact of a result by its name; `NotFound` when it has none of that name."""
        for one in result.attachments:
            if one.name == name:
                return await self.transport.blobs.get(one.blob)
        raise NotFound(f"the task {result.task_id} has no attachment {name!r}")

    async def attach(self, content: bytes | Path, *, name: str = "", media_type: str = "") -> Attachment:
        """Store a file or bytes, to be named in a request's `attachments`."""
        return await attached(content, self.transport.blobs, name=name, media_type=media_type)

    async def pack(
        self, repository: Path | Place, *, commit: str | None = None, setup: Sequence[str] = ()
    ) -> Workspace:
        """A local repository as a workspace: the history of `commit` (default: what is checked out) in one blob.

        With the trust that its user has in it (`muster trust`).
        Uncommitted changes stay behind: the caller tells the user, or refuses (see `repo.local.describe`).
        """
        return await packed(
            repository, self.transport.blobs, state_dir=self.settings.state_dir, commit=commit, setup=setup
        )
