"""Five packages that we did not write, as a person would have them brought up to date: `examples/real`."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.figures import report
from lab.schedule import SOAK

from orchestrator.batch.report import BatchReport

# Five archives are fetched from the package index, and five images set up: for `make soak`.
pytestmark = [pytest.mark.docker, pytest.mark.skipif(not SOAK, reason="MUSTER_CHAOS=soak is not set")]

FETCH = Path(__file__).resolve().parents[2] / "examples/real/fetch.py"
BRANCH = "muster/modernise"


class Desk:
    """A person's own fleet, with the repositories in a folder."""

    def __init__(self, folder: Path) -> None:
        clean = {name: text for name, text in os.environ.items() if not name.startswith("MUSTER_")}
        self.work = folder / "work"
        self._env = clean | {"HOME": str(folder), "MUSTER_STATE_DIR": str(folder / "state")}

    def muster(self, *words: str) -> str:
        command = [Path(sys.executable).with_name("muster"), *words]
        done = subprocess.run(command, cwd=self.work, env=self._env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def desk(folder: Path) -> Iterator[Desk]:
    found = Desk(folder)
    runpy.run_path(str(FETCH))["fetch"](found.work)
    yield found
    found.muster("down")


@pytest.mark.timeout(1800)
def test_real_packages_are_modernised_and_their_own_tests_agree(desk: Desk) -> None:
    began_s = time.monotonic()
    desk.muster("batch", "run", "batch.toml", "--no-input")
    took_s = time.monotonic() - began_s

    [batch] = [json.loads(line) for line in desk.muster("batch", "list", "--json").splitlines()]
    found = BatchReport.model_validate_json(desk.muster("batch", "show", batch["task_id"], "--json"))
    report("real packages", took_s=round(took_s, 1), shards=len(found.shards),
           tests={one.name: one.after.tests for one in found.repositories if one.after},
           known_failures=sum(len(one.evidence.known_failures) for one in found.repositories),
           lines={one.name: one.patch.added for one in found.repositories if one.patch})  # fmt: skip
    assert len(found.repositories) == 5
    for one in found.repositories:
        assert one.verified, one.reason
        assert one.before and one.after and one.before.tests == one.after.tests
        assert one.after.tests and one.patch and one.patch.files
        tip = subprocess.run(["git", "-C", desk.work / one.name, "rev-parse", BRANCH], capture_output=True, text=True)
        assert tip.stdout.strip() == one.commit
