"""All cells of a fleet, and which of them has what: a trace says it by its id, a task has to be looked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from envelope.ids import shares_home
from envelope.messages import TaskRequest

from ..admission import refusal
from ..errors import NotFound, TransportError, Unreachable, no_task, no_trace
from ..keys import CellKeys, cell_of
from ..limits import Limits
from .cell import Cell
from .servers import Servers

# About 1 MB of ids; who forgets one asks the servers again.
REMEMBERED_TASKS = 10_000
# One round trip to each cell, of 30 KiB.
LOOKED_UP_AT_ONCE = 500

# How long to wait for a cell when others have answered, or could be asked instead. A script takes about a millisecond,
# on a busy server some ten.
PATIENCE_S = 0.05

T = TypeVar("T")


class Cells:
    def __init__(self, servers: Servers, fleet: str, limits: Limits, count: int = 1) -> None:
        """Cells that share a server share its client."""
        self.servers = servers
        self.fleet = fleet
        self.limits = limits
        self.patience_s = PATIENCE_S
        keys = [CellKeys(fleet, number) for number in range(count)]
        self.all = tuple(Cell(servers.client_of(key.prefix), key, limits) for key in keys)
        self.first = self.all[0]
        self._answering = self.first
        self._cell_of_task: dict[str, Cell] = {}

    def of_trace(self, trace_id: str) -> Cell:
        """`NotFound` for what cannot be a trace."""
        try:
            return self.all[cell_of(trace_id, len(self.all))]
        except ValueError as e:
            raise no_trace(trace_id) from e

    async def of_task(self, task_id: str) -> Cell:
        """`NotFound` when no cell knows it."""
        if len(self.all) == 1:
            return self.first
        if found := self._cell_of_task.get(task_id):
            return found
        if not (found := await self._who_has(("task", task_id))):
            raise no_task(task_id)
        self._remember(task_id, found)
        return found

    async def of_tasks(self, task_ids: Iterable[str]) -> dict[Cell, list[str]]:
        """Each cell's share of them; `NotFound` as soon as one is nowhere."""
        if len(self.all) == 1:
            return {self.first: list(task_ids)}
        cells: dict[str, Cell | None] = {task_id: self._cell_of_task.get(task_id) for task_id in task_ids}
        unknown = [task_id for task_id, cell in cells.items() if cell is None]
        for start in range(0, len(unknown), LOOKED_UP_AT_ONCE):
            for task_id, cell in await self._look_up(unknown[start : start + LOOKED_UP_AT_ONCE]):
                cells[task_id] = cell
                self._remember(task_id, cell)
        shares: dict[Cell, list[str]] = {}
        for task_id, cell in cells.items():
            if cell is None:
                raise no_task(task_id)
            shares.setdefault(cell, []).append(task_id)
        return shares

    async def _look_up(self, task_ids: Sequence[str]) -> list[tuple[str, Cell]]:
        """A cell that cannot be asked holds nobody up when the others have them all."""

        async def there(cell: Cell) -> list[tuple[str, Cell]]:
            found = await cell.client.read_many([("EXISTS", cell.keys.name("task", task_id)) for task_id in task_ids])
            return [(task_id, cell) for task_id, exists in zip(task_ids, found, strict=True) if exists]

        pairs: list[tuple[str, Cell]] = []
        async with aclosing(self._answers(there)) as answers:
            async for share in answers:
                pairs += share
                if len(pairs) == len(task_ids):
                    break
        return pairs

    async def of_session(self, session_id: str) -> Cell:
        """A session goes by the id of the task that opened it, and may outlive that."""
        if len(self.all) == 1:
            return self.first
        found = await self._who_has(("session", session_id), ("task", session_id))
        if not found:
            raise NotFound(f"there is no session {session_id}", hint="sessions are kept for 7 days, by default")
        return found

    def learn(self, task_id: str, trace_id: str) -> None:
        """What was submitted or claimed here need not be looked for."""
        if len(self.all) > 1:
            self._remember(task_id, self.of_trace(trace_id))

    def _remember(self, task_id: str, cell: Cell) -> None:
        self._cell_of_task[task_id] = cell
        if len(self._cell_of_task) > REMEMBERED_TASKS:
            del self._cell_of_task[next(iter(self._cell_of_task))]

    async def _who_has(self, *names: tuple[str, str]) -> Cell | None:
        """The cell with any of these keys. One that cannot be asked might have it: then nobody can say "none"."""

        async def has(cell: Cell) -> Cell | None:
            found = await cell.client.read_many([("EXISTS", cell.keys.name(*name)) for name in names])
            return cell if any(found) else None

        async with aclosing(self._answers(has)) as answers:
            async for cell in answers:
                if cell:
                    return cell
        return None

    async def _answers(self, work: Callable[[Cell], Awaitable[T]]) -> AsyncGenerator[T]:
        """Of all cells, as they come. The first failure is raised when all others have answered."""
        asked = [asyncio.ensure_future(work(cell)) for cell in self.all]
        failure: BaseException | None = None
        try:
            for coming in asyncio.as_completed(asked):
                try:
                    answer = await coming
                except TransportError as error:
                    failure = failure or error
                    continue
                yield answer
            if failure:
                raise failure
        finally:
            self._let_go(asked)

    def _let_go(self, asked: Iterable[asyncio.Future[Any]]) -> None:
        """Nobody waits for these any more. Who is about to answer may: to break off an exchange costs a connection."""
        loop = asyncio.get_running_loop()
        for one in asked:
            one.add_done_callback(_ignore)
            loop.call_later(self.patience_s, one.cancel)

    async def any(self, work: Callable[[Cell], Awaitable[T]]) -> T:
        """The answer of one cell, where all have the same: mostly the first. Another is asked when one is silent."""
        if len(self.all) == 1:
            return await work(self.first)
        order = sorted(self.all, key=lambda cell: cell is not self._answering)
        asked: dict[asyncio.Future[T], Cell] = {}
        failure: Unreachable | None = None
        try:
            while order or asked:
                if order:
                    cell = order.pop(0)
                    asked[asyncio.ensure_future(work(cell))] = cell
                patience_s = self.patience_s if order else None
                done, _ = await asyncio.wait(asked, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    cell = asked.pop(one)
                    try:
                        answer = one.result()
                    except Unreachable as error:
                        failure = failure or error
                    else:
                        self._answering = cell
                        return answer
            raise failure or Unreachable("none of the fleet's Redis servers answers", hint="check that they run")
        finally:
            self._let_go(asked)

    async def some(self, work: Callable[[Cell], Awaitable[T]], *, patience_s: float | None = None) -> list[T]:
        """The answers of those cells that can be reached, in no order. When one has answered, the others have this
        long. `Unreachable` when none can."""
        if len(self.all) == 1:
            return [await work(self.first)]
        asked = {asyncio.ensure_future(work(cell)) for cell in self.all}
        answers: list[T] = []
        failure: Unreachable | None = None
        try:
            while asked:
                timeout_s = (self.patience_s if patience_s is None else patience_s) if answers else None
                done, asked = await asyncio.wait(asked, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
                for one in done:
                    try:
                        answers.append(one.result())
                    except Unreachable as error:
                        failure = failure or error
        finally:
            self._let_go(asked)
        if not answers and failure:
            raise failure
        return answers

    async def each(self, work: Callable[[Cell], Awaitable[T]], *, among: Sequence[Cell] | None = None) -> list[T]:
        """The same for every cell at once; all are done, or have failed, before the first failure is raised."""
        cells = self.all if among is None else among
        answers = await asyncio.gather(*(work(cell) for cell in cells), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return [answer for answer in answers if not isinstance(answer, BaseException)]

    async def check_homes(self, requests: Sequence[TaskRequest]) -> None:
        """`Refused` for what its own cell could not judge in one step: another has its session or its idempotency key.

        The idempotency key of a child holds in its trace; a session comes before a key.
        """
        if len(self.all) == 1:
            return
        for request in requests:
            if request.resume_token:
                at_home = await self._is_beside_session(request)
            elif request.idempotency_key and not request.parent_task_id:
                at_home = shares_home(request.trace_id, key=f"{request.tenant}:{request.idempotency_key}")
            else:
                at_home = True
            if not at_home:
                raise refusal(request, "home")

    async def _is_beside_session(self, request: TaskRequest) -> bool:
        try:
            return await self.of_session(request.resume_token) is self.of_trace(request.trace_id)
        except NotFound:
            return True  # the script says that there is no such session


def _ignore(one: asyncio.Future[Any]) -> None:
    """Without this a failure that nobody reads would be logged."""
    if not one.cancelled():
        one.exception()
