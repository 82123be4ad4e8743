"""What a person does with a task that has ended: replay it, look at its turns, take them back, hand its session on."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from shell import ROOT, User, containers, git

pytestmark = [pytest.mark.acceptance, pytest.mark.docker, pytest.mark.redis]

MODEL = """
rules:
  - when: {user_contains: linger, turn: 1}
    reply: {tool_calls: [{name: bash, arguments: {command: "mkfifo /tmp/go && cat /tmp/go"}}]}
  - {when: {user_contains: linger}, reply: {text: over}}
  - {when: {user_contains: in b}, reply: {tool_calls: [{name: bash, arguments: {command: "cat b; ls"}}]}, times: 1}
  - {when: {user_contains: in b}, reply: {text: done again}}
  - {when: {turn: 1}, reply: {tool_calls: [{name: read, arguments: {filePath: a.txt}}]}}
  - {when: {turn: 2}, reply: {tool_calls: [{name: edit, arguments: {filePath: a.txt, oldString: one, newString: two}}]}}
  - {when: {turn: 3}, reply: {tool_calls: [{name: write, arguments: {filePath: b, content: secret plans}}]}}
  - {when: {turn: 4}, reply: {tool_calls: [{name: edit, arguments: {filePath: a.txt, oldString: two, newString: six}}]}}
  - {reply: {text: all done}}
"""


@contextlib.contextmanager
def installed_commands(folder: Path) -> Iterator[str]:
    """The entry points of this tree, also where another version of it is the installed one."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    found = folder / "muster-0.1.0.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: muster\nVersion: 0.1.0\n")
    lines = [
        line for group, points in groups.items() for line in (f"[{group}]", *(f"{n} = {w}" for n, w in points.items()))
    ]
    (found / "entry_points.txt").write_text("\n".join(lines))
    yield os.pathsep.join([str(folder), str(ROOT)])


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Somebody whose agent has done one recorded task; its id is in the file `task`."""
    home = tmp_path_factory.mktemp("desk")
    (home / "model.yaml").write_text(MODEL)
    (home / "project").mkdir()
    (home / "project" / "a.txt").write_text("one\n")
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@localhost")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-q", "-m", "start")):
        git(home / "project", *words)
    server = subprocess.Popen(
        [sys.executable, "-m", "workers.llm.scripted_server", "--script", str(home / "model.yaml"), "--port", "0"],
        stdout=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert server.stdout is not None
    url = json.loads(server.stdout.readline())["url"]
    with installed_commands(home / "installed") as path:
        someone = User(home, {
            "MUSTER_MODEL": "openai/scripted", "MUSTER_MODEL_BASE_URL": f"{url}/v1", "MUSTER_MODEL_API_KEY": "no-key",
            "MUSTER_PRICES": json.dumps({"openai/scripted": {"input": 1, "output": 1}}), "PYTHONPATH": path,
        })  # fmt: skip
        assert someone.muster("up", "--detach").returncode == 0
        done = someone.muster("run", "change it", "--repo", "project", "--record")
        assert done.returncode == 0, done.stderr
        (home / "task").write_text(next(task["task_id"] for task in someone.tasks() if task["agent"] == "run"))
        yield someone
        someone.muster("down", timeout_s=60)
    server.terminate()
    server.wait()
    assert containers(someone) == []


@pytest.fixture
def task(user: User) -> str:
    return (user.home / "task").read_text()


def test_a_recorded_run_is_the_same_when_it_is_replayed(user: User, task: str):
    done = user.muster("replay", task)

    assert (done.returncode, done.stdout) == (0, "the same: 5 model call(s), 4 tool result(s)\n"), done.stderr


def test_a_replay_with_another_agents_file_shows_the_first_difference(user: User, task: str):
    (user.home / "build.md").write_text("---\ndescription: another\nmode: primary\n---\nYou answer in French.\n")

    shown = user.muster("replay", task, "--agent", "build.md")
    told = json.loads(user.muster("replay", task, "--agent", "build.md", "--json").stdout)

    assert shown.returncode == 1, shown.stderr
    assert shown.stdout.startswith("different in turn 1: it asks the model something else")
    assert "+You answer in French." in shown.stdout.splitlines()
    assert (told["same"], told["difference"]["turn"], told["model_calls"]) == (False, 1, 0)


def test_turns_tell_which_changed_which_file(user: User, task: str):
    turns = [json.loads(line) for line in user.muster("task", "turns", task, "--json").stdout.splitlines()]
    of_a = user.muster("task", "turns", task, "--file", "a.txt").stdout.splitlines()

    assert [(turn["turn"], turn["tools"], turn["files"]) for turn in turns] == [
        (1, ["read"], []),
        (2, ["edit"], ["a.txt"]),
        (3, ["write"], ["b"]),
        (4, ["edit"], ["a.txt"]),
        (5, [], []),
    ]
    assert turns[0]["prompts"] == ["change it"]
    assert [line.split()[0] for line in of_a] == ["2", "4"]


def test_an_export_holds_the_session_and_a_sanitized_one_its_shape_alone(user: User, task: str):
    whole = user.muster("task", "export", task)
    bare = user.muster("task", "export", task, "--sanitize")
    read = user.muster("task", "export", task, "--markdown", "--out", "session.md")

    assert read.returncode == 0, read.stderr
    session, shape = json.loads(whole.stdout), json.loads(bare.stdout)
    assert [message["role"] for message in session["messages"]] == [message["role"] for message in shape["messages"]]
    assert "secret plans" in whole.stdout
    assert [word for word in ("secret", "a.txt", "change it", "all done") if word in bare.stdout] == []
    assert shape["messages"][-1]["content"] == "(8 characters)"
    assert "## Person\n\nchange it" in (user.home / "session.md").read_text()


def test_a_revert_takes_messages_and_files_back_and_an_unrevert_forth(user: User, task: str):
    back = user.muster("task", "revert", task, "--to", "2")
    reverted = user.muster("task", "diff", back.stdout.split()[-1]).stdout
    turns = user.muster("task", "turns", back.stdout.split()[-1]).stdout.splitlines()
    forth = user.muster("task", "unrevert", back.stdout.split()[-1])
    whole = user.muster("task", "diff", forth.stdout.split()[-1]).stdout

    assert back.returncode == 0, back.stderr
    assert "where turn 2 of 5 ended" in back.stdout
    assert ("+two" in reverted, "secret plans" in reverted, len(turns)) == (True, False, 2)
    assert forth.returncode == 0, forth.stderr
    assert ("+six" in whole, "secret plans" in whole) == (True, True)


def test_an_agent_goes_on_from_where_a_revert_left_it(user: User, task: str):
    back = user.muster("task", "revert", task, "--to", "2").stdout.split()[-1]
    asked = user.muster("task", "prompt", back, "what is in b?").stdout.split()[-1]
    watched = user.muster("task", "watch", asked)
    late = user.muster("task", "unrevert", asked)
    shown = json.loads(user.muster("task", "export", asked).stdout)
    user.muster("task", "revert", asked, "--to", "2")

    said = [message["content"] for message in shown["messages"] if message["role"] == "tool"]
    assert watched.returncode == 0, watched.stderr
    assert "No such file" in said[-1]
    assert not any("secret plans" in json.dumps(message) for message in shown["messages"])
    assert (late.returncode, "there is no revert to take back" in late.stderr) == (2, True), late.stderr


def test_undo_redo_and_share_are_said_to_a_session(user: User):
    task = user.muster("run", "change it again", "--repo", "project", "--detach").stdout.strip()
    user.muster("task", "watch", task)
    back = user.muster("run", "/undo", "--task", task)
    assert back.returncode == 0, back.stderr
    empty = user.muster("task", "diff", back.stdout.split()[-1]).stdout
    forth = user.muster("task", "prompt", task, "/redo")
    whole = user.muster("task", "diff", forth.stdout.split()[-1]).stdout
    shared = user.muster("run", "/share", "--task", task)

    assert (back.returncode, forth.returncode, shared.returncode) == (0, 0, 0), (back.stderr, forth.stderr)
    assert back.stdout.startswith("Taken back: change it again\n\nThe session stands before its first prompt.")
    assert (empty, "secret plans" in whole) == ("", True)
    assert json.loads(shared.stdout)["messages"][-1]["content"] == "(8 characters)"


def test_a_session_under_way_is_not_taken_back(user: User):
    running = user.start("run", "linger", "--repo", "project", "--json")
    assert running.stdout is not None
    line = next(line for line in running.stdout if '"tool_call"' in line)
    refused = user.muster("run", "/undo", "--task", json.loads(line)["task_id"])
    [container] = [line.split()[0] for line in containers(user) if not line.endswith("reader")]
    subprocess.run(["docker", "exec", container, "sh", "-c", "echo go > /tmp/go"], check=True)
    running.communicate(timeout=120)

    assert (refused.returncode, "is under way in task" in refused.stderr) == (7, True), refused.stderr
    assert "hint: prompt it, or wait for it" in refused.stderr


def test_commands_of_sessions_are_listed_and_say_what_they_need(user: User):
    listed = user.muster("run", "/help", "--repo", "project").stdout
    alone = user.muster("run", "/undo", "--repo", "project")
    other = user.muster("run", "/review", "--task", "4f2a")

    assert [line.split()[0] for line in listed.splitlines()] == [
        *("/compact", "/help", "/init", "/redo", "/review", "/share", "/undo"),
    ]
    assert (alone.returncode, alone.stderr.splitlines()) == (
        2, ["error: /undo is for a session that there is", "hint: muster run /undo --task TASK"],
    )  # fmt: skip
    assert other.returncode == 2
    assert other.stderr.startswith("error: --task is for /undo, /redo, /compact, /share\nhint: say all else with:")


def test_a_turn_that_is_not_there_and_a_task_that_was_not_recorded_say_what_would_work(user: User, task: str):
    nowhere = user.muster("task", "revert", task, "--to", "50")
    other = user.muster("run", "again", "--repo", "project", "--detach").stdout.strip()
    user.muster("task", "watch", other)
    unrecorded = user.muster("replay", other)

    assert nowhere.returncode == 2
    assert "error: the session has no turn 50" in nowhere.stderr
    assert unrecorded.returncode == 2
    assert unrecorded.stderr.splitlines() == [
        "error: the task was not recorded",
        "hint: record the next one: muster run --record …",
    ]
