"""`muster agents` and `muster trust`, and goals for agents that a repository or its user brings; on a real fleet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted import scripted_model

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.acceptance]

WRITTEN = "---\nname: haiku\ndescription: Writes haiku.\nmode: subagent\n---\nSeventeen syllables.\n"
RULES = [
    {
        "when": {"system_contains": "You are the poet", "turn": 1},
        "reply": {"tool_calls": [{"name": "read", "arguments": {"filePath": "/workspace/.env"}}]},
    },
    {"when": {"system_contains": "You are the poet"}, "reply": {"text": "A poem. ${result.0}"}},
    {"when": {"system_contains": "You are my own"}, "reply": {"text": "At your service."}},
    {"when": {"prompt_contains": "hopeless"}, "reply": {"text": "No."}},
    {"when": {"prompt_contains": "An earlier answer could not be used"}, "reply": {"text": WRITTEN}},
    {"when": {"prompt_contains": "defines an agent"}, "reply": {"text": WRITTEN.replace("mode", "mood")}},
    {"reply": {"text": "Somebody else."}},
]
POET = "---\ndescription: Writes.\nmode: primary\npermission: {read: {'*': allow}}\n---\nYou are the poet.\n"
FILES = {
    ".muster/agents/poet.md": POET,
    ".opencode/agents/muse.md": "---\ndescription: Inspires.\nmode: subagent\n---\nSing.\n",
    ".claude/agents/broken.md": "---\ndescription: d\nmode: bad\nmood: odd\n---\n",
    ".muster/agents/ghost.md": "---\ndescription: d\nmode: primary\nhidden: true\n---\nBoo.\n",
    ".env": "TOKEN=secret-word\n",
}


@pytest.fixture(scope="module")
def fleet_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A scripted model over real HTTP, and a user with an agent and a broken file."""
    home = tmp_path_factory.mktemp("user")
    (home / "agents").mkdir()
    (home / "agents" / "mine.md").write_text("---\ndescription: My own.\nmode: primary\n---\nYou are my own.\n")
    (home / "agents" / "spoilt.md").write_text("no front matter")
    (home / "model.yaml").write_text(json.dumps({"rules": RULES}))
    with scripted_model(home / "model.yaml") as environment:
        yield environment | {"MUSTER_CONFIG": str(home / "config.toml")}


@pytest.fixture
def desk(fleet_desk):
    return fleet_desk


@pytest.fixture
def project(desk) -> Path:
    return desk.repository("project", FILES)


def run(desk, agent: str = "", **env: str):
    return desk.muster(
        "run", "write", "--no-input", "--repo", "project", *(("--agent", agent) if agent else ()), env=env
    )


def test_a_repositorys_agent_does_a_goal_and_is_free_only_once_it_is_trusted(desk, project):
    stranger = run(desk, "poet")
    assert stranger.exit_code == 0, stranger.stderr
    assert stranger.stdout.startswith("A poem. not allowed: read '.env'")
    assert "poet.md: is not trusted" in stranger.stderr.replace("\n", " ")

    assert desk.muster("trust", "project").exit_code == 0
    assert "TOKEN=secret-word" in run(desk, "poet").stdout

    (project / ".muster/agents/more.md").write_text(POET)
    desk.git("add", "-A", repository=project)
    desk.git("commit", "-qm", "more", repository=project)
    assert "not allowed" in run(desk, "poet").stdout  # what was trusted is not what is there now


def test_a_users_agent_does_a_goal(desk, project):
    assert run(desk, "mine").stdout == "At your service.\n"


@pytest.mark.parametrize(
    ("agent", "sentence", "hint"),
    [
        ("muse", "'muse' is a subagent", "poet"),
        ("ghost", "'ghost' is hidden", "poet"),
        ("broken", "broken.md: agent 'broken': mode: ", "known values: primary"),
        ("poett", "there is no agent 'poett'", "poet"),
        ("spoilt", "spoilt.md: agent 'spoilt' has no front matter", "start the file"),
    ],
)
def test_an_agent_that_cannot_be_started_is_refused_with_a_hint(desk, project, agent, sentence, hint):
    for done in (run(desk, agent), run(desk, MUSTER_DEFAULT_AGENT=agent)):
        error, told = done.stderr.splitlines()[-2:]
        assert (done.exit_code, sentence in error, hint in told) == (2, True, True), done.stderr


def test_the_default_agent_is_a_setting(desk, project):
    assert run(desk, MUSTER_DEFAULT_AGENT="mine").stdout == "At your service.\n"
    assert run(desk).stdout == "Somebody else.\n"


def test_agents_are_listed_with_where_they_come_from_and_what_is_wrong(desk, project):
    done = desk.muster("agents", "list", "--repo", "project", "--json")
    origins = {agent["name"]: agent["origin"] for agent in map(json.loads, done.stdout.splitlines())}
    assert origins["build"] == ""
    assert origins["poet"] == ".muster/agents/poet.md"
    assert Path(origins["mine"]).is_absolute()

    assert not {"title", "compaction", "ghost", "recipe", "verify"} & origins.keys()
    everything = " ".join(desk.muster("agents", "list", "--all", "--repo", "project").stderr.split())
    assert "title primary, hidden - - built-in" in everything and "verify recipe build" in everything

    shown = " ".join(desk.muster("agents", "list", "--repo", "project").stderr.split())
    assert "muse subagent build - .opencode/agents/muse.md" in shown
    assert "spoilt.md: agent 'spoilt' has no front matter hint: start the file with" in shown
    assert desk.muster("agents", "list", "--json").exit_code == 0  # outside of any repository


def test_an_agent_is_shown_with_its_tools_and_what_decided(desk, project):
    done = desk.muster("agents", "show", "plan", "--tools", "--json")
    told = {offer["tool"]: offer for offer in map(json.loads, done.stdout.splitlines())}
    assert (told["edit"]["offered"], told["edit"]["why"]) == (True, "its plan file only")
    assert (told["apply_patch"]["offered"], told["apply_patch"]["layer"]) == (False, "model")

    shown = desk.muster("agents", "show", "poet", "--repo", "project")
    assert "You are the poet." in shown.stdout
    assert json.loads(desk.muster("agents", "show", "build", "--json").stdout)["mode"] == "primary"
    missing = desk.muster("agents", "show", "poett", "--repo", "project")
    assert (missing.exit_code, "did you mean 'poet'?" in missing.stderr) == (2, True)


def test_files_are_checked_before_they_are_committed(desk, project):
    (project / ".muster/agents/new.md").write_text("---\ndescription: d\ntools: Raed\nsteps: 0\n---\n")

    done = desk.muster("agents", "check", "--json", cwd=project)
    faults = [(Path(fault["path"]).name, fault["key"]) for fault in map(json.loads, done.stdout.splitlines())]
    assert done.exit_code == 2
    assert sorted(faults) == [("broken.md", "mode"), ("new.md", "steps"), ("new.md", "tools"), ("spoilt.md", "")]
    good = desk.muster("agents", "check", ".muster/agents/poet.md", cwd=project)
    assert (good.exit_code, "1 agent file(s), nothing wrong" in good.stderr) == (0, True)
    assert desk.muster("agents", "check", "nowhere", cwd=project).exit_code == 2


def test_a_new_agent_is_written_by_a_model_that_is_told_what_was_wrong(desk, project):
    done = desk.muster("agents", "generate", "writes haiku", "--repo", "project")

    assert done.exit_code == 0, done.stderr
    assert (project / ".muster/agents/haiku.md").read_text() == WRITTEN
    assert done.stdout.strip().endswith("project/.muster/agents/haiku.md")
    named = desk.muster("agents", "generate", "writes haiku", "--repo", "project", "--name", "team/h", "--json")
    assert json.loads(named.stdout)["name"] == "team/h"
    assert "name:" not in (project / ".muster/agents/team/h.md").read_text()


def test_nothing_is_overwritten_and_nothing_leaves_the_repository(desk, project):
    before = desk.muster("task", "list", "--json").stdout
    taken = desk.muster("agents", "generate", "x", "--repo", "project", "--name", "poet")
    outside = desk.muster("agents", "generate", "x", "--repo", "project", "--name", "../../../x")
    assert (taken.exit_code, outside.exit_code) == (2, 2)
    assert "exists already" in taken.stderr and "not inside" in outside.stderr
    assert desk.muster("task", "list", "--json").stdout == before  # nobody was asked

    (project / ".muster/agents/haiku.md").write_text("mine")
    late = desk.muster("agents", "generate", "writes haiku", "--repo", "project")
    assert (late.exit_code, late.stdout.strip()) == (2, WRITTEN.strip())
    assert (project / ".muster/agents/haiku.md").read_text() == "mine"


def test_a_model_that_writes_no_agent_twice_is_an_error(desk, project):
    done = desk.muster("agents", "generate", "hopeless", "--repo", "project", "--name", "h")

    assert (done.exit_code, "hint: " in done.stderr) == (2, True)
    assert not (project / ".muster/agents/h.md").exists()


def test_trust_is_listed_and_taken_back(desk, project):
    told = json.loads(desk.muster("trust", "project", "--json").stdout)
    assert ".muster/agents/poet.md" in told["files"]
    rows = [json.loads(line) for line in desk.muster("trust", "--list", "--json").stdout.splitlines()]
    assert told["digest"] in {row["digest"] for row in rows if row["place"] == str(project.resolve())}
    assert str(project.name) in desk.muster("trust", "--list").stderr

    assert desk.muster("trust", "project", "--remove").exit_code == 0
    again = desk.muster("trust", "project", "--remove")
    assert (again.exit_code, "is not trusted" in again.stderr) == (2, True)
    assert desk.muster("trust", "--list", "--json").stdout.count(str(project.resolve())) == 0


def test_there_is_nothing_to_trust_where_nothing_is_said(desk):
    desk.repository("plain", {"a.py": ""})
    done = desk.muster("trust", "plain")
    assert (done.exit_code, "nothing to trust" in done.stderr) == (2, True)
