"""Plan, then build: the example of docs/agents/plan.md, as it stands and with its workers killed on the way."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml
from scripted import scripted_model
from shell import BIN, ROOT, User, demo, git, interrupt

pytestmark = [pytest.mark.acceptance, pytest.mark.docker, pytest.mark.redis]

SCRIPT = ROOT / "examples" / "plan" / "model.yaml"
PAGE = ROOT / "docs" / "agents" / "plan.md"
GOAL = "Make chunked refuse a size below 1."
RUN = ("run", GOAL, "--agent", "plan", "--repo", "more-itertools")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# A model that says nothing more for a while: its task is in the middle of something for as long as the test needs.
STALLS = [
    *(
        {"when": {"prompt_contains": f"QUESTION {number}", "turn": 2}, "times": 1, "fault": {"stall_s": 900}}
        for number in (1, 2, 3)
    ),
    {"when": {"user_contains": "Your plan was approved", "turn": 6}, "times": 1, "fault": {"stall_s": 900}},
]
PLANNING = "You plan a change"
SECTIONS = ("Overview", "Approach", "Files to modify", "Implementation steps", "Verification")
PLANNED = "".join(f"# {section}\nchunked raises a ValueError.\n" for section in SECTIONS)
# What the model does when nobody tells it which error it shall be, and nobody says yes.
UNANSWERED = [
    {
        "when": {"system_contains": PLANNING, "turn": 3},
        "capture": {"file": {"of": "prompt", "pattern": r"/workspace/\.muster/plans/\S+\.md"}},
        "reply": {"tool_calls": [{"name": "write", "arguments": {"filePath": "${file}", "content": PLANNED}}]},
    },
    *({"when": {"system_contains": PLANNING, "turn": turn}, "reply": {"text": "There is nobody."}} for turn in (5, 6)),
]


@pytest.fixture
def with_script(user: User) -> Iterator[Any]:
    """`with_script(rules…)` points the user's workers at the example's model, with rules before its own."""
    with ExitStack() as stack:

        def serve(*before: dict[str, Any]) -> None:
            file = user.home / "model.yaml"
            file.write_text(yaml.safe_dump({"rules": [*before, *yaml.safe_load(SCRIPT.read_text())["rules"]]}))
            user.environment = stack.enter_context(scripted_model(file))

        yield serve
        user.muster("down")


def test_a_plan_is_asked_about_approved_elsewhere_built_and_proved(user: User, with_script):
    assert f"muster run {shlex.quote(GOAL)} --agent plan --repo more-itertools" in PAGE.read_text().replace('"', "'")
    with_script()
    left = user.muster(*RUN, "--setup", demo.SETUP, "--gate", demo.TESTS)
    assert left.returncode == 9, left.stderr
    root = next(task["task_id"] for task in user.tasks() if task["agent"] == "run")
    watching = user.start("task", "watch", root, "--json")
    with answers_over_http(user) as answer:
        answer(next(asks := asks_of(watching)), says=["ValueError"])
        answer(leave := next(asks), choice="once")
    _, complaint = watching.communicate(timeout=240)
    shown = user.muster("task", "show", root)
    diff = user.muster("task", "diff", root).stdout

    assert watching.returncode == 0, complaint
    assert leave["permission"] == "plan_exit" and "raise ValueError at the call" in leave["detail"]
    assert "done and verified" in shown.stderr
    assert diff_paths(diff) == ["NEWS.txt", "more_itertools/more.py"]
    assert agents_in(tree_of(user, root)) == {"run": 1, "plan": 1, "explore": 3, "build": 1, "verify": 2}
    assert git(user.home / "more-itertools", "status", "--porcelain") == ""


@contextmanager
def answers_over_http(user: User) -> Iterator[Callable[..., None]]:
    token = user.muster("token", "create", "phone", "--role", "approver").stdout.strip()
    server = user.start("serve", "--port", "0")
    assert server.stderr is not None
    [url] = re.findall(r"http://\S+", server.stderr.readline())

    def answer(ask: dict[str, Any], **words: Any) -> None:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        address = f"{url}/v1/asks/{ask['ask_id']}/answer"
        with urlopen(Request(address, json.dumps(words).encode(), headers), timeout=60) as response:
            assert json.load(response)["by"] == "api:phone"

    try:
        yield answer
    finally:
        interrupt(server)
        server.communicate(timeout=60)


def asks_of(watching: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """What is asked, each as soon as its task waits for it: before, there is nothing to answer."""
    assert watching.stdout is not None
    told, seen = dict[tuple[str, str], dict[str, Any]](), set[str]()
    for message in map(json.loads, watching.stdout):
        asker = message["task_id"]
        opened = (event for event in message.get("events", ()) if event["kind"] == "ask_opened")
        told |= {(asker, event["ask_id"]): event for event in opened}
        if message.get("status") == "waiting":
            new = [ask for (task_id, ask_id), ask in told.items() if task_id == asker and ask_id not in seen]
            seen.update(ask["ask_id"] for ask in new)
            yield from new


def test_workers_killed_in_the_middle_are_replaced_and_nothing_runs_twice(user: User, with_script):
    with_script(*STALLS)
    with at_a_terminal(user, *RUN) as terminal:
        terminal.shows(r"[●◌] plan [^\n]*" + r"\n +● explore [^\n]*2 turns[^\n]*" * 3)
        root = next(task["task_id"] for task in user.tasks() if task["agent"] == "run")
        kill_workers_of(user, root, "explore")
        terminal.shows("Which error should")
        kill_workers_of(user, root, "plan")
        terminal.types("ValueError")
        terminal.shows("raise ValueError at the call")
        terminal.shows("yes/no")
        terminal.types("yes")
        terminal.shows(r"● build [^\n]*2 turns")
        kill_workers_of(user, root, "build")
        terminal.ends()

    assert terminal.process.returncode == 0
    tree = tree_of(user, root)
    assert agents_in(tree) == {"run": 1, "plan": 1, "explore": 3, "build": 1}
    assert {task["state"] for task in tree} == {"completed"}
    assert all(task["lost_leases"] for task in tree if task["agent"] in ("explore", "build"))
    diff = user.muster("task", "diff", root).stdout
    assert diff_paths(diff) == ["NEWS.txt", "more_itertools/more.py"]
    assert diff.count("+chunked() refuses") == diff.count("+        raise ValueError") == 1
    assert set(ends_of_calls(user, root).values()) == {1}


def test_what_nobody_answers_in_time_builds_nothing(user: User, with_script):
    with_script(*UNANSWERED)
    user.environment |= {"MUSTER_ASK_TIMEOUT_S": "1"}
    left = user.muster(*RUN, "--detach")
    root = next(task["task_id"] for task in user.tasks() if task["agent"] == "run")
    watched = user.muster("task", "watch", root, "--json")

    events = [event for line in watched.stdout.splitlines() for event in json.loads(line).get("events", ())]
    answers = [event["answer"] for event in events if event["kind"] == "ask_answered"]
    assert (left.returncode, answers) == (0, ["none", "none"]), left.stderr
    assert agents_in(tree_of(user, root)) == {"run": 1, "plan": 1, "explore": 3}
    assert user.muster("task", "diff", root).stdout == ""
    result = json.loads(watched.stdout.splitlines()[-1])
    assert [error["code"] for error in result["errors"]] == ["plan_incomplete"]


def tree_of(user: User, root: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in user.muster("task", "list", "--trace", root, "--json").stdout.splitlines()]


def agents_in(tree: list[dict[str, Any]]) -> Counter[str]:
    return Counter(task["agent"] for task in tree)


def diff_paths(diff: str) -> list[str]:
    return sorted(re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE))


def kill_workers_of(user: User, root: str, agent: str) -> None:
    tasks = [task["task_id"] for task in tree_of(user, root) if task["agent"] == agent]
    lives = [json.loads(user.muster("task", "show", "--json", task_id).stdout) for task_id in tasks]
    for pid in {int(life["life"]["attempts"][-1]["worker"].split("-")[-2]) for life in lives}:
        os.kill(pid, signal.SIGKILL)


def ends_of_calls(user: User, root: str) -> Counter[tuple[str, str]]:
    """How often each tool call of the trace came to an end, and each task (its call is empty)."""
    ends = Counter[tuple[str, str]]()
    for message in map(json.loads, user.muster("task", "watch", root, "--json").stdout.splitlines()):
        ends.update(
            (message["task_id"], event["call_id"])
            for event in message.get("events", ())
            if event["kind"] == "tool_call" and event["state"] in ("completed", "error")
        )
        ends.update([(message["task_id"], "")] if message["kind"] == "result" else [])
    return ends


class at_a_terminal:
    """A command that has a keyboard and a screen."""

    def __init__(self, user: User, *words: str) -> None:
        self._keyboard, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 140, 0, 0))
        self.process = subprocess.Popen(
            [BIN / "muster", *words], env={**user._env(), "TERM": "xterm"}, cwd=user.home, stdin=terminal,
            stderr=terminal, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        os.close(terminal)
        self._seen = ""

    def __enter__(self) -> at_a_terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        os.close(self._keyboard)

    def shows(self, pattern: str, *, timeout_s: float = 180) -> None:
        """Wait for it; what came before it is looked at no more."""
        ends_s = time.monotonic() + timeout_s
        while (found := re.search(pattern, self._seen)) is None:
            assert self._reads(ends_s - time.monotonic()), f"{pattern} is not in:\n{self._seen[-4000:]}"
        self._seen = self._seen[found.end() :]

    def types(self, line: str) -> None:
        os.write(self._keyboard, f"{line}\n".encode())

    def ends(self, timeout_s: float = 180) -> None:
        ends_s = time.monotonic() + timeout_s
        while self._reads(ends_s - time.monotonic()):
            pass
        self.process.wait(max(1, ends_s - time.monotonic()))

    def _reads(self, timeout_s: float) -> bool:
        """False at the end, or when nothing comes in time."""
        if not select.select([self._keyboard], [], [], max(0, timeout_s))[0]:
            return False
        try:
            part = os.read(self._keyboard, 65536)
        except OSError:  # the other end was closed
            return False
        self._seen = ESCAPES.sub("", (self._seen + part.decode(errors="replace")).replace("\r\n", "\n"))
        return bool(part)
