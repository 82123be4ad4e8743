"""Somebody who calls from outside, by whichever door: what they may do, and which tasks are theirs to see."""

from __future__ import annotations

from dataclasses import dataclass

from transport.approvals import Answer
from transport.base import TaskRecord
from transport.errors import NotFound, no_task

from ..asks import OpenAsk, answered_ask, is_ask, open_ask
from ..client import Muster
from ..families import MAX_LISTED
from .tokens import ALL_TENANTS, LOOKING, PERMITS, Right, Token

# By door: where they see the open asks, and the traces.
ASKS = {"api": "GET /v1/asks", "mcp": "list_asks", "console": "Asks"}
TRACES = {"api": "GET /v1/tasks", "mcp": "list_tasks", "console": "Traces"}


@dataclass(frozen=True, slots=True)
class Caller:
    """The fleet as they may see it. `door`: by which they come, as the audit log tells it."""

    token: Token
    muster: Muster
    door: str = "api"

    @property
    def name(self) -> str:
        return f"{self.door}:{self.token.name}"

    @property
    def tenant(self) -> str:
        """Whose the tasks are that they submit."""
        return self.muster.settings.tenant if self.token.tenant == ALL_TENANTS else self.token.tenant

    @property
    def seen_tenant(self) -> str | None:
        """Whose tasks they see; None for everybody's."""
        return None if self.token.tenant == ALL_TENANTS else self.token.tenant

    @property
    def only_looks(self) -> bool:
        """By their token, or as the whole server does."""
        return self.muster.settings.read_only

    @property
    def rights(self) -> frozenset[Right]:
        """What they may do: pages offer nothing else, and nothing else is done for them."""
        permitted = PERMITS[self.token.role]
        return permitted & LOOKING if self.only_looks else permitted

    async def record(self, task_id: str) -> TaskRecord:
        """`NotFound` for another tenant's, in the very words for one that is not there."""
        record = await self.muster.record(task_id)
        if not self.token.sees(record.tenant):
            raise no_task(task_id)
        return record

    async def trace(self, trace_id: str) -> list[TaskRecord]:
        """A trace's tasks; `NotFound` when there are none that they may see."""
        found = await self.muster.tasks(trace_id=trace_id, limit=MAX_LISTED)
        tasks = [task for task in found if self.sees(task)]
        if not tasks:
            raise self._no_trace(trace_id)
        return tasks

    async def require_trace(self, trace_id: str) -> None:
        """As `trace`, by its root alone: the tasks of a trace are one tenant's."""
        roots = await self.muster.tasks(trace_id=trace_id, limit=1)
        if not any(map(self.sees, roots)):
            raise self._no_trace(trace_id)

    async def open_asks(self) -> list[OpenAsk]:
        """What their tasks wait for."""
        asks = await self.muster.asks(tenant=self.seen_tenant)
        return [one for one in asks if self.sees(one.task)]

    async def ask(self, ask_id: str) -> OpenAsk:
        """`NotFound` for one that is not open, and for another tenant's in the same words."""
        if is_ask(ask_id):
            muster = self.muster
            one = await open_ask(muster.transport, ask_id, tenant=self.seen_tenant, texts=muster.ask_texts)
            if one is not None and self.sees(one.task):
                return one
        raise NotFound(f"no open ask has the id {ask_id}", hint=f"see those that are open with: {ASKS[self.door]}")

    async def ask_to_answer(self, ask_id: str) -> OpenAsk:
        """Also one that has its answer: of a caller who did not hear of its own, and says it again."""
        try:
            return await self.ask(ask_id)
        except NotFound:
            if (known := await self.answered(ask_id)) is None:
                raise
            return known[0]

    async def answered(self, ask_id: str) -> tuple[OpenAsk, Answer] | None:
        """One of theirs that has its answer, with that."""
        transport, tenant = self.muster.transport, self.seen_tenant
        known = await answered_ask(transport, ask_id, tenant=tenant) if is_ask(ask_id) else None
        is_theirs = known is not None and known[0].ask.ask_id == ask_id and self.sees(known[0].task)
        return known if is_theirs else None

    def _no_trace(self, trace_id: str) -> NotFound:
        return NotFound(f"there is no trace {trace_id}", hint=f"see the traces with: {TRACES[self.door]}")

    def sees(self, record: TaskRecord) -> bool:
        return self.token.sees(record.tenant)
