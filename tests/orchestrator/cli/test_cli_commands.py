"""`muster run /name` and `muster commands`, with a scripted model over real HTTP and real sandboxes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from scripted import scripted_model

from envelope.agents import AgentCard, CommandCard
from orchestrator.cli.slash import agent_for, command_of, model_for
from orchestrator.errors import UnknownName

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.acceptance]

FILES = {
    "greet.py": "def greet():\n    return 'hello'\n",
    ".muster/commands/think.md": "---\ndescription: A look\nagent: plan\nmodel: openai/other\n---\nThink of $1.",
    ".claude/commands/broken.md": "---\ndescription: x\n",
}
RULES: list[dict[str, Any]] = [
    {
        "when": {"prompt_contains": "Review code of this project", "turn": 1},
        "reply": {"tool_calls": [{"name": "read", "arguments": {"filePath": "greet.py"}}]},
    },
    {"when": {"prompt_contains": "Review code of this project"}, "reply": {"text": "greet.py:2 greets nobody."}},
    {"when": {"prompt_contains": "/review"}, "reply": {"text": "It says: ${result.0}"}},
    {
        "when": {"prompt_contains": "Think of parsers.", "system_contains": "You plan a change"},
        "reply": {"text": "Hm."},
    },
]


@pytest.fixture(scope="module")
def fleet_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    path = tmp_path_factory.mktemp("model") / "model.yaml"
    path.write_text(json.dumps({"rules": RULES}))
    price = {"input": 1_000_000, "output": 5_000_000}
    prices = json.dumps({"openai/scripted": price, "openai/other": price})
    with scripted_model(path) as environment:
        yield environment | {"MUSTER_PRICES": prices}


@pytest.fixture
def desk(fleet_desk):
    fleet_desk.repository("project", FILES)
    return fleet_desk


def test_review_is_done_by_a_subagent_and_told(desk):
    done = desk.muster("run", "/review greet.py", "--repo", "project")

    assert done.exit_code == 0, done.stderr
    assert "It says: <task id=" in done.stdout and "greet.py:2 greets nobody." in done.stdout
    [root] = map(json.loads, desk.muster("task", "list", "--json").stdout.splitlines())
    tasks = desk.muster("task", "list", "--trace", root["task_id"], "--json").stdout.splitlines()
    assert {json.loads(task)["agent"] for task in tasks} == {"run", "build", "general"}


def test_a_commands_agent_and_model_are_taken_unless_others_are_named(desk):
    unknown = desk.muster("run", "/think parsers", "--repo", "project", "--no-input", "--json")
    assert desk.muster("trust", "project").exit_code == 0
    planned = desk.muster("run", "/think parsers", "--repo", "project", "--no-input", "--json")
    named = desk.muster("run", "/think parsers", "--repo", "project", "--agent", "build")

    assert '"model":"openai/scripted"' in unknown.stdout.replace(" ", "")
    assert '"model":"openai/other"' not in unknown.stdout.replace(" ", ""), "a stranger chooses no model"
    assert "'openai/other', and is not trusted: not used" in unknown.stderr
    assert planned.exit_code == 0, planned.stderr
    assert '"model":"openai/other"' in planned.stdout.replace(" ", "")
    assert named.exit_code != 0 and "no rule fits" in named.stderr, "the script answers to nobody but plan"


def test_commands_are_listed_with_their_sources_and_faults(desk):
    listed = desk.muster("commands", "list", "--repo", "project")
    as_json = desk.muster("commands", "list", "--repo", "project", "--json")
    helped = desk.muster("run", "/help", "--repo", "project")

    assert "/think  [repository]  A look" in listed.stdout and "/init  [builtin]" in listed.stdout
    assert "broken.md: command 'broken': it has no front matter that ends" in listed.stderr
    cards = {card["name"]: card for card in map(json.loads, as_json.stdout.splitlines())}
    assert (cards["think"]["agent"], cards["review"]["subtask"]) == ("plan", True)
    assert (helped.exit_code, "/think  A look" in helped.stdout.splitlines()) == (0, True)


def test_an_unknown_command_is_refused_before_anything_is_submitted(desk):
    before = desk.muster("task", "list", "--json").stdout

    done = desk.muster("run", "/reveiw", "--repo", "project")

    assert (done.exit_code, desk.muster("task", "list", "--json").stdout) == (2, before)
    error, hint = done.stderr.splitlines()[-2:]
    assert error == "error: there is no command /reveiw"
    assert hint.startswith("hint: did you mean 'review'?")


AGENTS = (
    AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**")),
    AgentCard(name="plan", mode="primary", pool="general", auth_scope=("read:**", "plan_exit:*")),
    AgentCard(name="surfer", mode="primary", pool="build", auth_scope=("read:**", "webfetch:**")),
    AgentCard(name="explore", mode="subagent", pool="explore", auth_scope=("read:**",)),
)
BY_NAME = {card.name: card for card in AGENTS}


@pytest.mark.parametrize(
    ("command", "default", "agent"),
    [
        (None, "build", "build"),
        (None, "plan", "plan"),
        (CommandCard(name="x"), "build", "build"),
        (CommandCard(name="x", agent="plan", source="repository"), "build", "plan"),
        (CommandCard(name="x", agent="explore"), "build", "build"),
        (CommandCard(name="x", agent="surfer", source="user"), "build", "surfer"),
        (CommandCard(name="x", agent="surfer", source="repository"), "build", "build"),  # it may only narrow
    ],
)
def test_who_does_a_command(command, default, agent):
    assert agent_for(command, BY_NAME[default], BY_NAME).name == agent


@pytest.mark.parametrize(
    ("source", "is_trusted", "named", "model"),
    [
        ("repository", False, "", ""),
        ("repository", False, "mine", "mine"),
        ("repository", True, "", "costly"),
        ("repository", True, "mine", "mine"),
        ("user", False, "", "costly"),
        ("builtin", False, "", "costly"),
    ],
)
def test_which_model_does_a_command(source, is_trusted, named, model):
    command = CommandCard(name="x", model="costly", source=source)

    assert model_for(command, named, is_trusted=is_trusted) == model
    assert model_for(None, named, is_trusted=is_trusted) == named


def test_a_command_for_an_agent_that_is_not_there_says_so():
    with pytest.raises(UnknownName, match="is for the agent 'paln'") as refused:
        agent_for(CommandCard(name="x", agent="paln"), BY_NAME["build"], BY_NAME)

    assert "did you mean 'plan'?" in refused.value.hint


async def test_a_prompt_of_a_server_is_left_to_the_worker(tmp_path):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)

    assert await command_of("/docs:review src/a.py", tmp_path) is None
    with pytest.raises(UnknownName, match="there is no command /docs"):
        await command_of("/docs", tmp_path)
