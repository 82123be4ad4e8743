"""A report in the forms that others read, hostile words and all."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from junit_schema import junit_faults

from envelope.errors import ExitCode
from envelope.events import GateVerdict
from envelope.gate import GateEvidence, GateObjection
from envelope.lifecycle import State
from envelope.messages import TaskResult
from orchestrator.batch.causes import causes
from orchestrator.batch.formats import FORMATS
from orchestrator.batch.formats.outputs import outputs
from orchestrator.batch.report import BatchReport, Outcome, RepositoryReport, ShardReport
from orchestrator.cli.report_forms import FORMS, OUTPUTS
from orchestrator.gating.text import evidence_lines


def shard(key: str, outcome: Outcome = "applied", detail: str = "", code: str = "") -> ShardReport:
    return ShardReport(
        key=key, outcome=outcome, task_id=f"task-{key}", trace_id="f" * 32, detail=detail, code=code,
        cost_microusd=150_000,
    )  # fmt: skip


TASK = "01234567-89ab-7def-8123-456789abcdef"
HOSTILE = "![x](http://evil) <script>\x1b[31m\x00 | `rm`"
REPORT = BatchReport(
    name="modernise",
    repositories=(
        RepositoryReport.of(
            [
                shard("a.py"),
                shard("b.py", "empty"),
                shard("c.py", "failed", "line 3 of 'c.py' is no Python", "tool_failed"),
                shard("d.py", "failed", "line 77 of 'd.py' is no Python", "tool_failed"),
                shard("e e.py", "collision", HOSTILE),
            ],
            name="demo", base="0" * 40, commit="1" * 40, verified=True,
            before=GateVerdict(phase="before", passed=True, tests=304),
            after=GateVerdict(phase="after", passed=True, tests=304),
        ),
        RepositoryReport.of([], name="other", base="0" * 40, commit="0" * 40, reason="the gate ran no tests"),
    ),
)  # fmt: skip


def test_failures_that_differ_by_names_and_numbers_are_one_cause():
    assert [(cause.code, len(cause.shards)) for cause in causes(REPORT)] == [("tool_failed", 2), ("collision", 1)]


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ("", "task; mend the step or the code, then: muster batch retry"),
        ("add it to the prices", "task; add it to the prices; then: muster batch retry"),
        ("did you mean 'build'?", "task; did you mean 'build'? then: muster batch retry"),
        ("![x](evil)", "task; \\!\\[x\\]\\(evil\\); then: muster batch retry"),
    ],
)
def test_a_cause_advises_what_its_first_failure_does(hint, told):
    failed = shard("a.py", "failed", "it is wrong", "tool_failed").model_copy(update={"hint": hint})
    one = RepositoryReport.of([failed], name="demo", base="0" * 40, commit="0" * 40)

    assert told in FORMATS["markdown"](BatchReport(name="b", repositories=(one,))).splitlines()


def test_markdown_shows_hostile_words_as_they_are():
    text = FORMATS["markdown"](REPORT)

    assert text.splitlines()[:7] == [
        "### modernise: verified what landed, 3 not done",
        "",
        "$0.7500 in all, $0.7500 for each shard that landed.",
        "",
        "| repository | | merged | unchanged | in collision | not done | tests before | after | cost |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| demo | verified | 1 | 1 | 1 | 2 | 304 | 304 | $0.7500 |",
    ]
    assert "**2 × tool_failed**: line 3 of 'c.py' is no Python" in text
    assert "\\!\\[x\\]\\(http:<!-- -->//evil\\) \\<script\\>" in text
    assert "- demo: c.py (`muster task logs task-c.py`)" in text


def test_a_cause_says_what_kind_it_is_and_what_may_mend_it():
    text = FORMATS["markdown"](REPORT)
    lines = [json.loads(line) for line in FORMATS["jsonl"](REPORT).splitlines()]

    assert "task; mend the step or the code, then: muster batch retry" in text
    assert "collision; run the batch again on top of what landed" in text
    assert [line.get("class") for line in lines[:5]] == [None, None, "task", "task", None]


def test_junit_has_a_case_for_each_shard_and_gate():
    suites = ElementTree.fromstring(FORMATS["junit"](REPORT).encode())

    assert [(suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in suites] == [
        ("demo", "6", "3"),
        ("other", "1", "1"),
    ]
    assert [case.get("name") for case in suites[0]] == ["a.py", "b.py", "c.py", "d.py", "e e.py", "gate"]
    failure = suites[0][4].find("failure")
    assert failure is not None and failure.get("message") == HOSTILE.replace("\x1b", "�").replace("\x00", "�")


@pytest.mark.parametrize("form", ["REPORT", "REJECTED", "none"])
def test_junit_is_what_the_common_schema_takes(form):
    report = {"REPORT": REPORT, "REJECTED": REJECTED}.get(form) or BatchReport(name="none", repositories=())

    assert list(junit_faults(FORMATS["junit"](report))) == []


def test_sarif_places_what_was_not_done():
    [run] = json.loads(FORMATS["sarif"](REPORT))["runs"]

    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["tool_failed", "collision"]
    places = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]]
    assert places == ["c.py", "d.py", "e%20e.py"]


def test_json_lines_tell_shards_then_their_repository():
    lines = [json.loads(line) for line in FORMATS["jsonl"](REPORT).splitlines()]

    assert [line["kind"] for line in lines] == ["shard"] * 5 + ["repository"] * 2
    assert (lines[0]["repository"], lines[5]["name"], lines[5]["verified"]) == ("demo", "demo", True)


@pytest.mark.parametrize("form", FORMATS)
def test_a_report_without_repositories_can_be_written(form):
    assert isinstance(FORMATS[form](BatchReport(name="none", repositories=())), str)


REJECTED = BatchReport(
    name="modernise",
    branch="muster/modernise",
    repositories=(
        RepositoryReport.of(
            [shard("a.py")],
            name="demo", base="0" * 40, commit="1" * 40, reason="2 tests are newly skipped", hint="take the marks out",
            before=GateVerdict(phase="before", passed=True, tests=304),
            after=GateVerdict(phase="after", passed=False, tests=302, skipped=2, detail="E  assert 1 == 2\n1 failed"),
            evidence=GateEvidence(
                result="rejected",
                objections=(
                    GateObjection(code="new_skips", message="2 tests are newly skipped", names=("t.py::a", "t.py::b")),
                    GateObjection(code="gate_edited", message="the gate is edited", names=("conftest.py",)),
                ),
                flaky=("t.py::unsteady",), restored=("tests/test_old.py",),
            ),
        ),
    ),
)  # fmt: skip


def test_what_the_gate_saw_stands_in_markdown():
    lines = FORMATS["markdown"](REJECTED).splitlines()

    start = lines.index("**Gate of demo**")
    assert lines[start + 2 : start + 8] == [
        "- before: passed, 304 tests",
        r"- after: failed, 302 tests \(2 skipped\): E assert 1 == 2",
        r"- rejected \(new\_skips\): 2 tests are newly skipped \(t.py::a, t.py::b\)",
        r"- rejected \(gate\_edited\): the gate is edited \(conftest.py\)",
        "- flaky: t.py::unsteady",
        "- restored: tests/test\\_old.py",
    ]
    assert lines[lines.index("```text") + 1 : lines.index("```")] == ["E  assert 1 == 2", "1 failed"]


def test_what_the_gate_saw_stands_in_its_junit_case():
    [suite] = ElementTree.fromstring(FORMATS["junit"](REJECTED).encode())
    [proved] = [
        case for case in ElementTree.fromstring(FORMATS["junit"](REPORT).encode())[0] if case.get("name") == "gate"
    ]

    failure = suite.find("testcase[@name='gate']/failure")
    assert failure is not None and failure.get("message") == "2 tests are newly skipped; take the marks out"
    assert "flaky: t.py::unsteady\nrestored: tests/test_old.py\nE  assert 1 == 2" in (failure.text or "")
    assert proved.findtext("system-out") == "done and verified\nbefore: passed, 304 tests\nafter: passed, 304 tests"


def test_every_form_says_what_a_verified_change_is_excused():
    seen = GateVerdict(phase="after", passed=False, tests=304, failed=4)
    words = "the same 4 tests fail on the base"
    excused = REPORT.repositories[0].model_copy(update={"after": seen, "reason": words})
    report = REPORT.model_copy(update={"repositories": (excused,)})

    assert report.proof == f"verified: {words}"
    assert f"verified: {words}" in ElementTree.fromstring(FORMATS["junit"](report).encode()).findtext(
        ".//system-out", ""
    )
    assert f"| verified: {words} |" in FORMATS["markdown"](report)
    assert FORMATS["markdown"](report).startswith(f"### modernise: verified what landed, 3 not done: {words}\n")
    [run] = json.loads(FORMATS["sarif"](report))["runs"]
    assert run["properties"]["proof"] == {"demo": f"verified: {words}"}
    assert (report.as_json()["verified"], report.as_json()["excused"]) == (True, 4)
    told = outputs(report, TaskResult(task_id=TASK, trace_id="f" * 32, attempt=1, status=State.COMPLETED), ExitCode.OK)
    assert "verified=true\nexcused=4\n" in told
    assert f"{words}" in report.text()


def test_what_a_gate_said_that_cannot_run_on_the_base_is_shown():
    seen = GateVerdict(phase="before", passed=False, tests=0, detail="E   No module named 'six'")
    one = RepositoryReport.of([], name="demo", base="0", commit="0", reason="the gate cannot run", before=seen)
    report = BatchReport(name="b", repositories=(one,))

    assert "No module named 'six'" in FORMATS["markdown"](report)
    failure = ElementTree.fromstring(FORMATS["junit"](report).encode()).find(".//failure")
    assert failure is not None and "No module named 'six'" in (failure.text or "")


def test_names_that_an_objection_says_are_not_said_again():
    said = GateObjection(code="failed", message="the gate fails: exit code 1 (t.py::a)", names=("t.py::a",))
    [told] = [line for _, line in evidence_lines((), GateEvidence(result="rejected", objections=(said,)))]

    assert told == said.message


def test_what_may_mend_a_shard_is_told_with_what_went_wrong():
    failed = shard("a.py", "set_aside", "it is wrong", "gate_failed").model_copy(update={"hint": "look here"})
    report = BatchReport(name="b", repositories=(RepositoryReport.of([failed], name="demo", base="0", commit="0"),))

    [run] = json.loads(FORMATS["sarif"](report))["runs"]
    case = ElementTree.fromstring(FORMATS["junit"](report).encode()).find(".//failure")
    assert case is not None and case.get("message") == "it is wrong; look here"
    assert run["results"][0]["message"]["text"] == "it is wrong; look here (muster task logs task-a.py)"


def test_each_objection_is_a_finding_at_its_file():
    [run] = json.loads(FORMATS["sarif"](REJECTED))["runs"]
    issues = json.loads(FORMATS["codequality"](REJECTED))

    places = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]]
    assert [(one["ruleId"], place) for one, place in zip(run["results"], places, strict=True)] == [
        ("gate_new_skips", "."),
        ("gate_gate_edited", "conftest.py"),
    ]
    assert [(one["check_name"], one["location"]["path"]) for one in issues] == [
        ("gate_new_skips", "."),
        ("gate_gate_edited", "conftest.py"),
    ]
    assert len({one["fingerprint"] for one in issues}) == 2


def test_no_word_of_a_report_is_a_command_of_the_ci_system():
    evil = shard("a,b:c\n::add-mask::x", "failed", "50%\r\n::set-output name=a::b", "tool_failed")
    report = BatchReport(name="x", repositories=(RepositoryReport.of([evil], name="demo", base="0", commit="0"),))

    [line] = FORMATS["github"](report).splitlines()

    assert line.startswith("::error file=a%2Cb%3Ac%0A%3A%3Aadd-mask%3A%3Ax,title=demo%3A tool_failed::50%25%0D%0A::set")


def test_outputs_are_a_line_each_whatever_their_values_hold():
    report = REJECTED.model_copy(update={"branch": "a\nverified=true"})
    result = TaskResult(task_id=TASK, trace_id="f" * 32, attempt=1, status=State.ERROR)

    lines = outputs(report, result, ExitCode.NOT_ACCEPTABLE).splitlines()

    assert dict(line.split("=", 1) for line in lines) == {
        "task": TASK, "status": "error", "exit_code": "1", "verified": "false", "excused": "0",
        "branch": "a verified=true",
        "commit": "1" * 40, "cost_usd": "0.150000",
    }  # fmt: skip


def test_each_form_can_be_asked_for():
    assert set(FORMS) == {*FORMATS, OUTPUTS}
