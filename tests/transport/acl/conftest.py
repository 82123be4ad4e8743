"""Servers with the roles of helm/muster/files/users.acl, rendered as docs/redis.md says, and fleets on them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
from lab.programs import SERVERS, server_program
from lab.users import OPERATOR, OPERATOR_RULE, documented_users

from envelope.events import AskOpened, Event
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator.asks import OpenAsk, open_asks
from transport import approvals, keyring
from transport.base import Claim, Wait
from transport.keyring import fresh
from transport.keys import CellKeys
from transport.limits import Limits
from transport.redis import connect_redis
from workers.delivery.people import QueuedPeople
from workers.permissions.guard import Guard
from workers.tools.people import Asked

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


SHOWN = AskOpened(ask_id="", permission="bash", patterns=("rm -rf build",), detail="rm -rf build")


@dataclass
class Scene:
    """A task that waits for a person's word, and somebody with its worker's password."""

    owner: Any
    worker: Any
    thief: Any  # a fleet over the worker's user, with a keyring of its own
    raw: Any  # the same as a bare connection
    claim: Claim
    people: QueuedPeople
    asked: Asked
    told: list[Event] = field(default_factory=list[Event])

    @property
    def task_id(self) -> str:
        return self.claim.lease.task_id

    @property
    def ask(self) -> AskOpened:
        return self.asked.asks[0]

    @property
    def answers(self) -> str:
        return CellKeys("main", 0).name("answers", self.task_id)

    def forge(self, ask_id: str, **fields: Any) -> None:
        answer = {"text": "once", "by": "alice", "at_ms": 1, **fields}
        self.raw.hset(self.answers, ask_id, json.dumps(answer))

    async def waits(self) -> None:
        """The ask is told, and its task parked, as by a worker."""
        lease = self.claim.lease
        progress = TaskProgress(
            trace_id=lease.trace_id,
            task_id=lease.task_id,
            attempt=lease.attempt,
            seq=0,
            at_ms=0,
            status=State.RUNNING,
            events=(self.ask,),
        )
        await self.worker.transport.emit(lease, progress)
        assert await self.worker.transport.park(lease, Wait(asks=frozenset({self.ask.ask_id})))

    async def open(self) -> OpenAsk:
        [one] = await open_asks(self.owner.transport)
        return one

    async def said(self) -> Any:
        return (await self.people.said(self.asked.asks)).get(self.ask.ask_id)


@pytest.fixture
async def scene(as_role: Any, acl_server: Any) -> AsyncIterator[Scene]:
    owner, worker = [await as_role(role) for role in ("orchestrator", "worker")]
    stolen = await connect_redis(acl_server.url("worker"), keyring=keyring.fresh())
    await owner.submit()
    claim = await worker.claim_one()
    told: list[Event] = []
    people = QueuedPeople(worker.transport, claim, Guard.__new__(Guard), 60_000, told.append)
    asked = await people.asked("call-1", [SHOWN], title="bash")
    with acl_server.connect("worker") as raw:
        yield Scene(owner, worker, stolen, raw, claim, people, asked, told)
    await stolen.close()
