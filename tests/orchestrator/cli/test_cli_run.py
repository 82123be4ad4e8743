"""`muster run`, with a scripted model over real HTTP, real sandboxes and a real gate."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted import CANARY, scripted_model

from envelope.messages import TaskRequest
from orchestrator.client import Muster
from orchestrator.settings import Settings

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.acceptance]

FILES = {
    "greet.py": "def greet():\n    return 'hello'\n",
    "test_greet.py": "from greet import greet\n\n\ndef test_greet():\n    assert greet().startswith('hello')\n",
}
REFUSED = "whose key is refused"
# What each goal makes of the greeting: the script looks at the goal's words.
BROUGHT = "the-words-of-a-log"
GREETINGS = {"greet warmly": "'hello, you'", "part": "'goodbye'", "greet": "'hello!'"}


def _rules(goal: str, greeting: str) -> list[dict[str, Any]]:
    read = {"name": "read", "arguments": {"filePath": "/workspace/greet.py"}}
    change = {"filePath": "/workspace/greet.py", "oldString": "'hello'", "newString": greeting}
    replies = [
        {"text": "I look first.", "tool_calls": [read]},
        {"text": "Now I change it.", "tool_calls": [{"name": "edit", "arguments": change}]},
        {"text": "The greeting is changed, greet.py:2."},
    ]
    return [{"when": {"prompt_contains": goal, "turn": turn}, "reply": reply} for turn, reply in enumerate(replies, 1)]


@pytest.fixture(scope="module")
def fleet_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A scripted model over real HTTP."""
    refusal = {"when": {"prompt_contains": REFUSED}, "fault": {"status": 401, "message": "Incorrect API key"}}
    seen = {"when": {"user_contains": BROUGHT}, "reply": {"text": "I have read the log."}}
    thanks = {"when": {"user_contains": "thank you"}, "reply": {"text": "You are welcome."}}
    told = [refusal, seen, thanks]
    rules = [*told, *(rule for goal, greeting in GREETINGS.items() for rule in _rules(goal, greeting))]
    path = tmp_path_factory.mktemp("model") / "model.yaml"
    path.write_text(json.dumps({"rules": rules}))
    with scripted_model(path) as environment:
        yield environment


@pytest.fixture
def desk(fleet_desk):
    return fleet_desk


@pytest.fixture
def project(desk):
    return desk.repository("project", FILES)


def test_a_goal_becomes_a_verified_change_on_a_branch(desk, project):
    words = ("run", "greet warmly", "--repo", "project", "--gate", "python -m pytest -q", "--branch", "warm")

    done = desk.muster(*words, "--key", "warm")

    assert done.exit_code == 0, done.stderr
    assert done.stdout == "The greeting is changed, greet.py:2.\n"
    assert "✔ done and verified" in done.stderr
    assert "gate      after: passed, 1 test" in done.stderr
    assert "$" in done.stderr.partition("cost")[2]
    assert "hello, you" in desk.git("show", "warm:greet.py", repository=project)
    assert (project / "greet.py").read_text() == FILES["greet.py"]
    known = desk.muster(*words, "--key", "warm")
    assert (known.exit_code, known.stdout) == (0, done.stdout), known.stderr
    task = desk.muster(*words, "--key", "warm", "--detach").stdout.strip()
    on = desk.muster("run", "thank you", "--resume", task, "--gate-rule", "reruns=0")
    assert (on.exit_code, on.stdout, "✔ done and verified" in on.stderr) == (0, "You are welcome.\n", True), on.stderr
    desk.git("checkout", "-q", "warm", repository=project)
    moved, other, fresh = (desk.muster(*words, *key) for key in (("--key", "warm"), (), ("--key", "again")))
    assert "the key 'warm' stands for the task" in moved.stderr
    for refused in (other, fresh):
        assert (refused.exit_code, "the branch warm is checked out" in refused.stderr) == (2, True), refused.stderr


def test_an_ended_goal_is_shown_as_a_tree_with_its_cost_and_goes_on(desk, project, monkeypatch):
    task = desk.muster("run", "greet warmly", "--repo", "project", "--detach").stdout.strip()
    assert desk.muster("task", "watch", task).exit_code == 0

    tree, cost = desk.muster("task", "tree", task), desk.muster("task", "cost", task)
    told = json.loads(desk.muster("task", "cost", task, "--json").stdout)
    told_tree = json.loads(desk.muster("task", "tree", task, "--json").stdout)
    resumed = desk.muster("task", "resume", task, "thank you", "--budget", "1")
    again = desk.muster("run", "thank you again", "--resume", task, "--budget", "1", "--no-input")
    monkeypatch.setenv("XDG_RUNTIME_DIR", desk.environment["XDG_RUNTIME_DIR"])  # where the fleet's socket is
    headless = asyncio.run(_latest(Settings(state_dir=Path(desk.environment["MUSTER_STATE_DIR"]))))
    looking = desk.muster("run", "thank you", "--resume", task, "--read-only")

    assert "✔ build greet warmly" in tree.stderr
    assert "by model  openai/scripted" in cost.stderr and "by agent  build" in cost.stderr
    assert "of $5.00 are spent" in cost.stderr
    assert told["spent_microusd"] == told["ledger"]["spent_microusd"] > 0
    assert [told_tree["tasks"][told_tree["root"]]["agent"], len(told_tree["tasks"])] == ["run", 2]
    assert (resumed.exit_code, resumed.stdout) == (0, "You are welcome.\n"), resumed.stderr
    assert re.search(r"estimate: \$0\.0\d+ to \$0\.\d+ with openai/scripted; at \$1\.00 it stops", resumed.stderr)
    assert "no gate is configured: the session was begun without one" in resumed.stderr
    assert (again.exit_code, again.stdout) == (0, "You are welcome.\n"), again.stderr
    assert (headless.input.prompt, headless.asks) == ("thank you again", None)
    assert (headless.budget.max_cost_microusd, headless.budget.waits_at_cap) == (1_000_000, False)
    assert (looking.exit_code, "an earlier session, which may write" in looking.stderr) == (7, True), looking.stderr


def test_a_change_that_breaks_the_tests_is_not_acceptable_and_sets_no_branch(desk, project):
    words = ("run", "part", "--repo", "project", "--gate", "python -m pytest -q", "--branch", "parting")

    done = desk.muster(*words)

    assert done.exit_code == 1, done.stderr
    assert "error: the gate fails" in done.stderr
    assert "gate      before: passed, 1 test" in done.stderr
    assert "muster task diff" in done.stderr
    assert desk.git("for-each-ref", "--format=%(refname:short)", "refs/heads", repository=project) == "main"


def test_without_a_gate_it_is_done_and_not_verified(desk, project):
    """Also where its branch cannot be set in the end, which hides nothing of what was done."""
    lock = project / ".git" / "refs" / "heads" / "mine.lock"
    lock.touch()
    done = desk.muster("run", "greet", "--repo", "project", "--branch", "mine")
    lock.unlink()
    take = done.stderr.splitlines()[-1].partition("under another name: muster ")[2].split()
    taken = desk.muster(*take)

    assert done.exit_code == 2, done.stderr
    assert "✔ done, not verified" in done.stderr and "branch    mine" not in done.stderr
    assert "no gate is configured" in done.stderr
    assert "error: the branch mine could not be set" in done.stderr
    assert (taken.exit_code, desk.git("show", "NAME:greet.py", repository=project)[-8:]) == (0, "'hello!'"), taken


def test_a_detached_goal_is_found_again_by_its_id(desk, project):
    left = desk.muster("run", "greet", "--repo", "project", "--detach", "--branch", "mine")
    task_id = left.stdout.strip()
    assert f"muster publish {task_id} --repo {project} --branch mine" in left.stderr
    asked = {"_MUSTER_COMPLETE": "complete_bash", "COMP_WORDS": "muster task show ", "COMP_CWORD": "3"}
    assert task_id[-8:] in desk.muster(env=asked).stdout.split()
    watched = desk.muster("task", "watch", task_id[-8:], "--json")
    assert watched.exit_code == 0, watched.stderr
    last = json.loads(watched.stdout.splitlines()[-1])
    assert (last["kind"], last["task_id"], last["status"]) == ("result", task_id, "completed")


@pytest.mark.parametrize(
    ("goal", "options", "sentence"),
    [
        (f"do something {REFUSED}", (), "key"),
        ("greet", ("--model", "nobody/nothing", "--budget", "1"), "nobody/nothing"),
    ],
)
def test_what_is_wrong_with_the_model_is_told_with_exit_code_2(desk, project, goal, options, sentence):
    done = desk.muster("run", goal, "--repo", "project", *options)
    assert done.exit_code == 2, done.stderr
    lines = done.stderr.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("error: "))
    assert sentence in lines[at]
    assert lines[at + 1].startswith("hint: ")
    assert CANARY not in done.stderr


@pytest.mark.parametrize(
    ("agent", "sentence", "hint"),
    [("biuld", "there is no agent 'biuld'", "build"), ("explore", "'explore' is a subagent", "build")],
)
def test_an_agent_that_people_cannot_start_is_refused_before_anything_is_submitted(
    desk, project, agent, sentence, hint
):
    before = desk.muster("task", "list", "--json").stdout
    done = desk.muster("run", "greet", "--repo", "project", "--agent", agent)
    error, told = done.stderr.splitlines()[-2:]
    assert done.exit_code == 2
    assert sentence in error
    assert hint in told
    assert desk.muster("task", "list", "--json").stdout == before


def test_a_gate_is_tried_out_on_the_last_commit(desk, project):
    assert "gate   python -m pytest -q" in desk.muster("init", cwd=_with(project, "pytest.ini", "")).stderr
    (project / "muster.toml").write_text("gate = ['python -m pytest -q']\n")
    passed = desk.muster("init", "--check", cwd=project)
    assert passed.exit_code == 0, passed.stderr
    assert "gate: passed, 1 test" in passed.stderr
    (project / "muster.toml").write_text("gate = ['python -m nothing_here']\n")
    failed = desk.muster("init", "--check", cwd=project)
    assert failed.exit_code == 1
    assert "the gate cannot run on the last commit" in failed.stderr
    assert "No module named nothing_here" in failed.stderr
    assert "hint: install 'nothing_here' before the gate runs: --setup" in failed.stderr


def test_what_a_trusted_repository_says_of_its_gate_is_used(desk, project):
    _with(project, "muster.toml", "gate = ['python -m pytest -q']\nbudget = 0.5\n")
    desk.git("add", "-A", repository=project)
    desk.git("commit", "-q", "-m", "settings", repository=project)
    before = desk.muster("run", "greet", "--repo", "project")
    desk.muster("trust", "project")
    after = desk.muster("run", "greet", "--repo", "project")

    assert "muster.toml is not trusted, and its gate not used" in before.stderr
    assert "✔ done, not verified" in before.stderr
    assert "of $0.5000" in before.stderr  # it may ask for less
    assert after.exit_code == 0, after.stderr
    assert "✔ done and verified" in after.stderr


ESTIMATED = "estimate: $0.0282 to $0.6796 with openai/scripted; at $5.00 it stops"


def test_a_run_tells_before_what_it_will_about_cost_and_after_what_it_did(desk, project):
    done = desk.muster("run", "greet", "--repo", "project")
    lines = done.stderr.splitlines()
    assert lines[0] == ESTIMATED
    assert any(line.split()[:1] == ["cost"] and line.split("cost")[1].strip().startswith("$0.0") for line in lines)
    assert "of $5.00" in done.stderr


def test_who_cannot_answer_is_not_asked_about_the_cost(desk, project):
    dear = {"MUSTER_ASK_ABOVE_MICROUSD": "1"}
    done = desk.muster("run", "greet", "--repo", "project", env=dear)
    assert done.exit_code == 0, done.stderr
    assert "go on?" not in done.stderr


def test_files_go_along_and_mentions_are_attached(desk, project):
    (desk.home / "crash.log").write_text(BROUGHT)
    _with(project, "notes.txt", BROUGHT)
    desk.git("add", "-A", repository=project)
    desk.git("commit", "-q", "-m", "notes", repository=project)
    for words in (("what does it say?", "--file", "crash.log"), ("what does @notes.txt say?",)):
        done = desk.muster("run", *words, "--repo", "project")
        assert done.stdout == "I have read the log.\n", done.stderr


async def _latest(settings: Settings) -> TaskRequest:
    async with Muster.connect(settings) as muster:
        [latest] = await muster.tasks(limit=1)
        return await muster.request(latest.task_id)


def _with(project, name, text):
    (project / name).write_text(text)
    return project
