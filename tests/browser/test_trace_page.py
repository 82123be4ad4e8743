"""The tree of a trace in a browser: live, long, reloaded in the middle, usable by all."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect

from envelope.events import CallState, ChildEnded, ChildSpawned, TitleSet, ToolCallChanged, TurnStarted
from envelope.ids import new_task_id
from envelope.lifecycle import State
from orchestrator.api.console import live

TASKS = 1000


async def fan_out(work, count: int, begin: int = 0) -> list[str]:
    ids = [new_task_id() for _ in range(count)]
    spawned = [
        ChildSpawned(child_task_id=each, agent="explore", title=f"look at {number:04}")
        for number, each in enumerate(ids, begin)
    ]
    for start in range(0, count, 250):
        await work.tell(*spawned[start : start + 250])
    return ids


async def test_a_thousand_tasks_are_seen_a_screenful_at_a_time_and_go_on_after_a_reload(console, visit):
    work = await console.work("fan out")
    ids = await fan_out(work, TASKS)
    page = await visit(work.trace)
    rows, tree = page.locator("#tree .row:visible"), page.locator(".tree.virtual")
    await tree.wait_for()

    assert await page.locator("#tree .row").count() < 100
    await tree.press("End")
    await expect(page.get_by_text("look at 0999")).to_be_in_viewport()
    await expect(page.locator("#tree :focus")).to_have_attribute("href", f"/console/tasks/{ids[-1]}")
    await work.tell(ChildEnded(child_task_id=ids[-1], state=State.ERROR, error="the disk is full"))
    await expect(page.get_by_text("the disk is full")).to_be_visible()
    await expect(page.locator("#tree :focus")).to_have_attribute("href", f"/console/tasks/{ids[-1]}")

    await page.get_by_label("Search in the tree").fill("explore 0042")
    await expect(rows).to_have_count(1)
    await page.get_by_label("Search in the tree").fill("error")
    await expect(rows).to_have_count(1)
    await page.get_by_label("Search in the tree").fill("")

    await page.context.set_offline(True)
    await work.tell(TitleSet(title="While nobody listened"))
    await page.context.set_offline(False)
    await fan_out(work, 1, begin=TASKS)
    reloading = asyncio.create_task(page.reload())
    await fan_out(work, 1, begin=TASKS + 1)
    await reloading
    await fan_out(work, 1, begin=TASKS + 2)
    await expect(page.locator("#trace-head")).to_contain_text(f"{TASKS + 4} tasks")
    await tree.press("End")
    await expect(page.get_by_text(f"look at {TASKS + 2:04}")).to_be_in_viewport()
    await expect(page.get_by_text("While nobody listened").first).to_be_attached()


async def test_who_is_signed_out_in_the_middle_is_told_and_led_back(console, visit, monkeypatch):
    monkeypatch.setattr(live, "SILENCE_S", 0.2)
    work = await console.work("go on")
    page = await visit(work.trace)
    await page.locator(".tree.virtual").wait_for()

    console.tokens.revoke("viewer")

    await page.get_by_role("link", name="Load the page again").click()
    await expect(page.get_by_label("Token")).to_be_visible()
    assert f"to=/console{work.trace}" in page.url


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_trace_is_usable_by_all(console, visit, axe, picture, scheme):
    work = await console.work("Replace deprecated calls")
    ids = await fan_out(work, 6)
    await work.tell(
        TurnStarted(turn=1, model="openai/gpt-5"),
        ToolCallChanged(call_id="1", tool="bash", state=CallState.RUNNING, title="python -m pytest -q"),
        *(ChildEnded(child_task_id=each, state=State.COMPLETED, cost_microusd=12_000) for each in ids[:3]),
        ChildEnded(child_task_id=ids[3], state=State.ERROR, error="nobody answers"),
    )
    page = await visit(work.trace, who="admin", color_scheme=scheme)
    await page.locator(".tree.virtual").wait_for()
    await page.get_by_text("Do something").click()

    assert await axe(page) == []
    await page.get_by_text("Do something").click()
    await picture(page, f"trace-{scheme}")
    await page.goto(f"{console.url}/console/traces")
    assert await axe(page) == []
    await picture(page, f"traces-{scheme}")


async def test_without_script_the_tree_is_paged_and_cancelled(console, visit):
    work = await console.work("fan out")
    await fan_out(work, 130)
    page = await visit(work.trace, who="submitter", java_script_enabled=False)
    await page.get_by_role("link", name="After").click()
    await expect(page.get_by_text("look at 0060")).to_be_visible()
    await page.get_by_text("Do something").click()
    await page.get_by_label("Stop it").fill("enough")
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_role("heading", name="fan out")).to_be_visible()
    assert (await console.stage.muster.record(work.lease.task_id)).cancel_reason == "enough"
