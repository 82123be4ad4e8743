"""A person at a terminal: an estimate to agree to, the live tree of a run with three explores, the whole fleet, an end.

The explores' model stalls until they are cancelled, so that all there is to see stays until it was seen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from screen import Screen, screen
from scripted import scripted_model

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.acceptance]

LOOKS = ("callers", "tests", "sizes")
RULES = [
    {
        "when": {"prompt_contains": "fan out", "turn": 1},
        "reply": {
            "tool_calls": [
                {
                    "name": "task",
                    "arguments": {"description": f"Find {what}", "subagent_type": "explore", "prompt": what},
                }
                for what in LOOKS
            ]
        },
    },
    {"fault": {"stall_s": 3600}},
]


@pytest.fixture(scope="module")
def fleet_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    path = tmp_path_factory.mktemp("model") / "model.json"
    path.write_text(json.dumps({"rules": RULES}))
    with scripted_model(path) as environment:
        yield environment | {"MUSTER_ASK_ABOVE_MICROUSD": "100000"}


BATCH = """
name = "tidy"
[[repositories]]
path = "project"
[shards]
files = ["greet.py", "part.py"]
[[steps]]
agent = "build"
prompt = "tidy {path}"
"""


@pytest.fixture
def terminal(fleet_desk, tmux) -> Iterator[Screen]:
    folder = Path(fleet_desk.home)
    fleet_desk.repository("project", {"greet.py": "def greet():\n    return 'hello'\n", "part.py": ""})
    (folder / "batch.toml").write_text(BATCH)
    program = folder / "muster"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m orchestrator.cli.main "$@"\n')
    program.chmod(0o755)
    colours = {name: value for name, value in fleet_desk.environment.items() if name != "COLUMNS"}
    with screen(tmux, folder) as opened:
        opened.start("sh", environment=colours, folder=folder)
        yield opened


def test_a_run_is_agreed_to_watched_left_and_found_again(terminal):
    terminal.types("./muster run 'fan out' --repo project")
    terminal.shows(r"estimate: \$0\.0282 to \$0\.6796 with openai/scripted; at \$5\.00 it stops", r"go on\? \[y/N\]")
    terminal.types("n")
    terminal.shows("nothing was submitted")

    terminal.types("clear; ./muster run 'fan out' --repo project")
    terminal.shows(r"go on\? \[y/N\]")
    terminal.types("y")
    seen = terminal.shows(r"build fan out +0/3 ended", *(f"● explore Find {what}" for what in LOOKS))
    assert seen.index("run fan out") < seen.index("build fan out") < seen.index("explore Find")

    terminal.presses("C-c")
    terminal.shows("interrupted: d leaves it running")
    terminal.types("d")
    told = terminal.shows(r"it goes on; see it with: muster task watch")
    assert "explore Find callers" in told  # the tree stays as it was

    terminal.types("clear; ./muster top; echo left with $?")
    terminal.shows(r"^muster +\d workers", r"explore +█", r"run fan out", r"0/4")
    terminal.presses("C-c")
    terminal.shows("left with 0")

    terminal.types("clear; ./muster task cancel $(./muster task list --limit 1 --json | cut -d'\"' -f4)")
    terminal.shows(r"5 task\(s\) cancelled")


def test_a_batch_of_agents_is_agreed_to(terminal):
    terminal.types("./muster batch run batch.toml; echo left with $?")
    terminal.shows(
        r"estimate: \$0\.0564 to \$1\.36 by 2 agents with openai/scripted; at \$5\.00 it stops", r"go on\? \[y/N\]"
    )
    terminal.types("n")
    terminal.shows("nothing was submitted", "left with 5")
    terminal.types("clear; ./muster batch list --json; echo left with $?")
    assert "task_id" not in terminal.shows("left with 0")
