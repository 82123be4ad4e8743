"""What batches and their publication ask of the client that they are used through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from envelope.agents import WorkerCard
from envelope.messages import TaskRequest, TaskResult, Workspace
from repo.local import Place
from transport.base import Entry, Handle, TaskRecord, Transport

from .costs import Cost
from .session.fold import Session
from .settings import Settings
from .uploads import Charge


class Records(Protocol):
    """`Muster`, whose methods say what each of these promises."""

    transport: Transport
    settings: Settings
    charge: Charge | None

    async def submit(self, request: TaskRequest, /) -> Handle: ...

    async def submit_repeatable(self, request: TaskRequest) -> Handle: ...

    async def record(self, task_id: str) -> TaskRecord: ...

    async def request(self, task_id: str) -> TaskRequest: ...

    async def result(self, task_id: str) -> TaskResult | None: ...

    async def attachment(self, result: TaskResult, name: str) -> bytes: ...

    async def events(self, trace_id: str) -> list[Entry]: ...

    async def tree(self, trace_id: str) -> Session: ...

    async def cost(self, trace_id: str) -> Cost: ...

    async def workers(self) -> list[WorkerCard]: ...

    async def pack(
        self, repository: Path | Place, *, commit: str | None = None, setup: Sequence[str] = ()
    ) -> Workspace: ...
