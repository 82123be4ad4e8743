"""`muster run`, with a scripted model over real HTTP, real sandboxes and a real gate."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.acceptance]

FILES = {
    "greet.py": "def greet():\n    return 'hello'\n",
    "test_greet.py": "from greet import greet\n\n\ndef test_greet():\n    assert greet().startswith('hello')\n",
}
READS_AND_EDITS = """
rules:
  - when: {turn: 1}
    reply: {text: I look first., tool_calls: [{name: read, arguments: {filePath: /workspace/greet.py}}]}
  - when: {turn: 2}
    reply:
      text: Now I change it.
      tool_calls:
        - name: edit
          arguments: {filePath: /workspace/greet.py, oldString: "'hello'", newString: "NEW"}
  - when: {turn: 3}
    reply: {text: "The greeting is changed, greet.py:2."}
"""
ANSWERS_401 = "rules: [{when: {}, fault: {status: 401, message: Incorrect API key}}]"

Serve = Callable[[str], dict[str, str]]


@pytest.fixture
def serve(desk) -> Iterator[Serve]:
    servers: list[subprocess.Popen[bytes]] = []

    def start(script: str) -> dict[str, str]:
        path = desk.home / "model.yaml"
        path.write_text(script)
        words = [sys.executable, "-m", "workers.llm.scripted_server", "--script", str(path), "--port", "0"]
        server = subprocess.Popen(words, stdout=subprocess.PIPE)
        servers.append(server)
        assert server.stdout is not None
        return {
            "MUSTER_MODEL": "openai/scripted",
            "MUSTER_MODEL_BASE_URL": f"{json.loads(server.stdout.readline())['url']}/v1",
            "MUSTER_MODEL_API_KEY": "no-key-on-loopback",
            "MUSTER_PRICES": json.dumps({"openai/scripted": {"input": 1_000_000, "output": 5_000_000}}),
        }

    yield start
    for server in servers:
        server.terminate()
        server.wait()


@pytest.fixture
def project(desk):
    return desk.repository("project", FILES)


def test_a_goal_becomes_a_verified_change_on_a_branch(desk, project, serve):
    model = serve(READS_AND_EDITS.replace("NEW", "'hello, you'"))
    words = ("run", "greet warmly", "--repo", "project", "--gate", "python -m pytest -q", "--branch", "warm")

    done = desk.muster(*words, env=model)

    assert done.exit_code == 0, done.stderr
    assert done.stdout == "The greeting is changed, greet.py:2.\n"
    assert "✔ done and verified" in done.stderr
    assert "gate      after: passed, 1 test" in done.stderr
    assert "$" in done.stderr.partition("cost")[2]
    assert "hello, you" in desk.git("show", "warm:greet.py", repository=project)
    assert (project / "greet.py").read_text() == FILES["greet.py"]


def test_a_change_that_breaks_the_tests_is_not_acceptable_and_sets_no_branch(desk, project, serve):
    model = serve(READS_AND_EDITS.replace("NEW", "'goodbye'"))
    words = ("run", "part", "--repo", "project", "--gate", "python -m pytest -q", "--branch", "parting")

    done = desk.muster(*words, env=model)

    assert done.exit_code == 1, done.stderr
    assert "error: the gate fails" in done.stderr
    assert "gate      before: passed, 1 test" in done.stderr
    assert "muster task diff" in done.stderr
    assert desk.git("for-each-ref", "--format=%(refname:short)", "refs/heads", repository=project) == "main"


def test_without_a_gate_it_is_done_and_not_verified(desk, project, serve):
    done = desk.muster("run", "greet", "--repo", "project", env=serve(READS_AND_EDITS.replace("NEW", "'hello!'")))
    assert done.exit_code == 0, done.stderr
    assert "✔ done, not verified" in done.stderr
    assert "no gate is configured" in done.stderr


def test_a_detached_goal_is_found_again_by_its_id(desk, project, serve):
    model = serve(READS_AND_EDITS.replace("NEW", "'hello!'"))
    task_id = desk.muster("run", "greet", "--repo", "project", "--detach", env=model).stdout.strip()
    watched = desk.muster("task", "watch", task_id[-8:], "--json", env=model)
    assert watched.exit_code == 0, watched.stderr
    last = json.loads(watched.stdout.splitlines()[-1])
    assert (last["kind"], last["task_id"], last["status"]) == ("result", task_id, "completed")


@pytest.mark.parametrize(
    ("options", "script", "sentence"),
    [
        ((), ANSWERS_401, "key"),
        (("--model", "nobody/nothing", "--budget", "1"), READS_AND_EDITS, "nobody/nothing"),
    ],
)
def test_what_is_wrong_with_the_model_is_told_with_exit_code_2(desk, project, serve, options, script, sentence):
    done = desk.muster("run", "greet", "--repo", "project", *options, env=serve(script))
    assert done.exit_code == 2, done.stderr
    lines = done.stderr.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("error: "))
    assert sentence in lines[at]
    assert lines[at + 1].startswith("hint: ")
    assert "no-key-on-loopback" not in done.stderr


@pytest.mark.parametrize(
    ("agent", "sentence", "hint"),
    [("biuld", "there is no agent 'biuld'", "build"), ("explore", "'explore' is a subagent", "build")],
)
def test_an_agent_that_people_cannot_start_is_refused_before_anything_is_submitted(
    desk, project, agent, sentence, hint
):
    done = desk.muster("run", "greet", "--repo", "project", "--agent", agent)
    error, told = done.stderr.splitlines()[-2:]
    assert done.exit_code == 2
    assert sentence in error
    assert hint in told
    assert desk.muster("task", "list", "--json").stdout == ""
