"""Processes of ours that die at their first write, then at their second, and so on, until one lives to its end."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest_asyncio
from lab.gate import Fate, Gate, gate_to
from lab.mortals import KILLED, Mortals, mortals
from lab.server import Server, redis_server
from lab.users import OPERATOR
from redis.asyncio import Redis

from envelope.agents import AgentCard, WorkerCard
from orchestrator.client import Muster
from orchestrator.settings import Settings
from transport.base import Transport

_fleets = itertools.count()
CELLS = 2
SOAK = os.environ.get("MUSTER_CHAOS") == "soak"

# Not DUMP: a hash in which a read has moved something looks different there.
READ: dict[str, Callable[[Redis, bytes], Awaitable[Any]]] = {
    "hash": lambda client, key: client.hgetall(key),
    "list": lambda client, key: client.lrange(key, 0, -1),
    "set": lambda client, key: client.smembers(key),
    "stream": lambda client, key: client.xrange(key),
    "string": lambda client, key: client.get(key),
    "zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
}


@dataclass
class Scene:
    """A fleet of its own for one death, connected past the gate; `kept`: what a test wants to find again."""

    muster: Muster
    mortals: Mortals
    server: Server
    env: dict[str, str]
    kept: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def transport(self) -> Transport:
        return self.muster.transport

    async def state(self) -> dict[bytes, Any]:
        """All that the fleet's Redis holds."""
        async with Redis.from_url(self.server.url_of(OPERATOR)) as client:
            keys = [key async for key in client.scan_iter(match=f"*{self.env['MUSTER_FLEET']}:*")]
            return {key: await self._value(client, key) for key in keys}

    async def _value(self, client: Redis, key: bytes) -> Any:
        kind = (await client.type(key)).decode()
        return await READ[kind](client, key)

    async def decisions(self) -> list[tuple[str, str]]:
        """What the audit log has: actions and subjects, each as often as it stands there."""
        return sorted(
            (entry.fields["action"], entry.fields["subject"]) for entry in await self.transport.audit.latest(99)
        )


Prepare = Callable[[Scene], Awaitable[Any]]  # the arguments of the deed
Live = Callable[[Scene, Fate | None], Awaitable[bool]]  # False: it was killed
Look = Callable[[Scene], Awaitable[Any]]


@dataclass
class Stages:
    gate: Gate
    mortals: Mortals
    server: Server
    folder: Path

    @asynccontextmanager
    async def scene(self, cells: int) -> AsyncIterator[Scene]:
        env = {
            "MUSTER_FLEET": f"chaos-kills-{next(_fleets)}",
            "MUSTER_STATE_DIR": str(self.folder),
            "MUSTER_CELLS": str(cells),
            "MUSTER_LEASE_S": "60",
            "MUSTER_CONFIG": str(self.folder / "none.toml"),
        }
        shutil.rmtree(self.folder / "approvals", ignore_errors=True)
        settings = Settings(
            redis_url=self.server.url, fleet=env["MUSTER_FLEET"], state_dir=self.folder, cells=cells, lease_s=60
        )
        async with Muster.connect(settings) as muster:
            build = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))
            for pool in ("orchestrator", "explore", "general", "build"):
                card = WorkerCard(worker=f"w-{pool}", pool=pool, slots=1, agents=(build,) if pool == "build" else ())
                await muster.transport.announce(card, ttl_s=600)
            yield Scene(muster, self.mortals, self.server, env)

    async def deaths(self, deed: str, prepare: Prepare, look: Look, *, acts_outside: bool = False) -> int:
        """How often it died. After each death the same is done again, and must come to what it comes to undisturbed.

        `acts_outside`: beside its writes it does something else, so that it matters on which side of them it dies.
        """

        async def live(scene: Scene, fate: Fate | None) -> bool:
            code = await self.mortals.live(deed, scene.env, fate, **scene.kept["arguments"])
            assert code in (0, KILLED), self.mortals.log.read_text()
            return code == 0

        async def prepared(scene: Scene) -> None:
            scene.kept["arguments"] = await prepare(scene)

        return await self.deaths_of(prepared, live, look, acts_outside=acts_outside)

    async def deaths_of(
        self, prepare: Prepare, live: Live, look: Look, *, acts_outside: bool = False, cells: int = CELLS
    ) -> int:
        sides = (False, True) if acts_outside or SOAK else (True,)
        async with self.scene(cells) as scene:
            await prepare(scene)
            assert await live(scene, None)
            undisturbed = await look(scene)
        for number in itertools.count(1):
            for taken in sides:
                async with self.scene(cells) as scene:
                    await prepare(scene)
                    lived = await live(scene, Fate(number, taken))
                    assert await live(scene, None)
                    assert await look(scene) == undisturbed, f"killed at write {number}, {taken=}"
            if lived:
                return len(sides) * (number - 1)
        raise AssertionError("nobody writes for ever")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stages() -> AsyncIterator[Stages]:
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        async with (
            redis_server(folder / "redis") as server,
            gate_to(server) as gate,
            mortals(folder, gate) as found,
        ):
            yield Stages(gate, found, server, folder)
