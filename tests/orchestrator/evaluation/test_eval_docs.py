"""docs/evaluation.md says what there is, and its examples are understood."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, get_args

from envelope.agents import AgentCard, WorkerCard
from envelope.lifecycle import State
from orchestrator.evaluation.file import load_suite, parse_suite
from orchestrator.evaluation.matrix import samples_of, variants_of
from orchestrator.evaluation.outcomes import JUDGED, Outcome, SampleReport
from orchestrator.evaluation.report import concluded
from orchestrator.evaluation.table import text_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "evaluation" / "suite.toml"
PAGE = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text()
OUTCOMES: dict[str, Outcome] = {"openai-careful": "accepted", "openai-hasty": "rejected"}
BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))
SUITE = """
name = "words"
repository = { folder = "project" }
gate = { commands = ["run-tests"] }
cases = [{ name = "one", prompt = "Do one" }]
"""


def test_the_suite_of_the_page_is_one():
    text, prompts = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    names = [variant.name for variant in variants_of(parse_suite(text))]
    assert len(names) == 5 and "gpt-5_plain" in names
    assert [variant.name for variant in variants_of(parse_suite(prompts))] == ["build", "build-2"]


def test_every_outcome_is_explained_and_whether_it_counts():
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (yes|no)", PAGE, re.MULTILINE)
    assert [name for name, _ in rows] == list(get_args(Outcome))
    assert tuple(name for name, counts in rows if counts == "yes") == JUDGED


def compared(text: str) -> list[str]:
    """What is the same in each run, without the columns' widths."""
    lines = [line for line in text.splitlines() if re.match(r"variant  |note: |.* is worse than ", line)]
    return [" ".join(line.split()) for line in lines]


def test_the_table_of_the_page_is_what_the_example_comes_to():
    """One model does what is asked for, the other never: the command's own tests see to that on two of its cases."""
    spec = load_suite(EXAMPLE)
    variants = variants_of(spec)
    samples = [
        SampleReport(case=one.case.name, variant=one.variant.name, number=1, outcome=OUTCOMES[one.variant.name])
        for one in samples_of(spec, variants)
    ]
    found = text_of(concluded(spec, variants, samples, paid=0, cap=None))

    assert compared(found) == compared(PAGE)
    assert len(compared(PAGE)) == 3


async def test_the_python_of_the_page_runs_as_it_stands(served_stage, monkeypatch, tmp_path):
    stage, settings = served_stage, served_stage.muster.settings
    for name in ("redis_url", "fleet", "state_dir"):
        monkeypatch.setenv(f"MUSTER_{name.upper()}", str(getattr(settings, name)))
    await stage.transport.announce(WorkerCard(worker="w", pool="build", slots=1, agents=(BUILD,)), ttl_s=60)
    (tmp_path / "project").mkdir()
    (tmp_path / "project/t.py").write_text("assert\n")
    monkeypatch.chdir(tmp_path)
    stage.builders.edit = lambda task, files: files.update({"a.py": "new\n"})
    [snippet] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {"SUITE": SUITE}

    async with stage.orchestrator(), stage.workers():
        await eval(compile(snippet, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)

    assert [result.status for result in names["results"]] == [State.COMPLETED]
    assert names["report"].counts == {"accepted": 1}
