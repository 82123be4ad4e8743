"""The fleet's page and its dead letters: whose are seen, and who may do something about them."""

from __future__ import annotations

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import ErrorInfo


async def dead_one(console):
    work = await console.work("hopeless")
    result = {"errors": (ErrorInfo.of(ErrorCode.POISON, "three workers died of it"),)}
    await work.end(State.ERROR, dead="three workers died of it", **result)
    return work


async def test_the_fleet_tells_who_works_and_who_waits(console):
    await console.work("tidy up")
    page = (await console.get("/console/")).text
    for words in ("tidy up", "Workers", "build", "an hour", "1 worker"):
        assert words in page, words


async def test_dead_letters_are_counted_and_listed_for_their_tenant_alone(console):
    work = await dead_one(console)

    assert "</b> dead letters" in (await console.get("/console/")).text
    listed = (await console.get("/console/dead-letters", who="admin")).text
    assert "three workers died of it" in listed and work.lease.task_id in listed
    assert "dead letters</a>" not in (await console.get("/console/", who="stranger")).text
    assert work.lease.task_id not in (await console.get("/console/dead-letters", who="stranger")).text
    assert (await console.get("/console/dead-letters", who="approver")).status == 403


@pytest.mark.parametrize(("who", "status"), [("viewer", 403), ("submitter", 403), ("stranger", 404), ("admin", 303)])
async def test_operators_requeue_and_purge(console, who: str, status: int):
    work = await dead_one(console)
    place = f"/console/dead-letters/{work.lease.task_id}"

    again = await console.post(f"{place}/requeue", {}, who=who)
    purged = await console.post(f"{place}/purge", {}, who=who)

    assert (again.status, purged.status) == (status, status)
    if status == 303:
        new = again.headers["Location"].removeprefix("/console/tasks/")
        assert (await console.stage.muster.request(new)).retry_of == work.lease.task_id
