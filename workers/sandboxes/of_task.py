"""The sandbox of one attempt: opened at the first use, brought to where the work stands, closed in every case.

Two diffs are kept apart throughout: the *request's*, against the commit that the workspace names, and the *work's*,
against the tree that the request's diff makes of it. Patches and checkpoints hold the work's alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Self

from envelope.tracing.names import IMAGE, SANDBOX
from envelope.tracing.spans import span
from repo.patch import Patch
from sandbox.base import Sandbox
from sandbox.readers import LazySandbox

from ..llm.base import FilePart
from .turns import Lender
from .workspace import Prepared


@dataclass(frozen=True, slots=True)
class Furnished:
    """What was put into a sandbox beside its workspace: as the prompt tells of it, and what a model is shown of it."""

    text: str = ""
    files: tuple[FilePart, ...] = ()


NOTHING = Furnished()
Permit = Callable[[], AbstractAsyncContextManager[None]]


class TaskSandbox:
    """`prepare` makes the spec and is called once; `earlier_work_diff` is the work diff of an earlier attempt."""

    def __init__(
        self,
        lender: Lender,
        prepare: Callable[[], Awaitable[Prepared]],
        count: Callable[[int], None] = lambda _: None,
        furnish: Callable[[Sandbox], Awaitable[Furnished]] | None = None,
        permit: Permit = nullcontext,
    ) -> None:
        """`count` is told +1 for a sandbox of the task's own that was opened, and -1 when it is closed. `furnish` puts
        more into it than its workspace, and says what. `permit`: held while a command of the task's runs in it (see
        `permits.py`)."""
        self.permit = permit
        self._lender = lender
        self._prepare = prepare
        self._count = count
        self._has_own = False
        self._furnish = furnish
        self.furnished = NOTHING  # what `furnish` said
        self._prepared: Prepared | None = None
        self._sandbox: Sandbox | None = None
        self._opening = asyncio.Lock()
        self._tree = asyncio.Lock()  # who takes or changes the whole work tree does so alone
        self.earlier_work_diff = b""

    async def prepared(self) -> Prepared:
        async with self._opening:
            return await self._ready()

    async def opened(self) -> Sandbox:
        """The sandbox with the request's changes and the earlier work in its workspace."""
        async with self._opening:
            if self._sandbox is None:
                with span(SANDBOX) as opening:
                    prepared = await self._ready()
                    opening.set({IMAGE: prepared.spec.image})
                    return await self._open(prepared)
            return self._sandbox

    async def _open(self, prepared: Prepared) -> Sandbox:
        self._sandbox = sandbox = await self._lender.open(prepared.spec, self._own_opened)
        await sandbox.apply(prepared.request_diff, as_base=True)
        await sandbox.apply(self.earlier_work_diff)
        self.furnished = await self._furnish(sandbox) if self._furnish else NOTHING
        return sandbox

    def _own_opened(self) -> None:
        self._has_own = True
        self._count(1)

    @property
    def current(self) -> Sandbox | None:
        """The task's own sandbox, if one has opened: for those who look at what the work left."""
        return self._sandbox.own if isinstance(self._sandbox, LazySandbox) else self._sandbox

    async def apply(self, diff: bytes) -> None:
        """Put a subagent's patch onto the workspace, one at a time; `PatchRefused` when it collides."""
        sandbox = await self.opened()
        async with self._tree:
            await sandbox.apply(diff)

    async def work_diff(self) -> bytes:
        """What the work has changed so far; empty when nothing."""
        prepared = await self.prepared()
        if self.current is None or prepared.spec.read_only or not prepared.spec.base:
            return self.earlier_work_diff
        async with self._tree:
            return (await self.current.snapshot()).diff

    async def patch(self, allowed: Callable[[str], bool]) -> Patch | None:
        """Stop what runs and take what the work changed; None when this workspace has no base, or nothing can have
        changed."""
        prepared = await self.prepared()
        untouched = self.current is None and not self.earlier_work_diff
        if untouched or prepared.spec.read_only or not prepared.spec.base:
            return None
        return await (await self.opened()).patch(allowed)

    async def close(self, *, stopped: bool = False) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            try:
                await self._lender.give_back(sandbox, stopped=stopped)
            finally:
                if self._has_own:
                    self._has_own = False
                    self._count(-1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            await self.close(stopped=kind is not None)
        finally:
            if self._prepared is not None:
                self._prepared.use.close()

    async def _ready(self) -> Prepared:
        if self._prepared is None:
            self._prepared = await self._prepare()
        return self._prepared
