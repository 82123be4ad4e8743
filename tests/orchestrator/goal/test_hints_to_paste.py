"""Hints are words to paste into a shell: no name of a file in them is more than a word."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from envelope.gate import GateRules
from orchestrator.gating.change import _may_edit_hint  # pyright: ignore[reportPrivateUsage]
from orchestrator.gating.lost_tests import grant_hint

NAMES = ["test_a'$(touch pwned)'.py", "tests/`touch pwned`.py", "odd/b';touch pwned;'.txt", "tests/plain.py"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_a_hint_stays_a_word(tmp_path: Path, name: str):
    grant, edit = grant_hint([name], GateRules()), _may_edit_hint("if it is meant", [name], GateRules())
    for hint in (
        grant.partition("by name: ")[2].partition(" (batch")[0],
        edit.partition(": ")[2].partition(" (batch")[0],
    ):
        words = subprocess.run(
            ["sh", "-c", f"printf '%s\\n' {hint}"], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        assert words.stdout.splitlines() == shlex.split(hint)
        assert name in words.stdout
    assert list(tmp_path.iterdir()) == []
