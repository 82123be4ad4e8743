"""A report in the forms that others read, hostile words and all."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from envelope.events import GateVerdict
from orchestrator.batch.causes import causes
from orchestrator.batch.formats import FORMATS
from orchestrator.batch.report import BatchReport, Outcome, RepositoryReport, ShardReport


def shard(key: str, outcome: Outcome = "applied", detail: str = "", code: str = "") -> ShardReport:
    return ShardReport(
        key=key, outcome=outcome, task_id=f"task-{key}", trace_id="f" * 32, detail=detail, code=code,
        cost_microusd=150_000,
    )  # fmt: skip


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


def test_markdown_shows_hostile_words_as_they_are():
    text = FORMATS["markdown"](REPORT)

    assert text.splitlines()[:7] == [
        "### modernise: not verified",
        "",
        "$0.75 in all, $0.75 for each shard that landed.",
        "",
        "| repository | | merged | unchanged | in collision | not done | tests before | after | cost |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| demo | verified | 1 | 1 | 1 | 2 | 304 | 304 | $0.75 |",
    ]
    assert "**2 × tool_failed**: line 3 of 'c.py' is no Python" in text
    assert "\\!\\[x\\]\\(http://evil\\) \\<script\\>" in text
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
