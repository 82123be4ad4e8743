"""A fleet is saved, its machine is lost, and another one goes on: by the very commands of docs/operations.md."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import Output, TaskInput, TaskRequest, TaskResult
from tests.conftest import RedisProcess, StartRedis, free_port
from transport import keyring
from transport.base import Transport
from transport.blobs.place import open_blobs
from transport.limits import Limits
from transport.redis import connect_redis

pytestmark = pytest.mark.redis

PAGE = Path(__file__).parent.parent.parent / "docs" / "operations.md"
POOL = "general"


def commands(block: str, **yours: object) -> str:
    """A block of the page, with values of the tests' own in place of those that it says are yours."""
    found = re.search(rf"<!-- tests: {block} -->\n```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    lines = [line for line in found[1].splitlines() if not line.endswith("# yours")]
    return "\n".join([*(f"{name}={value}" for name, value in yours.items()), *lines])


def run(script: str, folder: Path) -> None:
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, check=True, timeout=60)


def request(trace_id: str, text: str) -> TaskRequest:
    return TaskRequest(
        task_id=new_task_id(), trace_id=trace_id, sender="test", recipient=POOL, agent="general",
        input=TaskInput(prompt=text), deadline_ms=3_600_000, created_at_ms=time.time_ns() // 1_000_000,
    )  # fmt: skip


async def connected(server: RedisProcess, folder: Path) -> Transport:
    limits = Limits(lease_ms=1_000)
    return await connect_redis(
        f"redis://127.0.0.1:{server.port}/0", keyring=keyring.load_or_create(folder / "keyring.json"), limits=limits,
        large_blobs=open_blobs(str(folder / "blobs"), retention_ms=limits.retention_ms),
    )  # fmt: skip


async def test_a_restored_fleet_has_every_task_and_blob_and_goes_on(
    start_redis: StartRedis, full_redis: Path, tmp_path: Path
):
    lost, saved, fresh = (tmp_path / name for name in ("lost", "saved", "fresh"))
    for folder in (lost, saved, fresh):
        folder.mkdir()
    server = start_redis("--appendonly", "yes")
    transport = await connected(server, lost)
    trace_id = new_trace_id()
    tasks = [request(trace_id, f"task {number}") for number in range(6)]
    await transport.submit(tasks)
    digest = await transport.blobs.put(b"what an agent wrote " * 10_000)
    done, running = (await transport.claim(POOL, "old", slots=2, wait_s=0))[:2]
    ended = TaskResult(
        trace_id=trace_id, task_id=done.lease.task_id, attempt=done.lease.attempt, status=State.COMPLETED,
        output=Output(text="kept"),
    )  # fmt: skip
    await transport.finish(done.lease, ended)

    run(commands("backup", port=server.port, blobs=lost / "blobs", keyring=lost / "keyring.json"), saved)
    late = request(trace_id, "submitted after the backup")
    await transport.submit([late])
    await transport.close()
    server.kill()
    shutil.rmtree(lost)

    port = free_port()
    start = f'start_redis() {{ {full_redis} --port {port} --daemonize yes --save "" "$@" > /dev/null; }}'
    until_up = f"until redis-cli -p {port} ping 2> /dev/null | grep -q PONG; do :; done"
    script = commands("restore", data=fresh, port=port, blobs=fresh / "blobs", keyring=fresh / "keyring.json")
    (fresh / "blobs").mkdir()
    lines = script.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("start_redis"))
    try:
        run("\n".join([start, *lines[: at + 1], until_up, *lines[at + 1 :]]), saved)
    finally:
        subprocess.run(["redis-cli", "-p", str(port), "shutdown", "nosave"], check=False, timeout=30)

    again = RedisProcess(full_redis, fresh, ["--appendonly", "yes"])  # from its append-only file alone
    (fresh / "dump.rdb").unlink()
    again.start()
    try:
        transport = await connected(again, fresh)
        assert await transport.blobs.get(digest) == b"what an agent wrote " * 10_000
        records = {record.task_id: record for record in await transport.tasks(trace_id=trace_id)}
        assert set(records) == {task.task_id for task in tasks}  # the late one came after the backup
        assert records[done.lease.task_id].state is State.COMPLETED
        seen: set[str] = set()
        while len(seen) < 5:
            for claim in await transport.claim(POOL, "new", slots=10, wait_s=5):
                seen.add(claim.lease.task_id)
                if claim.lease.task_id == running.lease.task_id:
                    assert claim.lease.attempt == 2  # its worker was lost with the machine
        assert seen == {task.task_id for task in tasks} - {done.lease.task_id}
        await transport.close()
    finally:
        again.kill()
