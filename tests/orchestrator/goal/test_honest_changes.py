"""Honest changes are verified: as they are, or with the very words that the refusal hints at. And lies that would use
what lets them through are not. `honest_changes.toml` has them, each with its why; the tests' runs are real.

Here a sample; with MUSTER_CHAOS=soak all of them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from asyncio import to_thread
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envelope.agents import AgentCard
from envelope.gate import GateEvidence, GateRules
from envelope.messages import Output, TaskRequest, Workspace
from orchestrator.project.gate_rules import gate_rules
from orchestrator.submit import goal_request
from workers.recipes.counting import seen_in
from workers.recipes.junit import cases_of

SOAK = os.environ.get("MUSTER_CHAOS") == "soak"
DATA = tomllib.loads((Path(__file__).parent / "honest_changes.toml").read_text())
SAMPLE_OF = 30  # one in so many runs each time, beside those that are marked
BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("edit:**", "bash:**"))


@dataclass(frozen=True)
class Change:
    """As the file has it. `edits`: replacements of texts in the base's files; `files`: whole ones; `gone`: paths."""

    name: str
    files: dict[str, str]
    given: Mapping[str, Any]

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Change:
        files = dict(DATA["project"][given.get("project", "calc")]) | given.get("more", {})
        return cls(given["name"], files, given)

    def apply(self, found: dict[str, str]) -> None:
        for path, new in self.given.get("moved", {}).items():
            found[new] = found.pop(path)
        for path, pairs in self.given.get("edits", {}).items():
            for old, new in pairs:
                assert found[path].count(old) == 1, (self.name, path, old)
                found[path] = found[path].replace(old, new)
        found.update(self.given.get("files", {}))
        for path in self.given.get("gone", ()):
            del found[path]


def chosen(kind: str) -> list[Any]:
    changes = [Change.read(given) for given in DATA[kind]]
    assert len({change.name for change in changes}) == len(changes) and all(change.given["why"] for change in changes)
    among = (
        changes
        if SOAK
        else [one for number, one in enumerate(changes) if number % SAMPLE_OF == 0 or one.given.get("always")]
    )
    return [pytest.param(change, id=change.name) for change in among]


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    program = Path(__file__).parent / "fork_runner.py"
    with subprocess.Popen(
        [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    ) as process:
        yield process
        assert process.stdin
        process.stdin.close()


@dataclass
class Runner:
    """Plays the gate's sandbox, with the real runner; or with what a change says of a language that is not here."""

    stage: Any
    change: Change
    forks: subprocess.Popen[str]
    runs: int = 0

    async def verify(self, task: TaskRequest) -> dict[str, Any]:
        mirror, where = await self.stage.builders._workspace(task)
        tree = await self.stage.builders._tree(mirror, where)
        told = self.change.given.get("runs")
        self.runs += 1
        with tempfile.TemporaryDirectory() as folder:
            sys.modules[type(self.stage).__module__].unpack(mirror, tree, Path(folder))
            steps = [
                self._told(command, told) if told else await self._run(command, folder)
                for command in task.input.params["commands"]
            ]
        return {"output": Output(structured={"steps": steps, "tree": tree})}

    async def _run(self, command: str, folder: str) -> dict[str, Any]:
        words = re.search(r"-m ((?:pytest|unittest)[^;&|]*)", command)
        inside = re.search(r"cd (\S+)", command)
        place = os.path.join(folder, inside[1]) if inside else folder
        asked = words[1] if words else "pytest"
        with tempfile.TemporaryDirectory() as aside:
            report = Path(aside) / "report"
            line = json.dumps({"command": asked, "folder": place, "report": str(report)})
            code = int(await to_thread(self._say, line))
            content = report.read_bytes() if report.exists() else b""
        step = {"command": command, "exit_code": code, "control": "held"}
        if asked.startswith("pytest"):
            read = cases_of([content])
            assert read is not None, command
            return step | {"tests": read.counts, "names": read.names, "counted_by": "junit"}
        seen = seen_in(content.decode())
        assert seen is not None, content
        return step | {"tests": seen.counts, "names": seen.names, "counted_by": seen.counted_by}

    def _say(self, line: str) -> str:
        assert self.forks.stdin and self.forks.stdout
        self.forks.stdin.write(f"{line}\n")
        self.forks.stdin.flush()
        return self.forks.stdout.readline()

    def _told(self, command: str, told: Mapping[str, Any]) -> dict[str, Any]:
        """`before`, `after` or `old`: names by outcome, or numbers where the runner tells no names."""
        found = told[("before", "after", "old")[self.runs - 1]]  # of each time that it is judged
        groups = {kind: found.get(kind, []) for kind in ("passed", "failed", "skipped")}
        counts = {kind: names if isinstance(names, int) else len(names) for kind, names in groups.items()}
        is_named = all(isinstance(names, list) for names in groups.values())
        return {
            "command": command,
            "exit_code": 1 if counts["failed"] else 0,
            "tests": counts | {"total": sum(counts.values())},
            "counted_by": told.get("by", "junit"),
            "names": groups | {"complete": True} if is_named else None,
        }


@pytest.fixture
def judged(stage, forks, monkeypatch):
    async def run(change: Change, *, scope: tuple[str, ...] = (), rules: GateRules = GateRules()) -> GateEvidence:
        monkeypatch.setattr(stage.builders, "_verify", Runner(stage, change, forks).verify)
        stage.builders.edit = lambda _task, found: change.apply(found)
        given = await stage.repository(change.files)
        gate = tuple(change.given.get("gate", ("python -m pytest",)))
        request = goal_request(
            f"Make it new: {change.name}", agent=BUILD, settings=stage.muster.settings,
            auth_scope=(*BUILD.auth_scope, *scope), workspace=Workspace(bundle=given.bundle, base=given.base),
            gate=gate, gate_rules=rules.model_copy(update={"reruns": 0}),
        )  # fmt: skip
        result = await stage.run(request)
        assert result.output.structured.get("evidence"), result.errors
        return GateEvidence.model_validate(result.output.structured["evidence"])

    return run


def told(evidence: GateEvidence) -> str:
    return "\n".join(f"{one.code}: {one.message}\n  hint: {one.hint}" for one in evidence.objections)


def words_of(hint: str) -> tuple[list[str], list[str]]:
    """What a person would copy from a hint: grants and rules, as the shell reads them."""
    found = re.findall(r"(--allow|--gate-rule) ('[^']*')", hint)
    return (
        [shlex.split(word)[0] for option, word in found if option == "--allow"],
        [shlex.split(word)[0] for option, word in found if option == "--gate-rule"],
    )


@pytest.mark.parametrize("change", chosen("honest"))
async def test_an_honest_change_is_verified_with_no_more_than_the_words_of_its_hints(judged, change: Change):
    given_rules = change.given.get("rules", {})
    scope, rules, texts = tuple(change.given.get("grant", ())), gate_rules((), given_rules), list[str]()
    refused: list[str] = []
    evidence = await judged(change, scope=scope, rules=rules)
    while evidence.result == "rejected" and len(refused) < 4:
        refused.append(evidence.objections[0].code)
        grants, more = zip(*(words_of(objection.hint) for objection in evidence.objections), strict=True)
        wider = (*scope, *(grant for some in grants for grant in some))
        assert (set(wider), more) != (set(scope), ()) and any([*grants, *more]), told(evidence)
        texts += [text for some in more for text in some]
        scope, rules = wider, gate_rules(texts, given_rules)
        evidence = await judged(change, scope=scope, rules=rules)

    assert evidence.result == "verified", told(evidence)
    assert refused == change.given.get("refused", [])
    for note in change.given.get("notes", ()):
        assert any(note in one for one in evidence.notes), evidence.notes


@pytest.mark.parametrize("lie", chosen("lie"))
async def test_a_lie_that_would_use_the_same_way_is_not_verified(judged, lie: Change):
    rules = gate_rules((), lie.given.get("rules", {}))
    evidence = await judged(lie, scope=tuple(lie.given.get("grant", ())), rules=rules)

    assert evidence.result == "rejected", evidence.notes
    assert lie.given["code"] in [objection.code for objection in evidence.objections], told(evidence)
