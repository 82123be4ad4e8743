"""What is parsed in a process that holds keys ends in a value, or in a refusal of its own, and soon."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzzed import FOUND, TARGETS, fuzz, tried

from orchestrator.batch.chosen import _values
from orchestrator.errors import BadInput
from orchestrator.gating.settings_of import has_other_settings
from orchestrator.project.file import parsed as project_file
from orchestrator.project.files import ProjectFiles
from orchestrator.project.gate_rules import gate_rules
from orchestrator.project.guess import guess
from orchestrator.project.python_version import oldest_python
from sandbox.channel import decode
from sandbox.errors import SandboxLost
from sandbox.tools import _entries
from workers.recipes.digest import digest_in

SOAK = os.environ.get("MUSTER_CHAOS") == "soak"
SOAK_S = int(os.environ.get("MUSTER_FUZZ_S", "3600"))
SAMPLE_S = 0.07  # of each target: two seconds in all
DEEP, MANY_DIGITS = "[" * 5000, "9" * 5000
HOSTILE_TOML = {
    "deep": f"a = {DEEP}",
    "many digits": f"a = {MANY_DIGITS}",
    "a long key": "a." * 40_000 + "b = 1",  # tomllib alone takes 6 GB for it
    "long tables": "[" + "a." * 40_000 + "b]",
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_sample_has_no_fault(name: str):
    count, faults = fuzz(name, SAMPLE_S, random.Random(name))
    assert count and [fault for _, fault in faults] == []


@pytest.mark.parametrize("file", sorted(FOUND.glob("*/*")), ids=lambda file: f"{file.parent.name}-{file.name}")
def test_what_was_found_is_mended(file: Path):
    tried(TARGETS[file.parent.name], file.read_bytes())


@pytest.mark.skipif(not SOAK, reason="MUSTER_CHAOS=soak is not set")
@pytest.mark.timeout(SOAK_S + 600)
def test_an_hour_finds_no_fault():
    program = [sys.executable, Path(__file__).with_name("fuzzed.py"), str(SOAK_S)]
    assert subprocess.run(program, cwd=Path(__file__).parents[2]).returncode == 0


@pytest.mark.parametrize("text", HOSTILE_TOML.values(), ids=HOSTILE_TOML)
def test_a_projects_own_toml_costs_nobody_anything(text: str):
    files = {"pyproject.toml": text, "Cargo.toml": text}
    assert guess(ProjectFiles(files, frozenset(files))).gate != ("python -m pytest -q",)
    assert oldest_python(files) is None
    with pytest.raises(BadInput, match=r"muster\.toml"):
        project_file(text.encode(), "muster.toml")
    for name in files:
        assert has_other_settings(name, text.encode(), b"", TARGETS["gate settings"].call.__globals__["_Asked"]())


@pytest.mark.parametrize("value", [DEEP, MANY_DIGITS])
def test_a_rule_that_is_no_toml_is_a_text(value: str):
    with pytest.raises(BadInput, match="min_coverage"):
        gate_rules([f"min_coverage={value}"], {})


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda text: decode(bytearray(len(text).to_bytes(4, "big") + bytes(4) + text.encode())), DEEP),
        (lambda text: _entries(text.encode()), DEEP),
    ],
)
def test_a_sandbox_that_says_something_deep_is_lost(read: Callable[[str], object], said: str):
    with pytest.raises(SandboxLost):
        read(said)


@pytest.mark.parametrize("line", ["hello 1 00 1\n1 é 0 0 {}", "hello 1 é", "hello 1 00 1\n1 "])
def test_a_digest_that_nobody_of_ours_wrote_is_none(line: str):
    assert digest_in(line.encode()) is None


def test_a_long_number_of_a_listing_command_is_a_text():
    line = f'{{"a": {MANY_DIGITS}}}'
    assert _values(line) == {"path": line}


def test_a_version_of_many_digits_is_none():
    assert oldest_python({"setup.py": f"Programming Language :: Python :: 3.{MANY_DIGITS}"}) is None
