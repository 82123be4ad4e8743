"""The tree of a trace in a browser: live, long, reloaded in the middle, usable by all."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect

from envelope.events import CallState, ChildEnded, ChildSpawned, PlanChanged, TitleSet, ToolCallChanged, TurnStarted
from envelope.ids import new_task_id
from envelope.lifecycle import State
from envelope.messages import FileStat, Output, PatchRef
from envelope.plan import Plan, PlanStep, StepStatus
from orchestrator.api.console import live

TASKS = 1000
PLAN = Plan(
    goal="No naive time anywhere",
    version=2,
    steps=(
        PlanStep(step_id="look", title="Find the calls", goal="", agent="explore", status=StepStatus.DONE),
        PlanStep(step_id="mend", title="Give each a zone", goal="", agent="build", status=StepStatus.RUNNING),
        PlanStep(step_id="prove", title="Run the tests", goal="", agent="build", depends_on=("mend",)),
    ),
)


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

    await console.tokens.revoke("viewer")

    await page.get_by_role("link", name="Load the page again").click()
    await expect(page.get_by_label("Token")).to_be_visible()
    assert f"to=/console{work.trace}" in page.url


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_trace_is_usable_by_all(console, visit, axe, picture, on_a_phone, scheme):
    work = await console.work("Replace deprecated calls")
    ids = await fan_out(work, 6)
    await work.tell(
        TurnStarted(turn=1, model="openai/gpt-5"),
        PlanChanged(plan=PLAN),
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
    await on_a_phone(page, "trace-phone" if scheme == "light" else "")
    await page.goto(f"{console.url}/console/traces")
    assert await axe(page) == []
    await picture(page, f"traces-{scheme}")
    await on_a_phone(page)


async def test_the_plan_and_what_came_of_it_are_there_as_they_come(console, visit):
    work = await console.work("Replace deprecated calls")
    page = await visit(work.trace)
    await work.tell(PlanChanged(plan=PLAN))
    plan = page.locator("#plan")
    await expect(plan).to_contain_text("1 of 3 steps done")
    await plan.locator("summary").click()  # it stays closed
    ended = {"status": StepStatus.DONE, "outcome": "<b>as it should</b>"}
    steps = (*PLAN.steps[:2], PLAN.steps[2].model_copy(update=ended))
    await work.tell(PlanChanged(plan=PLAN.model_copy(update={"version": 3, "steps": steps})))
    await expect(plan).to_contain_text("2 of 3 steps done")
    await expect(plan.get_by_text("<b>as it should</b>")).to_be_hidden()
    await plan.locator("summary").click()
    await expect(plan.get_by_text("<b>as it should</b>")).to_be_visible()

    files = (FileStat(path="a.py", status="M", added=2, removed=1),)
    patch = PatchRef(base="0" * 40, diff="sha256:" + "0" * 64, files=files, added=2, removed=1, tree="1" * 40)
    await work.end(patch=patch, output=Output(text="Each has a zone now."))
    await expect(page.get_by_text("Each has a zone now.")).to_be_visible()
    await expect(page.get_by_role("link", name="1 file, +2 −1")).to_be_visible()


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
