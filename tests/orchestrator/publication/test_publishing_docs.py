"""The examples of docs/publishing.md are read as they stand there; goals, which a batch's tests do not meet."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from envelope.agents import AgentCard
from envelope.messages import Workspace
from orchestrator.batch.file import parse_batch
from orchestrator.errors import BadBatchFile, BadInput
from orchestrator.publication.changes import changes_of
from orchestrator.publication.terms import Form, Terms
from orchestrator.settings import load_settings
from orchestrator.submit import goal_request

PAGE = (Path(__file__).parents[3] / "docs" / "publishing.md").read_text()
BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))


def blocks() -> list[str]:
    return re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def test_the_forges_settings_are_read(keep_settings, tmp_path, monkeypatch):
    file = tmp_path / "config.toml"
    file.write_text(blocks()[0])
    monkeypatch.setenv("MUSTER_CONFIG", str(file))
    forge = load_settings().forges["work"]

    assert (forge.kind, forge.git_host, forge.max_open_per_owner) == ("gitlab", "gitlab.example.com", 20)
    every = tomllib.loads(re.sub("^# ", "", blocks()[0], flags=re.MULTILINE))["forges"]["work"]
    assert {"host", "ca_file"} < every.keys() <= set(type(forge).model_fields)


def test_the_batch_files_table_is_read(batch_text):
    publish = parse_batch(batch_text + blocks()[1], name="batch.toml").publish

    assert publish and (publish.to, publish.into, publish.max_open, len(publish.windows)) == (
        Form.REQUEST,
        "main",
        1,
        2,
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('windows = ["always"]', "is no window"),
        ('windw = ["09:00-10:00"]', "did you mean 'windows'"),
        ('to = "requests"', "'request'"),
        ("max_open = 0", "greater than 0"),
        ('remote = "-oProxyCommand=x"', "remote"),
    ],
)
def test_what_is_wrong_in_it_is_said(batch_text, line, told):
    with pytest.raises(BadBatchFile) as wrong:
        parse_batch(f'{batch_text}[publish]\nbranch = "x"\n{line}\n', name="batch.toml")
    assert told in f"{wrong.value} {wrong.value.hint}"


async def test_a_goal_is_published_with_what_proved_it(memory_stage):
    given = await memory_stage.repository({"a.py": "old\n", "t.py": "assert\n"})
    workspace = Workspace(bundle=given.bundle, base=given.base)
    settings = memory_stage.muster.settings
    memory_stage.builders.edit = lambda _task, files: files.update({"a.py": "new\n"})
    asked = goal_request("Make it new", agent=BUILD, settings=settings, workspace=workspace, gate=("run-tests",))
    result = await memory_stage.run(asked)
    [change] = await changes_of(memory_stage.muster, result.task_id)
    memory_stage.builders.edit = lambda _task, _files: None
    nothing = await memory_stage.run(goal_request("Nothing", agent=BUILD, settings=settings, workspace=workspace))

    assert (change.title, change.branch) == ("Make it new", f"muster/{result.task_id[-8:]}")
    assert change.commit == result.output.structured["commit"] and change.base == given.base
    assert [(gate.phase, gate.tests) for gate in change.facts.gates] == [("before", 1), ("after", 1)]
    assert change.may_go(Terms(to=Form.REQUEST))
    with pytest.raises(BadInput, match="has changed nothing"):
        await changes_of(memory_stage.muster, nothing.task_id)
