"""The examples of the page on subagents are what they claim to be."""

from __future__ import annotations

import json
import re
from pathlib import Path

from workers.settings import WorkerSettings
from workers.subagents.children import DEADLINE_SHARE, PARK_AFTER_S
from workers.subagents.room import MAX_IN_FLIGHT
from workers.tools.background import Background, started
from workers.tools.schema import first_fault
from workers.tools.task import Task

PAGE = (Path(__file__).parent.parent.parent / "docs" / "agents" / "task.md").read_text()


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)\n^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_calls_are_calls_of_the_tool():
    calls = [json.loads(example) for example in examples("json")]

    assert [first_fault(Task({}).parameters, call) for call in calls] == [None, None]
    assert [call.get("background", False) for call in calls] == [False, True]


def test_the_answer_of_a_call_in_the_background_is_that_of_the_page():
    [answer] = examples("xml")

    assert started(Background("ID", "ID", "general", "write the tests")).content == answer


def test_the_numbers_are_those_of_the_code():
    assert f"longer than {PARK_AFTER_S:.0f} s" in PAGE and f"{MAX_IN_FLIGHT} under way" in PAGE
    assert DEADLINE_SHARE == 0.9
    assert "by default: subagents start none" in PAGE and WorkerSettings.model_fields["subagent_depth"].default == 1
