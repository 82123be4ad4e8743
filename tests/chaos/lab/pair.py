"""A master, its replica, and a Sentinel that makes the one the other's successor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from .server import START_TIMEOUT_S, Server, redis_server

SERVICE = "fleet"
# How long the master may be silent before Sentinel acts; ten times less than an operator would choose.
DOWN_AFTER_MS = 1_000
# After a moment in which the machine stood still, a Sentinel does nothing for so long.
TILT_S = 30.0


@dataclass(frozen=True, slots=True)
class Pair:
    master: Server
    replica: Server
    sentinel: Server

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/{SERVICE}/0"

    def stop_replicating(self) -> None:
        """From now on the master acknowledges what its replica never hears of."""
        self.master.call("ACL", "SETUSER", "default", "-psync", "-sync")
        self.master.call("CLIENT", "KILL", "TYPE", "replica")

    async def fail_over(self) -> None:
        """The master is killed; returns when Sentinel has made the replica the master."""
        await self.master.kill()
        await self.sentinel.says("+switch-master", timeout_s=TILT_S + START_TIMEOUT_S)


@asynccontextmanager
async def sentinel_pair(folder: Path, program: Path) -> AsyncIterator[Pair]:
    """`program`: a redis-server that can be a Sentinel; the bundled one cannot."""
    async with redis_server(folder / "master", program=program) as master:
        follows = ("--replicaof", f"127.0.0.1 {master.port}", "--repl-diskless-sync-delay", "0")
        async with redis_server(folder / "replica", program=program, arguments=follows) as replica:
            await replica.says("Finished with success")
            rules = folder / "sentinel.conf"
            rules.write_text(
                f"sentinel monitor {SERVICE} 127.0.0.1 {master.port} 1\n"
                f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
                f"sentinel failover-timeout {SERVICE} 4000\n"
            )
            options = {"program": program, "arguments": (str(rules), "--sentinel"), "ready": "+monitor"}
            async with redis_server(folder / "sentinel", **options) as sentinel:
                await sentinel.says("+slave")
                yield Pair(master, replica, sentinel)
