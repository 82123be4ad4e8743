"""Calls of one client on this machine: with its user's repositories, settings and trust, and their fleet."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from envelope.asks import AskTerms

from ..api.caller import Caller
from ..api.tokens import ALL_TENANTS, Role, Token
from ..approvals import ask_terms
from ..batch.client import HERE
from ..batch.document import read_document
from ..batch.file import load_batch
from ..batch.plan import Planned, Sources
from ..client import Muster
from ..mcp.tool import Call, Ground, Waits, Wanted, WantedBatch, address_of
from ..project.file import Defaults, project_defaults, unused_keys
from ..project.gate_rules import gate_rules
from ..settings import Settings
from ..starting import starting_point
from ..trust import TrustStore, trusted_digest
from .batch_here import require_here
from .fleet import open_fleet
from .person import person
from .places import repositories_of


class Here:
    """A front. The fleet is opened at the first call, in a task of its own, and kept to the end: a client asks for the
    list of tools at each of its starts, and mostly for nothing else."""

    def __init__(self, settings: Settings, role: Role) -> None:
        self._settings = settings
        name = re.sub(r"[^A-Za-z0-9_.@-]", "_", person().partition(":")[2])[:60]
        # nobody shows it: who can start this command has the user's rights
        self._token = Token(name=name, sha256="0" * 64, role=role, tenant=ALL_TENANTS)
        self._waits = Waits()
        self._opening = asyncio.Lock()
        self._end = asyncio.Event()
        self._muster: Muster | None = None
        self._fleet: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        if self._fleet is not None:
            await asyncio.gather(self._fleet, return_exceptions=True)

    def token(self, request: Any) -> Token:
        return self._token

    async def call(self, request: Any) -> Call:
        return Call(Caller(self._token, await self._open(), door="mcp"), self, self._waits)

    async def ground(self, caller: Caller, wanted: Wanted) -> Ground:
        """An address as it stands; a folder as its last commit, with what its `muster.toml` says."""
        settings = self._settings
        if not wanted.repository:
            return Ground(asks=ask_terms(settings, (), no_input=False))
        if "://" in wanted.repository:
            return Ground(address_of(wanted), ask_terms(settings, (), no_input=False))
        notes: list[str] = []
        local = await starting_point(_here(wanted.repository), allow_dirty=wanted.allow_dirty, tell=notes.append)
        store = TrustStore(settings.state_dir)
        trusted = "" if settings.read_only else await trusted_digest(store, local.root, local.git_dir, local.head)
        known = await project_defaults(local, settings, is_trusted=bool(trusted))
        if unused := unused_keys(known, local.root):
            notes.append(unused)
        setup = tuple(wanted.setup) or known.setup
        workspace = await caller.muster.pack(local.place, commit=wanted.base or local.head, setup=setup)
        asks = ask_terms(settings, (local.root,), no_input=False)
        return Ground(workspace, asks, _values(known), tuple(notes))

    async def batch(self, caller: Caller, wanted: WantedBatch) -> tuple[Planned, AskTerms | None]:
        """A file of this machine by its path, or the text itself, whose paths are relative to where we were started."""
        settings, document = self._settings, wanted.document.strip()
        if "\n" in document:
            spec, file = await read_document(document.encode(), wanted.language), HERE
        else:
            file = _here(document)
            spec = load_batch(file, only_looks=settings.read_only)
        if settings.read_only:
            await require_here(spec, file, settings)
        plan = await caller.muster.batches.plan(spec, Sources(allow_dirty=wanted.allow_dirty), file=file)
        return plan, ask_terms(settings, tuple(repositories_of(spec, file).values()), no_input=False)

    async def _open(self) -> Muster:
        """The fleet, started if it must be. What fails is told to this call, and tried again at the next."""
        async with self._opening:
            if self._muster is None or self._fleet is None or self._fleet.done():
                opened: asyncio.Future[Muster] = asyncio.get_running_loop().create_future()
                self._fleet = asyncio.create_task(self._keep(opened))
                await asyncio.wait({self._fleet, opened}, return_when=asyncio.FIRST_COMPLETED)
                if not opened.done():
                    await self._fleet  # raises what went wrong
                self._muster = opened.result()
            return self._muster

    async def _keep(self, opened: asyncio.Future[Muster]) -> None:
        async with open_fleet(self._settings) as muster:
            opened.set_result(muster)
            await self._end.wait()


def _here(name: str) -> Path:
    """As the user's shell would take it, in the folder that the client started us in."""
    return Path(name).expanduser()


def _values(known: Defaults) -> dict[str, Any]:
    """What the repository says of itself, by the names of a goal's fields."""
    said = {
        "agent": known.agent,
        "gate": known.gate,
        "gate_rules": gate_rules((), known.gate_rules),
        "model": known.model,
        "budget_microusd": known.budget_microusd,
        "deadline_ms": known.deadline_s and known.deadline_s * 1000,
    }
    return {name: value for name, value in said.items() if value}
