"""`muster plan check` and the examples of docs/plans.md; what the commands say where there is no plan."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from envelope.agents import AgentCard, WorkerCard
from envelope.plan import Plan, PlanStep
from envelope.plan_sections import SECTIONS, section_faults
from orchestrator.errors import BadInput
from orchestrator.planner.files import file_faults, mode_or_plan
from orchestrator.planner.modes import PlanMode
from orchestrator.planner.team import planning_of

PAGE = (Path(__file__).parents[3] / "docs" / "plans.md").read_text()
WHOLE = "\n".join(f"## {name}\nSomething.\n" for name in SECTIONS)


def test_the_plan_of_the_page_is_right_and_a_wrong_one_is_told_fault_by_fault(desk):
    [example] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (desk.home / "steps.toml").write_text(example)
    wrong = example.replace('"explore"', '"explroe"').replace('["look"]', '["mend"]')
    (desk.home / "wrong.toml").write_text(wrong)

    right, told, as_json = (
        desk.muster("plan", "check", *words) for words in (("steps.toml",), ("wrong.toml",), ("wrong.toml", "--json"))
    )

    assert (right.exit_code, right.stderr) == (0, "steps.toml: nothing wrong\n")
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.splitlines() == [
        "warning: wrong.toml: the step 'look' names an agent 'explroe' that there is not",
        "hint: did you mean 'explore'?",
        "warning: wrong.toml: these steps wait for each other: mend -> mend",
        "hint: take one depends_on out",
    ]
    assert [json.loads(line)["hint"] for line in as_json.stdout.splitlines()] == [
        "did you mean 'explore'?", "take one depends_on out",
    ]  # fmt: skip


def test_a_file_that_cannot_be_read_is_one_sentence(desk):
    (desk.home / "odd.md").write_bytes(b"\xff\xfe")
    refused = [desk.muster("plan", "check", name) for name in ("none.md", "odd.md")]

    assert [one.exit_code for one in refused] == [2, 2]
    assert "none.md cannot be read: No such file" in refused[0].stderr
    assert "odd.md is not UTF-8 text" in refused[1].stderr


def test_an_agent_that_plans_is_not_planned_for_and_nothing_is_started_to_say_so(desk):
    refused = desk.muster("run", "x", "--agent", "plan", "--plan", "layered")

    assert refused.exit_code == 2
    assert "error: the agent 'plan' plans by itself\nhint: leave --plan out" in refused.stderr
    assert not (desk.home / "state").exists()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("lite", "there is no way to plan called 'lite'"),
        ("none.toml", "none.toml cannot be read"),
        ("odd.json", "these steps wait for each other: a -> a"),
    ],
)
def test_what_is_no_way_to_plan_is_refused(word, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stuck = {"step_id": "a", "title": "t", "goal": "g", "agent": "build", "depends_on": ["a"]}
    (tmp_path / "odd.json").write_text(json.dumps([stuck]))
    with pytest.raises(BadInput) as refused:
        mode_or_plan(word)
    assert message in refused.value.message and "<" not in refused.value.hint


def test_a_file_of_steps_is_a_plan_in_layers(tmp_path):
    [example] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "steps.toml").write_text(example)

    mode, plan = mode_or_plan(str(tmp_path / "steps.toml"))

    assert mode is PlanMode.LAYERED
    assert plan is not None and [(one.step_id, one.depends_on) for one in plan.steps] == [
        ("look", ()),
        ("mend", ("look",)),
    ]
    assert mode_or_plan("on-demand") == (PlanMode.ON_DEMAND, None)


def test_an_agent_of_a_given_plan_that_nobody_offers_is_named_before_anything_is_submitted():
    build = AgentCard(name="build", mode="primary", pool="build")
    plan = Plan(goal="", steps=(PlanStep(step_id="a", title="a", goal="a", agent="biuld"),))
    with pytest.raises(BadInput, match="names an agent 'biuld'"):
        planning_of(
            PlanMode.LAYERED, build, [WorkerCard(worker="w", pool="build", slots=1, agents=(build,))], plan=plan
        )


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (WHOLE, []),
        (WHOLE.upper(), []),
        (WHOLE.replace("## Verification", "### Verification:"), []),
        (WHOLE.replace("## Approach\nSomething.", "## Approach\n"), ['the section "Approach" is empty']),
        (WHOLE.replace("## Overview", "```\n## Overview\n```"), ['the section "Overview" is missing']),
        (WHOLE.replace("Something.", "### Part\nMore."), []),
        ("", [f'the section "{name}" is missing' for name in SECTIONS]),
    ],
)
def test_a_plan_file_needs_each_section_with_something_in_it(text, faults):
    assert section_faults(text) == faults


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.json", "{", "p.json is no JSON"),
        ("p.json", "[" * 100_000, "p.json is no JSON"),
        ("p.toml", "a =", "p.toml is no TOML"),
        ("p.json", "3", "steps: Input should be a valid tuple"),
        ("p.json", '{"gaol": 1, "steps": []}', "the plan has no field 'gaol'"),
        ("p.json", '{"steps": [3]}', "a step is no object"),
        ("p.json", '[{"step_id": "a", "titel": "b"}]', "a step has no field 'titel'"),
        ("p.json", '[{"step_id": "a", "title": "b", "goal": "c"}]', "steps.0.agent: Field required"),
        ("p.json", '[{"step_id": "a", "title": "b", "goal": "c", "agent": "d", "deadline_ms": -1}]', "deadline_ms"),
    ],
)
def test_what_is_no_plan_is_refused_by_the_place_that_is_wrong(name, text, message):
    with pytest.raises(BadInput) as refused:
        file_faults(name, text)
    assert message in refused.value.message and refused.value.hint
