"""Tasks that are recorded, whose work is the same in several files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from envelope.messages import TaskInput, TaskRequest, Workspace

SCOPE = ("read:**", "list:**", "glob:**", "grep:**", "edit:src/**", "bash:**", "task:**")
WORKS = r"""
rules:
  - {when: {prompt_contains: look, turn: 1}, reply: {text: "X is 1"}}
  - when: {turn: 1}
    reply:
      tool_calls:
        - {name: read, arguments: {filePath: src/other.py}}
        - {name: task, arguments: {description: look, prompt: look, subagent_type: explore}}
        - {name: read, arguments: {filePath: nowhere.py}}
  - when: {turn: 2}
    reply: {tool_calls: [{name: edit, arguments: {filePath: src/other.py, oldString: "X = 1", newString: "X = 2"}}]}
  - {when: {turn: 3}, reply: {text: "${result.1} ${result.3}"}}
"""


@pytest.fixture(scope="session")
def works() -> str:
    """A model that reads, asks a subagent, fails once, and changes a file: four answers in three turns."""
    return WORKS


@pytest.fixture
def asked(workspace: Workspace) -> Callable[..., TaskRequest]:
    """`asked(hands, "do it")`: a request that is recorded; or with other `params`, and other fields."""

    def request(hands: Any, prompt: str, *, params: Mapping[str, Any] | None = None, **fields: Any) -> TaskRequest:
        given = TaskInput(prompt=prompt, params=dict(params or {"record": True}))
        told = {"agent": "build", "auth_scope": SCOPE, "workspace": workspace, "input": given}
        return hands.request(**{**told, **fields})

    return request
