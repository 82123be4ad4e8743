"""What a key of the fleet's own stands for: all that decides what a worker does, and every field that comes."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from envelope.asks import AskTerms
from envelope.budget import Budget
from envelope.messages import Attachment, ContextRef, Priority, Signature, TaskInput, TaskRequest, Workspace
from envelope.work import BESIDE_WORK, key_of_work

ROOT = Path(__file__).parents[2]
BLOB, OTHER_BLOB = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
ID, OTHER_ID = "01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8058"
COMMIT = "c" * 40
BASE: dict[str, Any] = {
    "task_id": ID, "trace_id": "1" * 32, "sender": "api", "recipient": "explore", "agent": "review",
    "deadline_ms": 1_000, "created_at_ms": 1,
}  # fmt: skip

# Another value of every field: which of them are the work, `BESIDE_WORK` says.
REQUEST: dict[str, Any] = {
    "kind": "request",
    "schema_version": 2,
    "task_id": OTHER_ID,
    "trace_id": "2" * 32,
    "parent_task_id": OTHER_ID,
    "traceparent": f"00-{'1' * 32}-{'2' * 16}-01",
    "tracestate": "a=1",
    "sender": "cli",
    "recipient": "build",
    "agent": "explore",
    "intent": "look",
    "input": TaskInput(prompt="look"),
    "context_refs": (ContextRef(type="file", id="a.py"),),
    "attachments": (Attachment(blob=BLOB, name="a.png"),),
    "workspace": Workspace(url="https://git.example.com/other.git", base=COMMIT),
    "auth_scope": ("read:**",),
    "capabilities": ("read",),
    "budget": Budget(max_turns=1),
    "deadline_ms": 2_000,
    "idempotency_key": "k",
    "priority": Priority.HIGH,
    "tenant": "acme",
    "resume_token": OTHER_ID,
    "model": "m",
    "output_schema": {"type": "object"},
    "batch_id": "b",
    "retry_of": OTHER_ID,
    "asks": AskTerms(project="p"),
    "read_only": True,
    "created_at_ms": 2,
    "signature": Signature(key_id="k", mac=b"m"),
}
INPUT: dict[str, Any] = {"prompt": "look", "params": {"record": True}}
WORKSPACE: dict[str, Any] = {
    "url": "https://git.example.com/other.git",
    "bundle": BLOB,
    "path": "/elsewhere",
    "credentials": "deploy",
    "base": "main",
    "subpath": "src",
    "changes": OTHER_BLOB,
    "setup": ("pip install -e .",),
    "trusted": "-",
    "public": True,
}


def request(**fields: Any) -> TaskRequest:
    return TaskRequest.model_validate({**BASE, **fields})


def key(**fields: Any) -> str:
    return key_of_work(request(**fields))


def in_workspace(**fields: Any) -> str:
    told = {"url": "https://git.example.com/ours.git", "base": COMMIT, **fields}
    if fields.keys() & {"bundle", "path"}:
        del told["url"]
    return key(workspace=Workspace(**told))


@pytest.mark.parametrize("field", TaskRequest.model_fields)
def test_another_value_of_a_field_is_other_work_unless_it_is_named_with_a_reason(field: str):
    changed = request().model_copy(update={field: REQUEST[field]})

    assert (key_of_work(changed) == key()) is (field in BESIDE_WORK)


def test_only_fields_that_there_are_need_a_reason():
    assert BESIDE_WORK.keys() <= TaskRequest.model_fields.keys()
    assert all(BESIDE_WORK.values())


@pytest.mark.parametrize("field", TaskInput.model_fields)
def test_another_input_is_other_work(field: str):
    assert key(input=TaskInput(**{field: INPUT[field]})) != key()


@pytest.mark.parametrize("field", Workspace.model_fields)
def test_another_workspace_is_other_work(field: str):
    assert in_workspace(**{field: WORKSPACE[field]}) != in_workspace()


def test_bundles_of_one_commit_are_the_same_code_and_those_of_a_branch_are_not():
    assert in_workspace(bundle=BLOB) == in_workspace(bundle=OTHER_BLOB)
    assert in_workspace(bundle=BLOB, base="main") != in_workspace(bundle=OTHER_BLOB, base="main")
    # a commit's id in a branch's place, or the beginning of one, is no commit's id
    assert in_workspace(bundle=BLOB, base="c" * 39) != in_workspace(bundle=OTHER_BLOB, base="c" * 39)


def test_code_told_by_other_words_leaves_the_rest_of_the_workspace_as_it_is():
    def told(*code: str, **fields: Any) -> str:
        where = Workspace(**{"bundle": BLOB, "base": COMMIT, **fields})
        return key_of_work(request(workspace=where), code=code)

    assert told("a") == told("a", base="d" * 40) == told("a", bundle=OTHER_BLOB)
    assert len({told("a"), told("b"), told("a", "b"), told("a", changes=OTHER_BLOB), told("a", setup=("x",))}) == 5


# Who else makes a key of the fleet's own: of a task's id and a place in its work, or of another such key.
OF_A_TASK = {
    "orchestrator/goal_work.py": "request.task_id",
    "orchestrator/planner/asking.py": "request.task_id",
    "orchestrator/planner/survey.py": "known.root",
    "orchestrator/requeue.py": "task_id",
    "workers/subagents/children.py": "parent.task_id",
    "orchestrator/submit.py": "request.idempotency_key",
    "orchestrator/read_only.py": "key",
}


def test_a_key_is_made_of_the_whole_work_or_belongs_to_one_task():
    found: dict[str, set[str]] = {}
    for package in ("envelope", "transport", "repo", "sandbox", "workers", "orchestrator"):
        for file in (ROOT / package).rglob("*.py"):
            text = file.read_text()
            if "content_key(" in text:
                calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
                ours = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "content_key"]
                if ours:
                    said = {ast.unparse(argument) for call in ours for argument in call.args}
                    found[str(file.relative_to(ROOT))] = said
    assert found.pop("envelope/work.py")
    assert found.keys() == OF_A_TASK.keys()
    assert all(OF_A_TASK[file] in said for file, said in found.items())
