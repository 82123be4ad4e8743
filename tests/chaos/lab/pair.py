"""A master, its replica, and a Sentinel that makes the one the other's successor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from .server import START_TIMEOUT_S, Server, redis_server
from .users import lab_users

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
        return f"redis+sentinel://{lab_users().sign_in('orchestrator')}127.0.0.1:{self.sentinel.port}/{SERVICE}/0"

    def stop_replicating(self) -> None:
        """From now on the master acknowledges what its replica never hears of."""
        self.master.call("ACL", "SETUSER", lab_users().name("replica"), "-psync")
        self.master.call("CLIENT", "KILL", "TYPE", "replica")

    async def fail_over(self) -> None:
        """The master is killed; returns when Sentinel has made the replica the master."""
        await self.master.kill()
        await self.sentinel.says("+switch-master", timeout_s=TILT_S + START_TIMEOUT_S)


@asynccontextmanager
async def sentinel_pair(folder: Path, program: Path) -> AsyncIterator[Pair]:
    """`program`: a redis-server that can be a Sentinel; the bundled one cannot."""
    users = lab_users()
    serves = ("--masteruser", users.name("replica"), "--masterauth", users.passwords["replica"])
    async with redis_server(folder / "master", program=program, arguments=serves) as master:
        master.call("CONFIG", "SET", "repl-diskless-sync-delay", 0)
        async with redis_server(folder / "replica", program=program, arguments=serves) as replica:
            # a command, and no option of its program: once it is the master, it is that after a restart as well
            replica.call("REPLICAOF", "127.0.0.1", master.port)
            await replica.says("Finished with success")
            rules = folder / "sentinel.conf"
            rules.write_text(
                f"sentinel monitor {SERVICE} 127.0.0.1 {master.port} 1\n"
                f"sentinel auth-user {SERVICE} {users.name('sentinel')}\n"
                f"sentinel auth-pass {SERVICE} {users.passwords['sentinel']}\n"
                f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
                f"sentinel failover-timeout {SERVICE} 4000\n"
            )
            options = {"program": program, "arguments": (str(rules), "--sentinel"), "ready": "+monitor"}
            async with redis_server(folder / "sentinel", **options, users=users.sentinel_file) as sentinel:
                await sentinel.says("+slave")
                yield Pair(master, replica, sentinel)
