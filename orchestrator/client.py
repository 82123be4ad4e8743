"""The Python client; the command line uses the same one."""

from __future__ import annotations

import asyncio
import mimetypes
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Unpack, overload

from envelope.agents import WorkerCard
from envelope.lifecycle import State
from envelope.messages import Attachment, TaskRequest, TaskResult, Workspace
from repo.bundle import bundle
from repo.local import describe
from transport.base import Entry, Handle, TaskRecord, Transport
from transport.errors import NotFound
from transport.settings import connect

from .catalogue import agent_named
from .settings import Settings, load_settings
from .submit import TaskFields, is_resolved, repeated, resolved, task_request


class Muster:
    """A connection to a fleet. Submitting, following and cancelling; the work itself goes on without it."""

    def __init__(self, transport: Transport, settings: Settings) -> None:
        self.transport = transport
        self.settings = settings

    @classmethod
    @asynccontextmanager
    async def connect(cls, settings: Settings | None = None) -> AsyncGenerator[Muster]:
        """Connect to the fleet that `settings` (default: `MUSTER_*` and the user's file) name.

        `transport.errors.Unreachable` when no server answers: this starts nothing (`muster up` does).
        """
        chosen = settings or load_settings()
        transport = await connect(chosen)
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

        Who names no `auth_scope` or pool gets the agent's own, as live workers offer it: `UnknownName` when none does.
        """
        return await self.transport.submit(await self._requests(tasks))

    async def _requests(self, tasks: Sequence[TaskRequest | TaskFields]) -> list[TaskRequest]:
        workers = [] if all(map(is_resolved, tasks)) else await self.workers()
        return [self._request(task, workers) for task in tasks]

    def _request(self, task: TaskRequest | TaskFields, workers: Sequence[WorkerCard]) -> TaskRequest:
        if not is_resolved(task):
            agent = task.agent if isinstance(task, TaskRequest) else task["agent"]
            return resolved(task, agent_named(agent, workers, by_person=False))
        return task if isinstance(task, TaskRequest) else task_request(**task)

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

    def follow(self, trace_id: str, *, after: str = "0") -> AsyncIterator[Entry]:
        """The trace's events from any id on; ends after the result of its root task."""
        return self.transport.follow(trace_id, after=after)

    async def gather(self, handles: Iterable[Handle]) -> list[TaskResult]:
        """Wait for all; the results are in the order of the handles. A failed task is a result, not an exception."""
        task_ids = [handle.task_id for handle in handles]
        results = {result.task_id: result async for result in self.results(task_ids)}
        return [results[task_id] for task_id in task_ids]

    def results(self, task_ids: Iterable[str]) -> AsyncIterator[TaskResult]:
        """The results as they come, each once."""
        return self.transport.results(list(dict.fromkeys(task_ids)))

    async def cancel(self, task_id: str, reason: str = "asked for", *, by: str = "api") -> int:
        """Stop a task and everything below it; how many tasks were still alive."""
        return await self.transport.cancel(task_id, by=by, reason=reason)

    async def tasks(self, *, trace_id: str | None = None, limit: int = 100) -> list[TaskRecord]:
        """A trace's tasks in order of submission; without a trace the latest roots first."""
        return await self.transport.tasks(trace_id=trace_id, limit=limit)

    async def record(self, task_id: str) -> TaskRecord:
        return await self.transport.record(task_id)

    async def request(self, task_id: str) -> TaskRequest:
        return await self.transport.request(task_id)

    async def result(self, task_id: str) -> TaskResult | None:
        """The task's result, or None while it is under way."""
        return await self.transport.result(task_id)

    async def workers(self) -> list[WorkerCard]:
        """Who is alive, orchestrators among them."""
        return await self.transport.workers()

    async def diff(self, task_id: str) -> bytes:
        """The task's change as git reads it; empty when it changed nothing. `NotFound` while it is under way."""
        result = await self.result(task_id)
        if result is None:
            raise NotFound(f"the task {task_id} has not ended yet", hint=f"wait for it: muster task watch {task_id}")
        return await self.transport.blobs.get(result.patch.diff) if result.patch else b""

    async def attachment(self, result: TaskResult, name: str) -> bytes:
        """An artefact of a result by its name; `NotFound` when it has none of that name."""
        for attached in result.attachments:
            if attached.name == name:
                return await self.transport.blobs.get(attached.blob)
        raise NotFound(f"the task {result.task_id} has no attachment {name!r}")

    async def attach(self, content: bytes | Path, *, name: str = "", media_type: str = "") -> Attachment:
        """Store a file or bytes, to be named in a request's `attachments`."""
        data = await asyncio.to_thread(content.read_bytes) if isinstance(content, Path) else content
        name = name or (content.name if isinstance(content, Path) else "attachment")
        kind = media_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Attachment(blob=await self.transport.blobs.put(data), name=name, media_type=kind, size_bytes=len(data))

    async def pack(self, repository: Path, *, commit: str | None = None, setup: Sequence[str] = ()) -> Workspace:
        """A local repository as a workspace: the history of `commit` (default: what is checked out) in one blob.

        Uncommitted changes stay behind: the caller tells the user, or refuses (see `repo.local.describe`).
        """
        local = await describe(repository)
        base = commit or local.head
        with tempfile.TemporaryDirectory(prefix="muster-pack-") as folder:
            packed = Path(folder) / "repository.bundle"
            await bundle(local.root, base, packed)
            return Workspace(
                bundle=await self.transport.blobs.put(await asyncio.to_thread(packed.read_bytes)),
                base=base,
                setup=tuple(setup),
            )
