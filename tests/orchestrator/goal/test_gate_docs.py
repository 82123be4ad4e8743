"""docs/gate.md says what there is, and its examples are understood."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from envelope.gate import GateRules, ObjectionCode
from orchestrator.batch.spec import Gate
from orchestrator.errors import BadInput
from orchestrator.project.file import ProjectFile
from orchestrator.project.gate_rules import gate_rules, parsed_rules

PAGE = (Path(__file__).parent.parent.parent.parent / "docs" / "gate.md").read_text()
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def first_cells(heading: str) -> list[str]:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def test_every_objection_is_explained():
    assert first_cells("What is looked at") == list(get_args(ObjectionCode))


def test_every_rule_is_explained():
    assert first_cells("Rules") == list(GateRules.model_fields)


def test_the_examples_are_understood():
    project, batch = (tomllib.loads(example) for example in EXAMPLES)

    assert parsed_rules(ProjectFile.model_validate(project).gate_rules, "").min_coverage == "base"
    assert Gate.model_validate(batch["gate"]).known_failures == "reject"


def test_the_command_is_understood():
    words = shlex.split(re.findall(r"^muster run .*$", PAGE, re.MULTILINE)[0])
    assert gate_rules([words[words.index("--gate-rule") + 1]], {}) == GateRules(min_coverage="base")


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("min_coverage=80", GateRules(min_coverage=80)),
        ("flaky=reject", GateRules(flaky="reject")),
        ("may_edit=conftest.py", GateRules(may_edit=("conftest.py",))),
        ('protect=["a/**", "b"]', GateRules(protect=("a/**", "b"))),
        ("junit=out/*.xml", GateRules(junit="out/*.xml")),
        ("repeat=3", GateRules(repeat=3)),
        ("clock=+90d", GateRules(clock="+90d")),
    ],
)
def test_a_rule_of_the_command_line_is_a_key_and_a_value(text: str, rules: GateRules):
    assert gate_rules([text], {}) == rules


def test_the_command_line_counts_more_than_the_repositorys_file():
    assert gate_rules(["reruns=3"], {"reruns": 1, "flaky": "reject"}) == GateRules(reruns=3, flaky="reject")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("min_covrage=80", "min_coverage"),
        ("reruns", "KEY=VALUE"),
        ("reruns=many", "docs/gate.md"),
        ("reruns=99", "docs/gate.md"),
        ("repeat=0", "docs/gate.md"),
        ("clock=tomorrow", "docs/gate.md"),
    ],
)
def test_a_wrong_rule_is_refused_with_what_would_work(text: str, words: str):
    with pytest.raises(BadInput) as caught:
        gate_rules([text], {})

    assert words in f"{caught.value} {caught.value.hint}"
