"""Batches from Python: what the page says runs as it stands, and what cannot be asked is said."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from envelope.agents import ModelPrice, WorkerCard
from orchestrator.batch.file import parse_batch
from orchestrator.batch.measured import Outlook
from orchestrator.cli.batch_file import _lines
from orchestrator.errors import BadInput, UnderWay
from orchestrator.publication.settings import ForgeSettings

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


PUBLISH = """[publish]
branch = "muster/new"
to = "request"
into = "main"
remote = "https://git.example.com/team/app.git"
forge = "ours"
max_open = 2
windows = ["mon-fri 08:00-12:00"]
"""


async def test_a_preview_says_where_it_goes_and_what_it_takes_by_earlier_runs(memory_stage, here, batch_text):
    forge = ForgeSettings(kind="gitea", url="https://git.example.com/api/v1", token_env="NOT_SET")
    muster = memory_stage.muster
    muster.settings = muster.settings.model_copy(update={"forges": {"ours": forge}})
    plan = await muster.batches.plan(parse_batch(batch_text + PUBLISH))
    before = await muster.batches.preview(plan)
    await memory_stage.run(await muster.batches.request(plan))
    after = await muster.batches.preview(plan)
    others = await muster.batches.preview(plan, tenant="elsewhere")

    assert before.outlook == others.outlook == Outlook()
    assert after.outlook.by == "1 earlier run" and after.outlook.low_s == after.outlook.high_s
    lines = [f"{name} {text}".strip() for name, text in _lines(after)]
    for line in (
        "publish a draft request into main for each repository that changed; only what is verified",
        "here to https://git.example.com/team/app.git",
        "while fewer than 2 of ours are open in a repository",
        "in the window mon-fri 08:00-12:00",
        "up to 24 more runs to find who makes it fail (merge.max_gate_runs)",
        "cost nothing: no model is asked",
        f"time about {after.outlook.low_s:g} to {after.outlook.high_s:g} s, by 1 earlier run",
    ):
        assert line in lines
    assert "time unknown" in [f"{name} {text}" for name, text in _lines(before)]


async def test_what_nobody_measured_is_told_by_a_models_price(memory_stage, here, batch_text):
    text = batch_text.replace('recipe = ["fix {path}"]', 'agent = "build"\nprompt = "Mend {path}"')
    plan = await memory_stage.muster.batches.plan(parse_batch(text))
    unknown = await memory_stage.muster.batches.preview(plan)
    price = ModelPrice(input_microusd=1_000_000, output_microusd=5_000_000)
    card = WorkerCard(worker="w", pool="build", slots=1, model="m", price=price)
    await memory_stage.transport.announce(card, ttl_s=60)
    known = await memory_stage.muster.batches.preview(plan)

    assert (unknown.outlook.low_microusd, known.outlook.by) == (None, "the price of m")
    assert 0 < known.outlook.low_microusd < known.outlook.high_microusd <= known.max_cost_microusd
    assert known.outlook.low_s is None
