"""The console of a real fleet: workers, sandboxes, a loopback model; three explores watched, the change seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.docker, pytest.mark.acceptance]

SCRIPT = """
rules:
  - when: {prompt_contains: lead, turn: 1}
    reply:
      tool_calls:
        - {name: task, arguments: {description: Find callers, prompt: look, subagent_type: explore}}
        - {name: task, arguments: {description: Find tests, prompt: look, subagent_type: explore}}
        - {name: task, arguments: {description: Find checks, prompt: look, subagent_type: explore}}
  - when: {prompt_contains: lead, turn: 2}
    reply: {tool_calls: [{name: write, arguments: {filePath: /workspace/notes.txt, content: "what was found\\n"}}]}
  - {when: {prompt_contains: lead}, reply: {text: I wrote it down.}}
  - {reply: {text: It is in more.py.}}
"""


async def test_three_explores_are_watched_and_the_change_is_seen(real, tmp_path: Path):
    (tmp_path / "script.yaml").write_text(SCRIPT)
    fleet = await real(tmp_path / "script.yaml")
    await fleet.muster("run", "lead", "--repo", "more-itertools", "--detach")
    page = await fleet.visit("/traces")
    page.set_default_timeout(100_000)
    await page.get_by_role("link", name="lead").first.click()

    for title in ("Find callers", "Find tests", "Find checks"):
        await page.get_by_text(title).wait_for()
    await expect(page.locator("#trace-head")).to_contain_text("5 completed", timeout=100_000)
    await page.locator("#tree").get_by_role("link", name="build").click()
    await page.get_by_role("link", name="1 file, +1 −0").click()
    await expect(page.get_by_text("what was found")).to_be_visible()
