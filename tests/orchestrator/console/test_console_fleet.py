"""The fleet's page and its dead letters: whose are seen, and who may do something about them."""

from __future__ import annotations

import pytest

from envelope.errors import ErrorCode
from envelope.events import AskOpened, BudgetReached
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


async def test_the_fleet_tells_how_many_wait_for_people_and_for_money(console):
    before = (await console.get("/console/")).text
    for ask_id in ("ask_1", "ask_2"):
        await (await console.work("ask")).ask(AskOpened(ask_id=ask_id, permission="question", question="Which?"))
    for cap in (1_000_000, 2_000_000):
        work = await console.work("spend")
        stop = BudgetReached(limit="cost", whose="task", spent=cap, allowed=cap)
        await work.tell(stop)
        await work.tell(status=State.WAITING)
        seen = (await console.get("/console/")).text

    assert "for somebody" not in before and "for money" not in before
    assert "2 asks wait for somebody" in seen and "2 tasks wait for money" in seen


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
