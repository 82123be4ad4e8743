"""What every transport promises about listings of roots, held against each implementation."""

from __future__ import annotations

import pytest
from lab.waiting import past_the_moment

from transport.errors import Refused

CELLS = 1


async def walk(fleet, *, limit: int, tenant: str | None = None) -> list[str]:
    found, cursor = [], ""
    while True:
        page = await fleet.transport.roots(tenant=tenant, after=cursor, limit=limit)
        assert len(page.records) <= limit
        found += [record.task_id for record in page.records]
        if not (cursor := page.cursor):
            return found


async def test_a_tenants_roots_are_listed_latest_first_and_each_once(fleet):
    mine = [fleet.request(tenant="ann") for _ in range(7)]
    await fleet.transport.submit(mine[:5])  # accepted in one moment
    await fleet.transport.submit([*mine[5:], fleet.request(tenant="bob"), fleet.child(mine[0])])

    found = await walk(fleet, limit=3, tenant="ann")

    assert found == [record.task_id for record in (await fleet.transport.roots(tenant="ann")).records]
    assert sorted(found) == sorted(request.task_id for request in mine)
    assert len(await walk(fleet, limit=3)) == 8
    assert await walk(fleet, limit=3, tenant="nobody") == []


async def test_what_comes_while_somebody_reads_moves_nothing(fleet):
    old = [(await fleet.submit(tenant="ann")).task_id for _ in range(4)]
    first = await fleet.transport.roots(tenant="ann", limit=2)
    await past_the_moment(
        fleet.transport
    )  # roots of one millisecond stand in the order of their ids, which is none of time
    await fleet.submit(tenant="ann")
    rest = await fleet.transport.roots(tenant="ann", after=first.cursor, limit=10)

    assert sorted(record.task_id for record in (*first.records, *rest.records)) == sorted(old)
    assert rest.cursor == ""


@pytest.mark.parametrize("cursor", ["x", "1-", "1-*", "-" * 40, "1" * 40])
async def test_what_is_no_cursor_is_refused(fleet, cursor):
    with pytest.raises(Refused, match="cursor"):
        await fleet.transport.roots(after=cursor)
