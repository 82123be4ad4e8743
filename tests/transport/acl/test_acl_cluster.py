"""The roles on every node of a cluster: finding the nodes, and four cells of a fleet, need no more rights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envelope.ids import new_trace_id
from envelope.lifecycle import State
from transport.keyring import fresh
from transport.redis import connect_redis

pytestmark = pytest.mark.redis


@pytest.fixture
def nodes(start_own_cluster: Any, sentinel_files: tuple[Path, Any]) -> list[Any]:
    masters = start_own_cluster()
    for user in (sentinel_files[0] / "users.acl").read_text().splitlines():
        _, name, *rules = user.split()
        for master in masters if name.startswith("muster-main") else []:
            assert master.command("ACL", "SETUSER", name, *rules) == "OK"
    return masters


async def test_tasks_blobs_and_figures_in_four_cells(nodes: Any, sentinel_files: Any, make_memory_fleet: Any):
    passwords, keys, kind = sentinel_files[1], fresh(), type(await make_memory_fleet())

    async def as_role(role: str) -> Any:
        url = f"redis+cluster://muster-main-{role}:{passwords[role]}@127.0.0.1:{nodes[0].port}"
        return kind(await connect_redis(url, keyring=keys, cells=4))

    people, worker, reader = [await as_role(role) for role in ("orchestrator", "worker", "reader")]
    traces = [new_trace_id() for _ in range(8)]
    tasks = [await people.submit(trace_id=trace) for trace in traces]
    assert sum(pool.ready for pool in await reader.transport.stats(["explore"])) == 8

    for _ in tasks:
        await worker.finish(await worker.claim_one())
    blobs = [await worker.transport.blobs.put(trace.encode()) for trace in traces]

    ended = [result.status async for result in people.transport.results([task.task_id for task in tasks])]
    assert ended == [State.COMPLETED] * 8
    assert [await people.transport.blobs.get(blob) for blob in blobs] == [trace.encode() for trace in traces]
    assert len(await reader.transport.tasks()) == 8
    assert [node.command("ACL", "LOG") for node in nodes] == [[], [], []]
    for fleet in (people, worker, reader):
        await fleet.transport.close()
