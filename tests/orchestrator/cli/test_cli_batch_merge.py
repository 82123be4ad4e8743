"""Patches that meet, and one that breaks the tests, as a person meets them: command, fleet, sandboxes, branch."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.acceptance]

FILES = {
    "parts/a.py": "NAME = 'a'\n",
    "parts/b.py": "NAME = 'b'\n",
    "parts/c.py": "NAME = 'c'\n",
    "lib.py": "import os\n\n\ndef first():\n    return os.sep\n",
    "test_lib.py": "import lib\nimport parts.c\n\n\ndef test_first():\n    assert lib.first() and parts.c.NAME\n",
}
# Each adds a function to the same place of lib.py; that of c breaks what it is in as well.
RECIPE = (
    r"n=$(basename {path} .py); printf '\n\ndef %s():\n    return 1\n' $n >> lib.py;"
    r" if [ $n = c ]; then echo 'NAME = undefined' >> {path}; else echo 'DONE = 1' >> {path}; fi"
)
BATCH = f"""\
name = "add"
[[repositories]]
path = "project"
[shards]
glob = "parts/*.py"
also_edit = ["lib.py"]
[[steps]]
recipe = ['''{RECIPE}''']
[gate]
commands = ["python -m pytest -q"]
[publish]
branch = "muster/add"
"""


def test_functions_are_united_the_culprit_is_named_and_the_rest_is_a_verified_branch(fleet_desk):
    (fleet_desk.home / "batch.toml").write_text(BATCH)
    project = fleet_desk.repository("project", FILES)

    run = fleet_desk.muster("batch", "run", "batch.toml")

    assert "1 of 3 shards failed; parts/c.py: set aside, since with it the gate fails" in run.stderr
    lib = fleet_desk.git("show", "muster/add:lib.py", repository=project)
    assert "def a()" in lib and "def b()" in lib and "def c()" not in lib
    assert "undefined" not in fleet_desk.git("show", "muster/add:parts/c.py", repository=project)

    task = json.loads(fleet_desk.muster("batch", "list", "--json").stdout.splitlines()[0])["task_id"]
    overlaps = fleet_desk.muster("batch", "overlaps", task)
    assert overlaps.exit_code == 0, overlaps.stderr
    assert "parts/a.py with parts/b.py: conflict by lines in lib.py" in overlaps.stderr
    report = fleet_desk.muster("batch", "report", task)
    assert "muster task diff" in report.stdout and "| git apply --3way" in report.stdout
