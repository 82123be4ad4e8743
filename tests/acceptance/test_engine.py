"""An agent that somebody else's program leads, as a user starts it: asked, answered, and proven by the platform."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted import scripted_model
from shell import ROOT, User, containers, git

pytestmark = [pytest.mark.acceptance, pytest.mark.docker, pytest.mark.redis]

PROGRAM = ROOT / "tests" / "workers" / "acp" / "agent_program.py"
AGENT = """---
description: a program of somebody else's
mode: primary
engine: acp
command: [python3, tool/agent_program.py]
permission: {edit: ask, bash: allow}
---
"""
FILES = {
    "calc.py": "def double(n):\n    return n + 2\n",
    "tests/test_calc.py": "import calc\n\n\ndef test_two():\n    assert calc.double(2) == 4\n",
    "tool/agent_program.py": PROGRAM.read_text(),
}
MENDED = "def double(n):\n    return n * 2\n"
GOAL = "\n".join(
    ["Mend it.", *(">> " + json.dumps(step) for step in (["openai", "how?"], ["edits", "/workspace/calc.py", MENDED]))]
)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    """As the others', without the package that they work on."""
    someone = User(tmp_path)
    yield someone
    someone.muster("down", timeout_s=60)
    assert containers(someone) == []


def repository(folder: Path) -> str:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first")
    return folder.name


def test_a_program_asks_a_person_edits_and_the_platform_proves_it(user: User):
    project = repository(user.home / "project")
    (user.home / "config/agents").mkdir(parents=True)
    (user.home / "config/agents/foreign.md").write_text(AGENT)
    script = user.home / "model.yaml"
    script.write_text("rules: [{reply: {text: by doubling}}]")
    with scripted_model(script) as user.environment:
        user.environment["MUSTER_CONFIG"] = str(user.home / "config/muster.toml")
        run = user.muster("run", GOAL, "--agent", "foreign", "--repo", project, "--gate", "python -m pytest -q")
        assert run.returncode == 9, run.stderr
        [ask] = [json.loads(line) for line in user.muster("ask", "list", "--json").stdout.splitlines()]
        top = json.loads(user.muster("top", "--once", "--json").stdout)
        [root] = [one["task_id"] for one in top["going"]]
        answered = user.muster("ask", "answer", ask["ask_id"], "once")
        watched = user.muster("task", "watch", root)
        diff = user.muster("task", "diff", root)

    assert (ask["agent"], ask["permission"], ask["patterns"]) == ("foreign", "edit", ["calc.py"])
    assert [list(one["asks"]) for one in top["going"]] == [[ask["ask_id"]]]
    assert answered.returncode == 0, answered.stderr
    assert watched.returncode == 0, watched.stderr
    assert "done and verified" in watched.stderr
    assert "by doubling\nedited" in watched.stdout
    assert "+    return n * 2" in diff.stdout
