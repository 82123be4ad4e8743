"""A master, its replica and a sentinel that let nobody in without a role, as docs/redis.md sets them up."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest
import redis
from lab.programs import OF_NEXT_DEBIAN, server_program, soak_only

from envelope.lifecycle import State
from transport.errors import Misconfigured
from transport.keyring import fresh
from transport.redis import connect_redis

pytestmark = pytest.mark.redis

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "redis.md"


def documented_rules(folder: Path, password: str, port: int) -> str:
    """The page's sentinel.conf, for a quorum of one."""
    (text,) = re.findall(r"```\n(aclfile .*?)```", PAGE.read_text(), re.DOTALL)
    changes = {"/etc/redis": str(folder), "10.0.0.7 6379 2": f"127.0.0.1 {port} 1", "PASSWORD": password, "5000": "500"}
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture(params=("redis-7.0", pytest.param("valkey-9.1", marks=soak_only), *OF_NEXT_DEBIAN))
def watched(request: Any, start_redis: Any, sentinel_files: tuple[Path, dict[str, str]]) -> tuple[Any, Any, Any]:
    folder, passwords = sentinel_files
    start = functools.partial(start_redis, program=server_program(request.param))
    options = ["--aclfile", str(folder / "users.acl"), "--appendonly", "yes", "--repl-diskless-sync-delay", "0"]
    options += ["--masteruser", "muster-replica", "--masterauth", passwords["replica"]]
    master = start(*options)
    replica = start(*options, "--replicaof", f"127.0.0.1 {master.port}")
    replica.wait_for("<-> REPLICA sync: Finished with success")  # Valkey says PRIMARY
    sentinel = start(sentinel=documented_rules(folder, passwords["sentinel"], master.port))
    sentinel.wait_for("+slave")
    return master, replica, sentinel


def denied_on(*servers: Any) -> list[Any]:
    found: list[Any] = []
    for server in servers:
        with redis.Redis(port=server.port, username="operator", password="operator") as operator:
            found += operator.acl_log()
    return found


async def test_a_fleet_goes_on_after_a_failover_and_nobody_was_refused(
    watched: Any, sentinel_files: Any, make_memory_fleet: Any
):
    master, replica, sentinel = watched
    _, passwords = sentinel_files
    kind = type(await make_memory_fleet())

    def url(role: str) -> str:
        return f"redis+sentinel://muster-main-{role}:{passwords[role]}@127.0.0.1:{sentinel.port}/fleet/0"

    keys = fresh()
    people = kind(await connect_redis(url("orchestrator"), keyring=keys))
    worker = kind(await connect_redis(url("worker"), keyring=keys))
    first = await people.submit()
    await worker.finish(await worker.claim_one())
    with redis.Redis(port=master.port, username="operator", password="operator") as operator:
        operator.set("after the result", 1)  # WAIT asks for the writes of its own connection, and all before them
        assert operator.wait(1, 10_000) == 1

    master.kill()
    sentinel.wait_for("+switch-master")

    second = await people.submit()
    await worker.finish(await worker.claim_one())
    assert {(await people.ended(task.task_id)).status for task in (first, second)} == {State.COMPLETED}
    assert denied_on(replica) == []
    await people.transport.close()
    await worker.transport.close()


async def test_a_sentinel_answers_no_stranger(watched: Any):
    sentinel = watched[2]

    with pytest.raises(Misconfigured):
        await connect_redis(f"redis+sentinel://127.0.0.1:{sentinel.port}/fleet/0", keyring=fresh())


@pytest.mark.parametrize("command", [["SENTINEL", "FAILOVER", "fleet"], ["SENTINEL", "REMOVE", "fleet"], ["SHUTDOWN"]])
async def test_a_worker_asks_a_sentinel_for_the_master_and_for_nothing_else(
    watched: Any, sentinel_files: Any, command: list[str]
):
    name, password = "muster-main-worker", sentinel_files[1]["worker"]
    with redis.Redis(port=watched[2].port, username=name, password=password) as sentinel:
        assert sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "fleet")
        with pytest.raises(redis.exceptions.NoPermissionError):
            sentinel.execute_command(*command)
