"""`muster init`: what is written, what is not, and what is said."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.acceptance

WRITTEN = """\
# What `muster run` and `muster fanout` do here, where their command line does not say otherwise.
# It counts once it is committed, and trusted: muster trust

# Makes the project's dependencies available: run once per commit, and cached, in a sandbox that reaches the
# package index and nothing else. Guessed: pyproject.toml.
setup = ["pip install -e ."]

# The project's own tests: they alone prove a change. Guessed: pyproject.toml names pytest.
gate = ["python -m pytest -q"]
# What it must not lose, such as coverage; docs/gate.md has all of them.
# gate_rules = { min_coverage = "base" }

# Who does a goal that names nobody. The repository's own: reviewer.
# agent = "build"

# Every agent reads AGENTS.md of its own accord.

# What a goal may cost in dollars, how long it may take, and who answers.
# budget = 2.50
# deadline = "30m"
# model = "openai/gpt-5"
"""


@pytest.fixture
def project(desk):
    files = {
        "pyproject.toml": "[project]\nname = 'x'\n[tool.pytest.ini_options]\n",
        "AGENTS.md": "Be brief.",
        ".claude/agents/reviewer.md": "---\nname: reviewer\ndescription: Reviews.\n---\nReview.",
    }
    return desk.repository("project", files)


def test_a_file_is_written_once(desk, project):
    first = desk.muster("init", cwd=project)
    assert first.exit_code == 0, first.stderr
    assert first.stdout == f"{project / 'muster.toml'}\n"
    assert "gate   python -m pytest -q" in first.stderr
    assert "git add muster.toml" in first.stderr
    assert (project / "muster.toml").read_text() == WRITTEN

    (project / "muster.toml").write_text("gate = ['mine']\n")
    again = desk.muster("init", cwd=project)
    assert (again.exit_code, again.stdout) == (2, "")
    assert "exists already" in again.stderr
    assert "--force" in again.stderr
    assert (project / "muster.toml").read_text() == "gate = ['mine']\n"

    assert desk.muster("init", "--force", "--repo", "project").exit_code == 0
    assert (project / "muster.toml").read_text() == WRITTEN


def test_it_is_printed_without_being_written(desk, project):
    done = desk.muster("init", "--print", cwd=project)
    assert (done.exit_code, done.stdout, done.stderr) == (0, WRITTEN, "")
    assert not (project / "muster.toml").exists()


def test_a_link_is_not_written_through(desk, project):
    other = desk.home / "other"
    other.write_text("mine")
    (project / "muster.toml").symlink_to(other)
    done = desk.muster("init", "--force", cwd=project)
    assert done.exit_code == 2
    assert "is a link" in done.stderr
    assert other.read_text() == "mine"


def test_the_settings_tell_what_a_repository_changes(desk, project):
    (project / "muster.toml").write_text("budget = 1.5\nmodel = 'a/b'\n")
    desk.git("add", "-A", repository=project)
    desk.git("commit", "-q", "-m", "settings", repository=project)
    told = [json.loads(desk.muster("config", "show", "--origin", cwd=project).stdout)]
    assert desk.muster("trust", cwd=project).exit_code == 0
    told.append(json.loads(desk.muster("config", "show", "--origin", cwd=project).stdout))

    assert [each["budget_microusd"] for each in told] == [{"value": 1_500_000, "origin": "muster.toml"}] * 2
    assert [each["model"]["origin"] for each in told] == ["default", "muster.toml"]
    assert told[1]["tenant"] == {"value": "default", "origin": "default"}
