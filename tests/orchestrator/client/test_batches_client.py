"""Batches from Python: what the page says runs as it stands, and what cannot be asked is said."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from orchestrator.batch.file import parse_batch
from orchestrator.errors import BadInput, UnderWay

PAGE = Path(__file__).parents[3] / "docs" / "client.md"
[SNIPPET] = [
    found for found in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "muster.batches" in found
]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A repository that paths of a batch are relative to."""
    (tmp_path / "here" / "src").mkdir(parents=True)
    (tmp_path / "here" / "src" / "a.py").write_text("old\nassert\n")
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *identity, *words], cwd=tmp_path / "here", check=True)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.redis
async def test_the_pages_batch_runs_as_it_stands(served_stage, here, batch_text, monkeypatch, capsys):
    settings = served_stage.muster.settings
    for name in ("redis_url", "fleet", "state_dir"):
        monkeypatch.setenv(f"MUSTER_{name.upper()}", str(getattr(settings, name)))
    async with served_stage.orchestrator(), served_stage.workers():
        await eval(compile(SNIPPET, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {"BATCH": batch_text})

    told = capsys.readouterr().out.splitlines()
    assert told[0] == "1 shards, at most 0" and told[1].startswith("True [('here', '")


async def test_a_batch_that_is_under_way_has_no_report_and_no_second_try(memory_stage, here, batch_text):
    batches = memory_stage.muster.batches
    plan = await batches.plan(parse_batch(batch_text))
    handle = await batches.submit(plan, tenant="team", sender="me")
    again = await batches.submit(plan, tenant="team")
    task = await memory_stage.muster.submit(agent="x", pool="build", deadline_ms=1_000, auth_scope=())

    assert again.task_id == handle.task_id and again.existing
    request = await memory_stage.muster.request(handle.task_id)
    assert (request.tenant, request.sender) == ("team", "me")
    for ask in (batches.report, batches.retry):
        with pytest.raises(UnderWay, match="is under way"):
            await ask(handle.task_id)
    with pytest.raises(BadInput, match="is no batch"):
        await batches.status(task.task_id)
    with pytest.raises(BadInput, match="is under way"):
        await batches.undone(handle.task_id)
