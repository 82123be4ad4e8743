"""Servers with the roles of helm/muster/files/users.acl, rendered as docs/redis.md says, and fleets on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from lab.programs import SERVERS, server_program
from lab.users import OPERATOR, OPERATOR_RULE, documented_users

from transport import approvals
from transport.keyring import fresh
from transport.limits import Limits
from transport.redis import connect_redis

KEYRING = fresh()
APPROVALS = approvals.fresh()


@dataclass(frozen=True, slots=True)
class AclServer:
    """`operator` is a user of the tests' own: no role may look into `ACL LOG`, or empty the server."""

    port: int
    passwords: dict[str, str]
    users: list[str]  # as they stand in the file: `ACL GETUSER` tells the same in other words, by categories

    def url(self, role: str) -> str:
        return f"redis://muster-main-{role}:{self.passwords[role]}@127.0.0.1:{self.port}/0"

    def granted(self, role: str) -> set[str]:
        """The commands that a role may run."""
        (line,) = [user for user in self.users if user.startswith(f"user muster-main-{role} ")]
        return {rule[1:] for rule in line.split() if rule.startswith("+")}

    def connect(self, role: str) -> redis.Redis:
        name = role if role == OPERATOR else f"muster-main-{role}"
        return redis.Redis(
            port=self.port, username=name, password=self.passwords[role], lib_name=None, lib_version=None
        )


@pytest.fixture(scope="session", params=SERVERS)
def acl_server(request: Any, start_redis: Any, tmp_path_factory: pytest.TempPathFactory) -> AclServer:
    """A server with the roles of two fleets, `main` and `other`."""
    folder = tmp_path_factory.mktemp("acl")
    passwords = documented_users(folder / "main")
    documented_users(folder / "other", "other")
    users = (folder / "main" / "users.acl").read_text().splitlines()
    others = [user for user in (folder / "other" / "users.acl").read_text().splitlines() if "default" not in user]
    (folder / "users.acl").write_text("\n".join([*users, *others, OPERATOR_RULE]))
    server = start_redis("--aclfile", str(folder / "users.acl"), program=server_program(request.param))
    return AclServer(server.port, {**passwords, OPERATOR: OPERATOR}, users)


@pytest.fixture
def emptied(acl_server: AclServer) -> Iterator[redis.Redis]:
    """The server with no keys and nothing in its `ACL LOG`, as its operator sees it."""
    with acl_server.connect(OPERATOR) as operator:
        operator.flushall()
        operator.acl_log_reset()
        yield operator


AsRole = Callable[..., Awaitable[Any]]


@pytest.fixture
async def as_role(acl_server: AclServer, emptied: redis.Redis, make_memory_fleet: Any) -> AsyncIterator[AsRole]:
    """The fleet `main`, over a connection of a role's."""
    kind = type(await make_memory_fleet())
    async with AsyncExitStack() as stack:

        async def connect(role: str, limits: Limits | None = None) -> Any:
            keys = APPROVALS if role == "orchestrator" else approvals.verifying(APPROVALS)
            transport = await connect_redis(acl_server.url(role), keyring=KEYRING, approval_keys=keys, limits=limits)
            stack.push_async_callback(transport.close)
            return kind(transport, name="main", url=acl_server.url(role))

        yield connect


@pytest.fixture
def sentinel_files(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder with users.acl and sentinel.acl for a master, its replicas and their sentinels; the passwords."""
    passwords = documented_users(tmp_path, blocks=("users", "sentinel users"))
    with (tmp_path / "users.acl").open("a") as users:
        users.write(OPERATOR_RULE)
    return tmp_path, passwords
