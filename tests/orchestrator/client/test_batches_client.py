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
from orchestrator.units import duration

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

    # the services here may log to the same output, if no test before has said otherwise
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("1 shards", "True "))]
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
    assert before.warnings == ("the forge 'ours' has no token here: put one where [forges.ours] says that it is",)
    assert after.outlook.by == "1 earlier run" and after.outlook.low_s == after.outlook.high_s
    lines = [f"{name} {text}".strip() for name, text in _lines(after)]
    for line in (
        "publish a draft request into main for each repository that changed; only what is verified",
        "here to https://git.example.com/team/app.git",
        "while fewer than 2 of ours are open in a repository",
        "in the window mon-fri 08:00-12:00",
        "up to 24 more runs to find who makes it fail (merge.max_gate_runs)",
        "cost nothing: no model is asked",
        f"time about {duration(round(after.outlook.low_s * 1000))}, by 1 earlier run",
    ):
        assert line in lines
    assert "time unknown: nothing is known of earlier runs" in [f"{name} {text}" for name, text in _lines(before)]


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
    assert (len(unknown.warnings), known.warnings) == (1, ())
    assert "no model is configured, and build will ask one" in unknown.warnings[0]


async def test_another_run_says_what_is_new_what_failed_and_what_is_done(memory_stage, here, batch_text):
    """By the shards' content, and by what became of them."""
    muster = memory_stage.muster
    (here / "src" / "b.py").write_text("old\n")
    commit(here)
    plan = await muster.batches.plan(parse_batch(batch_text.replace("*.py", "[ab].py")))

    def fails_at_b(task, files):
        if "b.py" in task.intent:
            raise memory_stage.builders.fails("exit code 3\nand more")
        memory_stage.builders.modernise(task, files)

    memory_stage.builders.edit = fails_at_b
    ended = await memory_stage.run(await muster.batches.request(plan))
    (here / "src" / "c.py").write_text("old\n")
    commit(here)
    wider = await muster.batches.plan(parse_batch(batch_text))
    found = await muster.batches.difference(wider, ended.task_id)
    seen = await muster.batches.preview(wider, earlier=ended.task_id)
    stopped = await muster.batches.submit(wider)
    await muster.cancel(stopped.task_id, "enough", by="me")
    after = await muster.batches.difference(wider, stopped.task_id)

    assert (found.new, found.same) == (("here:src/c.py",), ("here:src/a.py",))
    assert found.repeated == {"here:src/b.py": "exit code 3\nand more"}
    assert found.counts == "1 new, 0 changed, 1 repeated, 1 same, 0 gone"
    assert (found.runs, seen.runs, seen.reused) == (2, 2, 1)
    assert set(after.repeated.values()) == {"it had not been done when the batch ended"} and after.runs == 3


def commit(folder: Path) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (["add", "-A"], ["commit", "-q", "-m", "more"]):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True)
