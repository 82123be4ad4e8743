"""A server that is killed and started again, with the users and settings that we ship, has every key that it had."""

from __future__ import annotations

import re
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from lab.checks import violations
from lab.crew import Crew
from lab.fleet import MakeFleet
from lab.job import Job, request
from lab.pair import sentinel_pair
from lab.processes import Nursery, Program
from lab.programs import FORGETFUL, SERVERS, server_program
from lab.reader import read_history
from lab.schedule import SOAK
from lab.server import Server, redis_server
from lab.users import ROOT, lab_users
from lab.waiting import results, running

from envelope.ids import new_trace_id
from transport.base import Transport
from transport.errors import Misconfigured

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

RUNBOOK = ROOT / "docs" / "runbooks" / "RedisForgotTasks.md"
OLD_DEFAULT = "user default off resetpass resetkeys resetchannels -@all"  # as releases before this one had it
EXPIRES_WITHIN_MS = 1_000
UNSERVED = "explore"

# Not DUMP: how a value is laid out in memory differs between one that grew and one that was loaded.
READ: Mapping[bytes, tuple[Any, ...]] = {
    b"hash": ("HGETALL",), b"list": ("LRANGE", 0, -1), b"set": ("SMEMBERS",), b"stream": ("XRANGE", "-", "+"),
    b"string": ("GET",), b"zset": ("ZRANGE", 0, -1, "WITHSCORES"),
}  # fmt: skip


def contents(server: Server) -> dict[bytes, tuple[Any, int]]:
    """Every key with its value, and the server's time at which it expires; 0: never."""
    found: dict[bytes, tuple[Any, int]] = {}
    for key in server.call("KEYS", "*"):
        command, *arguments = READ[server.call("TYPE", key)]
        value = server.call(command, key, *arguments)
        left_ms = server.call("PTTL", key)
        seconds, micros = server.call("TIME")
        found[key] = (value, 0 if left_ms < 0 else seconds * 1000 + micros // 1000 + left_ms)
    return found


def differences(before: Mapping[bytes, tuple[Any, int]], after: Mapping[bytes, tuple[Any, int]]) -> list[str]:
    """Keys that are not the same; the times may differ by what a look takes."""
    found = [f"{key!r} is on one side only" for key in before.keys() ^ after.keys()]
    for key in before.keys() & after.keys():
        (value, expires_ms), (value_after, expires_after_ms) = before[key], after[key]
        if value != value_after:
            found.append(f"{key!r} was {value!r}, is {value_after!r}")
        if abs(expires_ms - expires_after_ms) > EXPIRES_WITHIN_MS:
            found.append(f"{key!r} expired at {expires_ms}, expires at {expires_after_ms}")
    return found


async def submit_all_sorts(transport: Transport) -> list[str]:
    """Tasks that run, that wait in line or for children, and that end; returns when ten run."""
    child, slow, trace_id = Job(turns_ms=(100,)).plain(), Job(turns_ms=(200,) * 5, cost_microusd=1), new_trace_id()
    tasks = [request(slow, trace_id=trace_id) for _ in range(10)]
    tasks += [request(Job(turns_ms=(100, 100), children=(child,) * 3, parks=True), key=f"{n}") for n in range(10)]
    tasks += [request(Job(turns_ms=(50,)), tenant=f"t{n % 3}") for n in range(20)]
    tasks += [request(Job(), recipient=UNSERVED, deadline_ms=60_000) for _ in range(3)]
    await transport.submit(tasks)
    await running(transport, trace_id, 10)
    return [task.task_id for task in tasks if task.recipient != UNSERVED]


async def frozen(server: Server, programs: list[Program]) -> dict[bytes, tuple[Any, int]]:
    """The server's keys, once all programs stand still."""
    for program in programs:
        program.pause()
    return contents(server)


@pytest.mark.parametrize("name", SERVERS)
async def test_a_killed_server_comes_back_with_every_key_and_every_task_ends_once(
    name: str, make_fleet: MakeFleet, nursery: Nursery, folder: Path
) -> None:
    async with redis_server(folder / name, program=server_program(name)) as server:
        fleet = make_fleet(url=server.url)
        async with fleet.connected() as transport, Crew(nursery, fleet, 3, slots=6) as crew:
            await crew.whole()
            task_ids = await submit_all_sorts(transport)
            before = await frozen(server, crew.workers)

            await server.kill()
            await server.start()

            after = contents(server)
            for worker in crew.workers:
                worker.resume()
            ended = await results(transport, task_ids)
        history = await read_history(fleet)
    assert len(before) > 100
    assert differences(before, after) == []
    assert len(ended) == len(task_ids)
    assert violations(history) == []


async def test_the_server_that_we_ship_now_reads_what_an_older_one_wrote(make_fleet: MakeFleet, folder: Path) -> None:
    """As when the chart or Compose is upgraded: another program, on the same files."""
    async with redis_server(folder / "data", program=server_program("redis-7.0")) as old:
        async with make_fleet(url=old.url).connected() as transport:
            await transport.submit([request(Job(), recipient=UNSERVED, deadline_ms=60_000) for _ in range(20)])
        before = contents(old)
        await old.kill()
        new = Server(folder / "data", old.port, program=server_program("valkey-9.1"))
        try:
            await new.start()
            after = contents(new)
        finally:
            await new.stop()
    assert len(before) > 20
    assert differences(before, after) == []


@pytest.mark.skipif(not SOAK, reason="MUSTER_CHAOS=soak is not set")
async def test_a_replica_that_took_over_comes_back_with_every_key_when_it_is_killed_too(
    make_fleet: MakeFleet, nursery: Nursery, folder: Path, full_redis: Path
) -> None:
    """Its append-only file holds what came from its master, and the same users load it."""
    async with sentinel_pair(folder, full_redis) as pair:
        fleet = make_fleet(url=pair.url)
        async with fleet.connected() as transport, Crew(nursery, fleet, 3, slots=6) as crew:
            await crew.whole()
            task_ids = await submit_all_sorts(transport)
            before = await frozen(pair.master, crew.workers)
            pair.master.call("SET", "last", 1)  # WAIT is about what its own connection wrote
            assert pair.master.call("WAIT", 1, 10_000) == 1
            await pair.fail_over()

            await pair.replica.kill()
            await pair.replica.start()

            after = contents(pair.replica)
            for worker in crew.workers:
                worker.resume()
            assert len(await results(transport, task_ids)) == len(task_ids)
        history = await read_history(fleet.through(pair.replica.url))
    assert after.pop(b"last") == (b"1", 0)
    assert differences(before, after) == []
    assert violations(history) == []


# -- those that were hit


def step(name: str) -> str:
    """The commands of one step of the runbook."""
    [found] = re.findall(rf"<!-- tests: {name} -->\n *```sh\n(.*?)```", RUNBOOK.read_text(), re.DOTALL)
    return textwrap.dedent(found)


@pytest.mark.parametrize("name", FORGETFUL)
async def test_the_runbook_brings_back_what_a_server_forgot(
    name: str, make_fleet: MakeFleet, nursery: Nursery, folder: Path
) -> None:
    users, log, data = folder / "users.acl", folder / "redis.log", folder / name
    users.write_text(lab_users().server_file.read_text())
    places = {"/etc/redis/users.acl": users, "/var/log/redis/redis-server.log": log, "/var/lib/redis": data}

    def follow(*names: str) -> str:
        log.write_text(server.said)
        commands = "\n".join(step(each) for each in names)
        for documented, here in places.items():
            commands = commands.replace(documented, str(here))
        commands = commands.replace(
            "REDISCLI_AUTH=$(cat reader.password) redis-cli -p 6379 --user muster-main-reader", f"redis-cli -u {reader}"
        )
        done = subprocess.run(["bash", "-c", commands], capture_output=True, text=True, check=True, timeout=30)
        return done.stdout

    async with redis_server(data, program=server_program(name), users=users) as server:
        reader = server.url_of("reader")
        fleet = make_fleet(url=server.url)
        async with fleet.connected() as transport, Crew(nursery, fleet, 3, slots=6) as crew:
            await crew.whole()
            task_ids = await submit_all_sorts(transport)
            before = await frozen(server, crew.workers)
            # nor may an older file's users ask what `default` may do
            older = re.sub("^user default .*", OLD_DEFAULT, users.read_text(), flags=re.MULTILINE)
            users.write_text(older.replace(" +acl|dryrun", ""))
            await server.kill()
            await server.start()
            left = contents(server)
            with pytest.raises(Misconfigured, match="may forget tasks"):
                await fleet.connect()
            # a program of an older release does not ask
            [late] = await transport.submit([request(Job(turns_ms=(50,)))])
            assert int(follow("look").split()[0]) > 0

            await server.kill()
            follow("look", "copy", "mend")
            await server.start()

            told, after = follow("look", "compare"), contents(server)
            for worker in crew.workers:
                worker.resume()
            ended = await results(transport, [*task_ids, late.task_id])

            await server.kill()
            users.write_text(lab_users().server_file.read_text())
            await server.start()
        history = await read_history(fleet)
    assert len(left) < len(before) < len(after)
    assert before.keys() <= after.keys()
    assert [key for key in before if b":task:" in key and before[key][0] != after[key][0]] == []
    assert "\n0\n" in told and f"keys={len(after)}" in told
    assert (data.with_name(f"{name}.before-recovery")).is_dir()
    assert len(ended) == len(task_ids) + 1
    assert violations(history) == []
