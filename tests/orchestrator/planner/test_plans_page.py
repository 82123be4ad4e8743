"""The Python of docs/plans.md, on a fleet whose planner and builders are played."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from envelope.agents import AgentCard, WorkerCard
from envelope.lifecycle import State
from envelope.messages import Output, TaskResult
from transport.consumer import Delivery

pytestmark = pytest.mark.redis

PAGE = (Path(__file__).parents[3] / "docs" / "plans.md").read_text()
AGENTS = (
    AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**")),
    AgentCard(name="plan", mode="primary", pool="general", auth_scope=("read:**",)),
)


async def planned(delivery: Delivery) -> TaskResult:
    step = {"step_id": "mend", "title": "Refuse it", "goal": "refuse it", "agent": "build"}
    lease = delivery.claim.lease
    return TaskResult(
        trace_id=lease.trace_id,
        task_id=lease.task_id,
        attempt=lease.attempt,
        status=State.COMPLETED,
        output=Output(structured={"steps": [step]}),
    )


async def test_the_goal_of_the_page_is_planned_and_done(served_stage, monkeypatch, capsys):
    stage, settings = served_stage, served_stage.muster.settings
    for name in ("redis_url", "fleet", "state_dir"):
        monkeypatch.setenv(f"MUSTER_{name.upper()}", str(getattr(settings, name)))
    await stage.transport.announce(WorkerCard(worker="w", pool="build", slots=1, agents=AGENTS), ttl_s=600)
    await stage.repository({"a.py": "assert\n"}, name="more-itertools")
    [root] = stage.folder.glob("more-itertools-*")
    root.rename(stage.folder / "more-itertools")
    monkeypatch.chdir(stage.folder)
    stage.builders.edit = lambda task, files: files.update({"a.py": "assert\nassert\n"})
    [snippet] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}

    async with stage.orchestrator(), stage.workers(), stage.serving("general", planned):
        await eval(compile(snippet, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)

    assert names["result"].output.structured["verified"] is True
    assert capsys.readouterr().out == f"{names['result'].task_id} 1 [('mend', 'done')]\n"
