"""The transport inside one process: the same promises as on Redis, nothing durable, nothing forgotten.

All moves happen on the event loop, so each is atomic; only `MemoryKeeper` runs in another thread, and touches one
field of one task at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from envelope.agents import WorkerCard
from envelope.codec import decode_request, decode_result, encode
from envelope.errors import DecodeError
from envelope.messages import TaskProgress, TaskRequest, TaskResult
from envelope.signature import Keyring

from .. import admission, approvals, bounds
from ..approvals import Answer, Approvals, SealKeys, Subject, sha256
from ..audit import AuditLog, Decision, told
from ..base import (
    OPERATOR,
    Allotment,
    Claim,
    DeadLetter,
    Entry,
    Handle,
    Lease,
    LeaseKeeper,
    Page,
    PoolStats,
    Prompt,
    Saved,
    TaskRecord,
    Wait,
)
from ..blobs import MemoryBlobs
from ..blobs.base import Blobs
from ..blobs.owners import MemoryOwners, OwnedBlobs
from ..errors import no_session
from ..keyring import fresh
from ..limits import Limits
from ..money import Ledger
from ..notices import Notices
from ..rates import Rates
from ..registry import MemoryRegistry, Registry
from ..uploads import Uploads
from . import ends, listing, pauses, reaping, starting, stream, submitting, writing
from .audit import MemoryAudit
from .fleet import Fleet
from .keeper import MemoryKeeper
from .notices import MemoryNotices
from .rates import MemoryRates
from .uploads import MemoryUploads


def _real_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryTransport:
    """`clock` gives the time in ms; a test may pass its own and move it."""

    def __init__(
        self,
        *,
        clock: Callable[[], int] = _real_clock_ms,
        limits: Limits | None = None,
        keyring: Keyring | None = None,
        approval_keys: Approvals | None = None,
        pools: Collection[str] = admission.DEFAULT_POOLS,
    ) -> None:
        self.fleet = "memory"
        self.keyring = keyring or fresh()
        self.approvals = approval_keys or approvals.fresh()
        self.limits = limits or Limits()
        stored = MemoryBlobs(retention_ms=self.limits.retention_ms, clock=clock)
        self.blobs: Blobs = OwnedBlobs(stored, MemoryOwners())
        self.rates: Rates = MemoryRates(clock)
        self.uploads: Uploads = MemoryUploads(clock, self.limits)
        self._log = MemoryAudit(clock, SealKeys(self.approvals, self.keyring), self.limits.audit_entries)
        self.audit: AuditLog = self._log
        self.registry: Registry = MemoryRegistry()
        self._fleet = Fleet(clock, self.limits, pools)
        self.notices: Sequence[Notices] = (MemoryNotices(self._fleet),)

    # -- for those who want work done

    async def submit(self, requests: Sequence[TaskRequest], *, under: Lease | None = None) -> list[Handle]:
        admission.check_size(requests)
        admission.check_deadlines(requests, self.limits)
        admission.check_pools(requests, self._fleet.pools)
        await admission.check_parents(requests, self.request)
        signed = [(request, self._envelope(request)) for request in requests]
        admission.check_bytes([envelope for _, envelope in signed])
        return submitting.submit(self._fleet, signed, under) if signed else []

    def _envelope(self, request: TaskRequest) -> bytes:
        try:
            return encode(request, keyring=self.keyring)
        except DecodeError as error:
            raise admission.too_large(request, error) from error

    async def cancel(self, task_id: str, *, by: str, reason: str) -> int:
        task, by, reason = self._fleet.task(task_id), bounds.reason(by), bounds.reason(reason)
        if task.live and task.cancel_reason is None and by not in self._fleet.tasks:
            self._note(by, "cancel", task_id, task.request.tenant, reason=told(reason))
        return ends.cancel(self._fleet, task, by=by, reason=reason)

    def _note(self, actor: str, action: str, subject: str, tenant: str, **details: str | int) -> None:
        self._log.append(Decision(actor, action, subject, tenant, details))

    async def prompt(self, session_id: str, text: str, *, by: str) -> Handle:
        text, by = bounds.words("text", text), bounds.reason(by)
        return writing.prompt(self._fleet, session_id, Prompt(text, by, self._fleet.now()))

    async def background(self, task_id: str) -> bool:
        return pauses.background(self._fleet, self._fleet.task(task_id))

    async def session_task(self, session_id: str) -> str:
        session = self._fleet.sessions.get(session_id)
        return session.last if session and session.last else session_id

    async def answer(self, task_id: str, ask_id: str, text: str, *, by: str, asked: str = "") -> Answer:
        text, by, ask_id, task = (
            bounds.words("text", text),
            bounds.reason(by),
            bounds.reason(ask_id),
            self._fleet.task(task_id),
        )
        subject = Subject(self.fleet, task.trace_id, task_id, ask_id)
        if ask_id in task.answers and self.approvals.is_forged(subject, task.answers[ask_id]):
            del task.answers[ask_id]
        signed = self.approvals.signed(subject, text, by, asked)
        if task.live and ask_id not in task.answers:
            recorded = {**signed, "trace": task.trace_id, "sha256": sha256(text)} if signed else {}
            self._note(by, "answer", task_id, task.request.tenant, ask=ask_id, answer=told(text), **recorded)
        given = replace(Answer(text, by, self._fleet.now()), **signed)
        return pauses.answer(self._fleet, task, ask_id, given)

    async def strike_answer(self, task_id: str, ask_id: str, answer: Answer) -> None:
        answers = self._fleet.task(task_id).answers
        if answers.get(ask_id) == answer:
            del answers[ask_id]

    async def answers(self, task_id: str) -> Mapping[str, Answer]:
        return dict(self._fleet.task(task_id).answers)

    def follow(self, trace_id: str, *, after: str = "0", wait: bool = True, about: str = "") -> AsyncIterator[Entry]:
        admission.check_trace(trace_id, after)
        return stream.follow(self._fleet, trace_id, after, wait=wait, about=about)

    def results(self, task_ids: Iterable[str]) -> AsyncIterator[TaskResult]:
        return stream.results(self._fleet, task_ids)

    async def request(self, task_id: str) -> TaskRequest:
        return decode_request(self._fleet.task(task_id).envelope, keyring=self.keyring)

    async def result(self, task_id: str) -> TaskResult | None:
        found = self._fleet.task(task_id).result
        return decode_result(found) if found else None

    async def record(self, task_id: str) -> TaskRecord:
        return self._fleet.task(task_id).record()

    async def tasks(self, *, trace_id: str | None = None, limit: int = 100) -> list[TaskRecord]:
        if trace_id is None:
            return list((await self.roots(limit=limit)).records)
        trace = self._fleet.traces.get(trace_id)
        return [self._fleet.tasks[task_id].record() for task_id in (trace.tasks if trace else [])[:limit]]

    async def roots(self, *, tenant: str | None = None, after: str = "", limit: int = 100) -> Page:
        return listing.latest(self._fleet, tenant, after, limit)

    async def live_roots(
        self, *, tenant: str | None = None, shards: bool | None = None, after: str = "", limit: int = 100
    ) -> Page:
        return listing.live(self._fleet, tenant, shards, after, limit)

    async def asking(
        self, *, tenant: str | None = None, trace_id: str | None = None, after: str = "", limit: int = 100
    ) -> Page:
        return listing.asking(self._fleet, tenant, trace_id, after, limit)

    # -- for those who do it

    async def claim(
        self, pool: str, worker: str, *, slots: int, wait_s: float, but_of: Sequence[str] = ()
    ) -> list[Claim]:
        if slots <= 0:
            return []
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            pulse = self._fleet.pulse
            reaping.reap(self._fleet, (pool,))
            claims = starting.start_next(self._fleet, pool, worker, slots, but_of)
            left_s = until - loop.time()
            if claims or left_s <= 0:
                return claims
            due_ms = reaping.next_end_ms(self._fleet, pool)
            look_ms = self.limits.look_ms if due_ms is None else min(due_ms + 1, self.limits.look_ms)
            pause_s = min(left_s, max(look_ms, 1) / 1000)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await pulse.wait()

    def keeper(self) -> LeaseKeeper:
        return MemoryKeeper(self._fleet)

    async def emit(
        self,
        lease: Lease,
        progress: TaskProgress,
        *,
        charge_microusd: int = 0,
        release_microusd: int = 0,
        gets_on: bool = False,
    ) -> Ledger:
        encode(progress)  # too large must fail here as it does on the wire
        charge = bounds.amount("charge_microusd", charge_microusd)
        release = bounds.amount("release_microusd", release_microusd)
        return writing.emit(self._fleet, self._fleet.held(lease), progress, charge, release, gets_on)

    async def reserve(self, lease: Lease, amount_microusd: int) -> Ledger | None:
        return writing.reserve(self._fleet, self._fleet.held(lease), bounds.amount("amount_microusd", amount_microusd))

    async def checkpoint(
        self,
        lease: Lease,
        blob: str,
        *,
        heard: int = 0,
        progress: TaskProgress | None = None,
        charge_microusd: int = 0,
        release_microusd: int = 0,
    ) -> Saved:
        name, heard = bounds.blob("blob", blob), bounds.count("heard", heard)
        if progress:
            await self.emit(lease, progress, charge_microusd=charge_microusd, release_microusd=release_microusd)
        return writing.checkpoint(self._fleet, self._fleet.held(lease), name, heard)

    async def inbox(self, lease: Lease) -> list[Prompt]:
        return list(self._fleet.sessions[self._fleet.held(lease).session_id].inbox)

    async def park(self, lease: Lease, wait: Wait) -> bool:
        return pauses.park(self._fleet, self._fleet.held(lease), bounds.wait(wait))

    async def hold(self, lease: Lease, asks: frozenset[str]) -> None:
        pauses.hold(self._fleet, self._fleet.held(lease), bounds.wait(Wait(asks=asks)).asks)

    async def finish(
        self,
        lease: Lease,
        result: TaskResult,
        *,
        dead: str = "",
        progress: TaskProgress | None = None,
        charge_microusd: int = 0,
    ) -> bool:
        admission.check_result(lease, result)
        message = encode(result)
        task = self._fleet.tasks.get(lease.task_id)
        if task and task.ended_by == lease:
            return True
        if progress:
            await self.emit(lease, progress, charge_microusd=charge_microusd)
        return ends.finish(self._fleet, self._fleet.held(lease), result, message, dead=bounds.reason(dead))

    async def give_back(self, lease: Lease) -> None:
        pauses.give_back(self._fleet, self._fleet.held(lease))

    async def retry(self, lease: Lease, *, delay_ms: int, reason: str) -> None:
        delay_ms, reason = bounds.delay("delay_ms", delay_ms), bounds.reason(reason)
        pauses.retry(self._fleet, self._fleet.held(lease), delay_ms, reason)

    # -- for operators

    async def archive(self, session_id: str, *, archived: bool = True) -> None:
        session = self._fleet.sessions.get(session_id)
        if session is None or session.checkpoint is None:
            raise no_session(session_id)
        session.archived = archived

    async def archived(self, session_ids: Sequence[str]) -> frozenset[str]:
        known = self._fleet.sessions
        return frozenset(session for session in session_ids if session in known and known[session].archived)

    async def dead_letters(self, *, tenant: str | None = None, limit: int = 100) -> list[DeadLetter]:
        letters = reversed(self._fleet.dead.values())
        return [letter for letter in letters if tenant in (None, letter.tenant)][:limit]

    async def dead_letter_count(self) -> int:
        return len(self._fleet.dead)

    async def purge(self, task_ids: Iterable[str], *, by: str = OPERATOR) -> int:
        gone = [task_id for task_id in task_ids if self._fleet.dead.pop(task_id, None)]
        if gone:
            self._note(bounds.reason(by), "purge", gone[0], "", letters=len(gone), tasks=" ".join(gone[:50]))
        return len(gone)

    async def allot(self, tenant: str, allotment: Allotment, *, by: str = OPERATOR) -> None:
        checked = bounds.allotment(allotment)
        if self._fleet.allotments.get(tenant) != checked:
            most = "no cap" if checked.max_running is None else checked.max_running
            given = {"weight": str(checked.weight), "max_running": most}
            more = {"max_queued": checked.max_queued, "max_tree": checked.max_tree}
            given |= {name: value for name, value in more.items() if value is not None}
            self._note(bounds.reason(by), "allot", tenant, tenant, **given)
        self._fleet.allotments[tenant] = checked
        for line in self._fleet.lines.values():
            line.release_tenant(tenant)
        self._fleet.changed()  # a higher cap may let something start

    async def allotments(self) -> Mapping[str, Allotment]:
        return dict(self._fleet.allotments)

    async def ledger(self, trace_id: str) -> Ledger:
        return pauses.trace_of(self._fleet, trace_id).ledger()

    async def raise_cap(self, trace_id: str, cap_microusd: int, *, by: str) -> Ledger:
        cap_microusd, by = bounds.amount("cap_microusd", cap_microusd), bounds.reason(by)
        trace = self._fleet.traces.get(trace_id)
        before = trace.cap_microusd if trace else None
        if trace and before is not None and before < cap_microusd:
            tenant = self._fleet.tasks[trace.root].request.tenant
            self._note(by, "raise", trace_id, tenant, from_microusd=before, to_microusd=cap_microusd)
        return pauses.raise_cap(self._fleet, trace_id, cap_microusd, by)

    async def fund(self, tenant: str, cap_microusd: int | None, *, by: str, only_lower: bool = False) -> Ledger:
        cap_microusd, by = bounds.cap(cap_microusd), bounds.reason(by)
        before = self._fleet.purses[tenant].cap_microusd
        if only_lower and before is not None:
            cap_microusd = before if cap_microusd is None else min(before, cap_microusd)
        if before != cap_microusd:
            told = {"from_microusd": before, "to_microusd": cap_microusd}
            self._note(
                by, "fund", tenant, tenant, **{key: "no cap" if cap is None else cap for key, cap in told.items()}
            )
        return pauses.fund(self._fleet, tenant, cap_microusd, by)

    async def funds(self, tenant: str) -> Ledger:
        return self._fleet.purses[tenant].ledger()

    # -- for whoever is alive

    async def reap(self) -> int:
        return reaping.reap(self._fleet, self._fleet.lines.keys())

    async def announce(self, card: WorkerCard, *, ttl_s: float) -> None:
        self._fleet.pools.add(card.pool)
        self._fleet.cards[card.worker] = (self._fleet.now() + int(ttl_s * 1000), card)

    async def workers(self) -> list[WorkerCard]:
        now = self._fleet.now()
        return [card for _, (until, card) in sorted(self._fleet.cards.items()) if until > now]

    async def stats(self, pools: Sequence[str]) -> list[PoolStats]:
        return [starting.stats(self._fleet, pool) for pool in pools]

    async def counters(self) -> dict[str, int]:
        return dict(self._fleet.counters)

    async def overdue(self, late_ms: int) -> int:
        return reaping.overdue(self._fleet, late_ms)

    async def memory_used(self) -> float:
        return 0.0

    async def now_ms(self) -> int:
        return self._fleet.now()

    async def close(self) -> None:
        return None
