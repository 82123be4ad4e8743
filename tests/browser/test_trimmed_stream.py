"""A page that comes back to a stream whose beginning is gone: it shows what is, as a page that is loaded anew does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from playwright.async_api import Page, expect
from starlette.routing import Mount
from visiting import Wire

from envelope.events import ChildSpawned, TextDelta, TurnStarted
from envelope.ids import new_task_id
from envelope.lifecycle import State
from envelope.messages import TaskRequest, TaskResult
from transport.limits import Limits

# A server trims in pages: by far more than it keeps, so that there is surely something to miss.
KEPT, WRITTEN = 10, 500


@pytest_asyncio.fixture(loop_scope="session")
async def console(make_console) -> AsyncIterator[Any]:
    """Of a fleet that forgets soon, and of a server that looks at nothing when nobody does; behind a `wire`."""
    async with make_console(limits=Limits(max_entries=KEPT)) as made:
        rooms_of(made).linger_s = 0.0
        made.wire = Wire(int(made.url.rpartition(":")[2]))
        await made.wire.mend()
        made.url = f"http://127.0.0.1:{made.wire.port}"
        yield made
        made.wire.cut()


def rooms_of(console: Any) -> Any:
    [inside] = [route.app for route in console.app.routes if isinstance(route, Mount)]
    return inside.state.rooms


async def lose_it(console: Any, page: Page) -> None:
    """The connection is gone, and both sides know it."""
    console.wire.cut()
    await expect(page.locator("#connection")).to_be_visible()
    async with asyncio.timeout(20):
        while rooms_of(console).open:
            await asyncio.sleep(0.01)


async def spawn(work: Any, title: str) -> None:
    """A child of the task, in line."""
    child = TaskRequest(
        task_id=new_task_id(),
        trace_id=work.lease.trace_id,
        parent_task_id=work.lease.task_id,
        sender="test",
        recipient="explore",
        agent="explore",
        intent=title,
        deadline_ms=60_000,
        created_at_ms=time.time_ns() // 1_000_000,
    )
    await work.transport.submit([child])
    await work.tell(ChildSpawned(child_task_id=child.task_id, agent="explore", title=title))


async def test_the_tree_is_right_after_its_stream_was_trimmed(console, visit):
    work = await console.work("fan out")
    await spawn(work, "look to the left")
    page = await visit(work.trace)
    await expect(page.locator(".tree.virtual .row", has_text="look to the left")).to_be_visible()

    await lose_it(console, page)
    [claim] = await work.transport.claim("explore", "w", slots=1, wait_s=5)
    place = {"trace_id": claim.lease.trace_id, "task_id": claim.lease.task_id, "attempt": claim.lease.attempt}
    await work.transport.finish(claim.lease, TaskResult(**place, status=State.COMPLETED))
    await spawn(work, "look to the right")
    for _ in range(WRITTEN):
        await work.tell(TextDelta(text="and on "))
    await console.wire.mend()

    await expect(page.locator("#trace-head")).to_contain_text("3 tasks")
    await expect(page.locator("#tree .row.completed", has_text="look to the left")).to_be_visible()
    await expect(page.locator("#tree .row.pending", has_text="look to the right")).to_be_visible()
    await expect(page.locator("#tree .row")).to_have_count(3)


async def test_what_a_task_said_is_right_after_its_stream_was_trimmed(console, visit):
    work = await console.work("talk")
    await work.tell(*(TurnStarted(turn=number) for number in range(1, 251)))
    page = await visit(work.task)
    await expect(page.locator("#blocks > div").last).to_have_text("turn 250")

    await lose_it(console, page)
    for number in range(251, 251 + WRITTEN):
        await work.tell(TurnStarted(turn=number))
    await console.wire.mend()

    await expect(page.locator("#blocks > div").last).to_have_text(f"turn {250 + WRITTEN}")
    await expect(page.get_by_text("turn 250", exact=True)).to_have_count(0)
    fresh = await visit(work.task)
    blocks = [each.locator("#blocks > div") for each in (page, fresh)]
    assert await blocks[0].all_inner_texts() == await blocks[1].all_inner_texts()
    await expect(page.get_by_text("earlier events are no longer kept")).to_be_visible()
