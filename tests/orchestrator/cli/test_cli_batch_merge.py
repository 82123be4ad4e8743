"""Patches that meet, and one that breaks the tests, as a person meets them: command, fleet, sandboxes, branch."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from scripted import scripted_model

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

# Keeps what stands before and behind the base of a conflict.
KEEP_BOTH = r"sed -i -e '/^|||||||/,/^=======/d' -e '/^<<<<<<< /d' -e '/^>>>>>>> /d' NEWS"
RULES = [
    {
        "when": {"prompt_contains": "Two changes were made apart from each other", "turn": 1},
        "reply": {"tool_calls": [{"name": "bash", "arguments": {"command": KEEP_BOTH, "description": "keep both"}}]},
    },
    {"when": {"turn": 2}, "reply": {"text": "Both are kept."}},
]


@pytest.fixture(scope="module")
def fleet_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    path = tmp_path_factory.mktemp("model") / "model.yaml"
    path.write_text(json.dumps({"rules": RULES}))
    with scripted_model(path) as environment:
        yield environment


def test_an_agent_resolves_a_conflict_in_its_own_sandbox_and_the_gate_proves_it(fleet_desk):
    batch = BATCH.replace(RECIPE, "echo DONE = 1 >> {path}; echo {path} > NEWS").replace("lib.py", "NEWS")
    (fleet_desk.home / "batch.toml").write_text(batch + '[merge]\nresolve = "agent"\n')
    files = {path: text for path, text in FILES.items() if path != "parts/a.py"} | {"NEWS": "none\n"}
    project = fleet_desk.repository("project", files)

    run = fleet_desk.muster("batch", "run", "batch.toml")

    assert run.exit_code == 0, run.stderr
    assert fleet_desk.git("show", "muster/add:NEWS", repository=project) == "parts/b.py\nparts/c.py"
    message = fleet_desk.git("log", "-1", "--format=%B", "muster/add", repository=project)
    assert message == "add: parts/c.py\n\nMuster-Shard: parts/c.py\nMuster-Resolved-By: agent"


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
