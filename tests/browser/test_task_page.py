"""A task in a browser: what is said comes as it streams, a reload in the middle loses nothing, all can use it."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from envelope.budget import Usage
from envelope.events import CallState, MessageAdded, TextDelta, TitleSet, ToolCallChanged, TurnFinished, TurnStarted
from envelope.messages import FileStat, PatchRef

DIFF = b"""diff --git a/src/report.py b/src/report.py
--- a/src/report.py
+++ b/src/report.py
@@ -3,5 +3,5 @@ import datetime
 def stamp():
-    now = datetime.datetime.utcnow()
+    zone = datetime.timezone.utc
+    now = datetime.datetime.now(zone)
     return now.isoformat()
-# old
 def day():
"""


async def test_what_is_said_streams_in_and_a_reload_loses_nothing(console, visit):
    work = await console.work("talk")
    await work.tell(TurnStarted(turn=1, model="m"), TextDelta(text="one "))
    page = await visit(work.task)
    said = page.locator("#blocks .said.text")
    await work.tell(TextDelta(text="two "))
    await expect(said).to_have_text("one two ")

    await page.reload(wait_until="commit")
    await work.tell(TextDelta(text="three "), ToolCallChanged(call_id="1", tool="bash", state=CallState.RUNNING))
    await expect(said).to_have_text("one two three ")
    call = page.locator("#blocks details.tool")
    await call.locator("summary").press("Enter")
    await work.tell(ToolCallChanged(call_id="1", tool="bash", state=CallState.COMPLETED, output="3 passed"))
    await expect(call.get_by_text("3 passed")).to_be_visible()
    await work.end()
    await expect(page.locator("#task-head")).to_contain_text("completed")
    await expect(page.locator("#connection")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_task_its_past_and_its_change_are_usable_by_all(console, visit, axe, picture, on_a_phone, scheme):
    work = await console.work("Replace the deprecated calls", budget={"max_cost_microusd": 2_000_000})
    bash = {"call_id": "1", "tool": "bash", "title": "python -m pytest -q", "input": {"command": "python -m pytest -q"}}
    await work.tell(
        TitleSet(title="Replace the deprecated utcnow() calls"),
        MessageAdded(role="user", text="Replace the deprecated datetime.utcnow() calls"),
        TurnStarted(turn=1, model="openai/gpt-5"),
        TextDelta(text="The calls are in `src/report.py`. I will give each a zone, then run the tests."),
        ToolCallChanged(**bash, state=CallState.COMPLETED, output="14 passed", started_at_ms=1, ended_at_ms=900),
        TurnFinished(turn=1, finish_reason="tool_calls", usage=Usage(input_tokens=8_200, output_tokens=410)),
    )
    diff = await console.stage.transport.blobs.put(DIFF)
    files = (FileStat(path="src/report.py", status="M", added=2, removed=1),)
    await work.end(patch=PatchRef(base="0" * 40, diff=diff, files=files, added=2, removed=1, tree="1" * 40))
    page = await visit(work.task, who="admin", color_scheme=scheme)
    await page.locator("details.tool summary").click()

    assert await axe(page) == []
    await picture(page, f"task-{scheme}")
    await on_a_phone(page)
    await page.get_by_label("Show it as it was after step").fill("1")
    await page.get_by_role("button", name="Show").click()
    assert await axe(page) == []
    await page.get_by_role("link", name="As it is now").click()
    await page.get_by_role("link", name="1 file, +2 −1").click()
    await expect(page.get_by_text("now = datetime.datetime.now(zone)")).to_be_visible()
    assert await axe(page) == []
    await picture(page, f"diff-{scheme}")
    await on_a_phone(page)
