"""The `Transport` on Redis, put together from its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from envelope.agents import WorkerCard
from envelope.codec import encode
from envelope.errors import ErrorCode
from envelope.messages import TaskProgress, TaskRequest, TaskResult
from envelope.signature import Keyring

from .. import admission, approvals, bounds
from ..approvals import Answer, Approvals, SealKeys, Subject
from ..audit import AuditLog
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
from ..blobs import TieredBlobs
from ..blobs.base import Blobs
from ..blobs.owners import OwnedBlobs
from ..errors import NotFound
from ..keys import cell_of
from ..limits import Limits
from ..money import Ledger
from ..notices import Notices
from ..rates import Rates
from ..registry import Registry
from ..uploads import Uploads
from ..watching import UNWATCHED, StoreWatch
from . import events, merging, operators, queue, records, sessions
from .audit import RedisAudit
from .blobs import RedisBlobs, RedisOwners
from .cells import Cells
from .checks import DEFAULT_USER, LUA_HINT, check, lua_fault
from .claiming import Claiming
from .leases import RedisKeeper
from .notices import RedisNotices
from .pressure import TRACES_PER_TRIM, make_room
from .rates import RedisRates
from .registry import RedisRegistry
from .results import Results
from .servers import Servers
from .submitting import Submitting
from .uploads import RedisUploads
from .writer import Writer

# A renewal waits for a fourth of a lease: a server that swallowed one still gets the next in time.
KEEPERS_TRIES = 4
# A card is announced in every cell, and again long before it is forgotten.
ANNOUNCING_PATIENCE_S = 1.0


async def connect_redis(
    url: str,
    *,
    keyring: Keyring,
    approval_keys: Approvals | None = None,
    fleet: str = "main",
    limits: Limits | None = None,
    cells: int = 1,
    pools: Collection[str] = admission.DEFAULT_POOLS,
    large_blobs: Blobs | None = None,
    watch: StoreWatch = UNWATCHED,
) -> RedisTransport:
    """A transport on servers that were checked: `Unreachable` or `Misconfigured` say what to do about it.

    `url`: see `servers.py`. `cells` must be the same for all of a fleet's programs, for ever. `pools` are known
    besides those that workers announce. Blobs go to Redis; large ones elsewhere when there is such a place.
    """
    limits = limits or Limits()
    servers = Servers(url, watch=watch)
    fleet_cells = Cells(servers, fleet, limits, cells)
    try:
        await check(fleet_cells)
    except BaseException:
        await servers.close()
        raise
    place = (servers.client_of, fleet, limits.retention_ms, lambda: make_room(fleet_cells.all, TRACES_PER_TRIM))
    blobs = RedisBlobs(*place)
    stored = TieredBlobs(blobs, large_blobs) if large_blobs else blobs
    owned = OwnedBlobs(stored, RedisOwners(*place))
    return RedisTransport(fleet_cells, keyring, approval_keys or approvals.none(), owned, pools)


class RedisTransport:
    """A step is atomic within one cell; a submission to several cells is accepted cell by cell."""

    def __init__(
        self, cells: Cells, keyring: Keyring, approval_keys: Approvals, blobs: Blobs, pools: Collection[str]
    ) -> None:
        self.fleet = cells.fleet
        self.blobs = blobs
        self.keyring = keyring
        self.approvals = approval_keys
        self.limits = cells.limits
        self.pools = frozenset(pools)
        self.rates: Rates = RedisRates(cells)
        self.uploads: Uploads = RedisUploads(cells)
        self.notices: Sequence[Notices] = tuple(map(RedisNotices, cells.all))
        self.audit: AuditLog = RedisAudit(cells, SealKeys(approval_keys, keyring))
        self.registry: Registry = RedisRegistry(cells.servers.client_of, cells.fleet)
        self._cells = cells
        self._writers = {cell.keys.cell: Writer(cell) for cell in cells.all}
        self._results = {cell: Results(cell) for cell in cells.all}
        self._claiming = Claiming(cells, self.give_back)
        self._submitting = Submitting(cells, keyring, self._writer)

    def _writer(self, lease: Lease) -> Writer:
        return self._writers[cell_of(lease.trace_id, len(self._writers))]

    # -- for those who want work done

    async def submit(self, requests: Sequence[TaskRequest], *, under: Lease | None = None) -> list[Handle]:
        admission.check_size(requests)
        admission.check_deadlines(requests, self.limits)
        await self._check_pools(requests)
        await admission.check_parents(requests, self.request)
        return await self._submitting.submit(requests, under)

    async def _check_pools(self, requests: Sequence[TaskRequest]) -> None:
        if not {request.recipient for request in requests} <= self.pools:
            announced = await self._cells.some(records.announced_pools)
            admission.check_pools(requests, self.pools.union(*announced))

    async def cancel(self, task_id: str, *, by: str, reason: str) -> int:
        return await queue.cancel(
            await self._cells.of_task(task_id), task_id, by=bounds.reason(by), reason=bounds.reason(reason)
        )

    async def prompt(self, session_id: str, text: str, *, by: str) -> Handle:
        text, by = bounds.words("text", text), bounds.reason(by)
        cell = await self._cells.of_session(session_id)
        await self._submitting.require_room(cell, bounds.stored_bytes(text))
        return await sessions.prompt(cell, session_id, text, by)

    async def background(self, task_id: str) -> bool:
        return await sessions.background(await self._cells.of_task(task_id), task_id)

    async def session_task(self, session_id: str) -> str:
        try:
            return await sessions.session_task(await self._cells.of_session(session_id), session_id)
        except NotFound:
            return session_id

    async def answer(self, task_id: str, ask_id: str, text: str, *, by: str, asked: str = "") -> Answer:
        text, by, ask_id = bounds.words("text", text), bounds.reason(by), bounds.reason(ask_id)
        cell = await self._cells.of_task(task_id)
        subject = Subject(self.fleet, "", task_id, ask_id)
        if self.approvals.are_known:  # the trace as its request says it, which is signed
            trace_id = (await records.request(cell, self.keyring, task_id)).trace_id
            subject = replace(subject, trace_id=trace_id)
        signed = self.approvals.signed(subject, text, by, asked)
        return await sessions.answer(
            cell, subject, text, by, signed, lambda standing: self.approvals.is_forged(subject, standing)
        )

    async def strike_answer(self, task_id: str, ask_id: str, answer: Answer) -> None:
        await sessions.strike(await self._cells.of_task(task_id), task_id, bounds.reason(ask_id), answer)

    async def answers(self, task_id: str) -> Mapping[str, Answer]:
        return await sessions.answers(await self._cells.of_task(task_id), task_id)

    def follow(self, trace_id: str, *, after: str = "0", wait: bool = True, about: str = "") -> AsyncIterator[Entry]:
        admission.check_trace(trace_id, after)
        return events.follow(self._cells.of_trace(trace_id), trace_id, after, wait=wait, about=about)

    def results(self, task_ids: Iterable[str]) -> AsyncIterator[TaskResult]:
        return merging.results(self._cells, self._results, task_ids)

    async def request(self, task_id: str) -> TaskRequest:
        return await records.request(await self._cells.of_task(task_id), self.keyring, task_id)

    async def result(self, task_id: str) -> TaskResult | None:
        return await records.result(await self._cells.of_task(task_id), task_id)

    async def record(self, task_id: str) -> TaskRecord:
        return await records.record(await self._cells.of_task(task_id), task_id)

    async def tasks(self, *, trace_id: str | None = None, limit: int = 100) -> list[TaskRecord]:
        return await merging.tasks(self._cells, trace_id, limit)

    async def roots(self, *, tenant: str | None = None, after: str = "", limit: int = 100) -> Page:
        return await merging.roots(self._cells, tenant, after, limit)

    async def live_roots(
        self, *, tenant: str | None = None, shards: bool | None = None, after: str = "", limit: int = 100
    ) -> Page:
        return await merging.live_roots(self._cells, tenant, shards, after, limit)

    async def asking(
        self, *, tenant: str | None = None, trace_id: str | None = None, after: str = "", limit: int = 100
    ) -> Page:
        return await merging.asking(self._cells, tenant, trace_id, after, limit)

    # -- for those who do it

    async def claim(
        self, pool: str, worker: str, *, slots: int, wait_s: float, but_of: Sequence[str] = ()
    ) -> list[Claim]:
        if slots <= 0:
            return []
        return await self._claiming.claim(pool, worker, slots=slots, wait_s=wait_s, but_of=but_of)

    def keeper(self) -> LeaseKeeper:
        """Over connections of its own, which find out soon enough to try again before a lease is over."""
        timeout_s = self.limits.lease_ms / 1000 / KEEPERS_TRIES
        ours = self._cells.servers
        servers = Servers(ours.url, pauses_s=(), timeout_s=timeout_s, watch=ours.watch)
        return RedisKeeper(Cells(servers, self._cells.fleet, self.limits, len(self._cells.all)))

    async def emit(
        self,
        lease: Lease,
        progress: TaskProgress,
        *,
        charge_microusd: int = 0,
        release_microusd: int = 0,
        gets_on: bool = False,
    ) -> Ledger:
        charge = bounds.amount("charge_microusd", charge_microusd)
        release = bounds.amount("release_microusd", release_microusd)
        return await self._writer(lease).emit(lease, encode(progress), charge, release, gets_on)

    async def reserve(self, lease: Lease, amount_microusd: int) -> Ledger | None:
        return await self._writer(lease).reserve(lease, bounds.amount("amount_microusd", amount_microusd))

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
        session = (bounds.blob("blob", blob), bounds.count("heard", heard))
        charge = bounds.amount("charge_microusd", charge_microusd)
        release = bounds.amount("release_microusd", release_microusd)
        message = encode(progress) if progress else b""
        return await self._writer(lease).checkpoint(lease, session, message, charge, release)

    async def inbox(self, lease: Lease) -> list[Prompt]:
        return await self._writer(lease).inbox(lease)

    async def park(self, lease: Lease, wait: Wait) -> bool:
        return await self._writer(lease).park(lease, bounds.wait(wait))

    async def hold(self, lease: Lease, asks: frozenset[str]) -> None:
        await self._writer(lease).hold(lease, bounds.wait(Wait(asks=asks)).asks)

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
        letter = (_code(result), bounds.reason(dead)) if dead else None
        last = _last(progress, bounds.amount("charge_microusd", charge_microusd))
        return await self._writer(lease).finish(lease, result.status, encode(result), letter, last)

    async def give_back(self, lease: Lease) -> None:
        await self._writer(lease).give_back(lease)

    async def retry(self, lease: Lease, *, delay_ms: int, reason: str) -> None:
        await self._writer(lease).retry(lease, bounds.delay("delay_ms", delay_ms), bounds.reason(reason))

    # -- for operators

    async def archive(self, session_id: str, *, archived: bool = True) -> None:
        await sessions.archive(await self._cells.of_session(session_id), session_id, archived)

    async def archived(self, session_ids: Sequence[str]) -> frozenset[str]:
        return frozenset[str]().union(*await self._cells.each(lambda cell: sessions.archived(cell, session_ids)))

    async def dead_letters(self, *, tenant: str | None = None, limit: int = 100) -> list[DeadLetter]:
        return await merging.dead_letters(self._cells, tenant, limit)

    async def dead_letter_count(self) -> int:
        return sum(await self._cells.each(operators.dead_letter_count))

    async def purge(self, task_ids: Iterable[str], *, by: str = OPERATOR) -> int:
        ids, by = list(task_ids), bounds.reason(by)
        return sum(await self._cells.each(lambda cell: operators.purge(cell, ids, by)))

    async def allot(self, tenant: str, allotment: Allotment, *, by: str = OPERATOR) -> None:
        checked, by = bounds.allotment(allotment), bounds.reason(by)
        await self._cells.each(lambda cell: operators.allot(cell, tenant, checked, by))

    async def allotments(self) -> Mapping[str, Allotment]:
        return await self._cells.any(operators.allotments)

    async def ledger(self, trace_id: str) -> Ledger:
        return await operators.ledger(self._cells.of_trace(trace_id), trace_id)

    async def raise_cap(self, trace_id: str, cap_microusd: int, *, by: str) -> Ledger:
        cap_microusd, by = bounds.amount("cap_microusd", cap_microusd), bounds.reason(by)
        return await operators.raise_cap(self._cells.of_trace(trace_id), trace_id, cap_microusd, by)

    async def fund(self, tenant: str, cap_microusd: int | None, *, by: str, only_lower: bool = False) -> Ledger:
        return await merging.fund(self._cells, tenant, bounds.cap(cap_microusd), bounds.reason(by), only_lower)

    async def funds(self, tenant: str) -> Ledger:
        return await merging.funds(self._cells, tenant)

    # -- for whoever is alive

    async def reap(self) -> int:
        touched = sum(await self._cells.each(queue.reap))
        await self._submitting.relieve()
        return touched

    async def announce(self, card: WorkerCard, *, ttl_s: float) -> None:
        await self._cells.some(
            lambda cell: records.announce(cell, self.keyring, card, ttl_s=ttl_s), patience_s=ANNOUNCING_PATIENCE_S
        )

    async def workers(self) -> list[WorkerCard]:
        cells = await self._cells.some(lambda cell: records.workers(cell, self.keyring))
        told = sorted((card for cards in cells for card in cards), key=lambda card: card.is_signed)
        found = {card.worker: card for card in told}
        return [found[worker] for worker in sorted(found)]

    async def stats(self, pools: Sequence[str]) -> list[PoolStats]:
        return await merging.stats(self._cells, pools)

    async def counters(self) -> dict[str, int]:
        return await merging.counters(self._cells)

    async def overdue(self, late_ms: int) -> int:
        return sum(await self._cells.each(lambda cell: records.overdue(cell, late_ms)))

    async def memory_used(self) -> float:
        return await self._submitting.memory_used()

    async def lua_fault(self) -> tuple[str, str] | None:
        """What users of the server can do to each other's scripts, and a hint; None where there are no others."""
        cell = self._cells.first
        user = self._cells.servers.named.options.get("username") or DEFAULT_USER
        fault = "" if user == DEFAULT_USER else await lua_fault(cell)
        return (fault, LUA_HINT) if fault else None

    async def now_ms(self) -> int:
        """Of one cell's server, mostly the first one's; each cell goes by its own."""
        return await self._cells.any(records.now_ms)

    async def close(self) -> None:
        await self._claiming.close()
        for results in self._results.values():
            await results.close()
        for writer in self._writers.values():
            await writer.close()
        await self._cells.servers.close()


def _last(progress: TaskProgress | None, charge_microusd: int) -> tuple[bytes, int] | None:
    return (encode(progress), charge_microusd) if progress else None


def _code(result: TaskResult) -> str:
    return result.errors[0].code if result.errors else ErrorCode.INTERNAL
