"""Agent files with `engine: acp`: what they may say, and whose they may be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workers.acp.program import NO_KEY, environment
from workers.acp.tools import permission
from workers.agents.layers import AgentFile, Known, with_files
from workers.agents.registry import builtin, card, parse_agent
from workers.errors import BadAgent

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
DOCUMENTED = re.findall(
    r"```markdown\n(.*?)```", (Path(__file__).parents[3] / "docs/engines.md").read_text(), re.DOTALL
)
FILE = "---\ndescription: d\nengine: acp\ncommand: [opencode, acp]\n{more}---\nBe brief.\n"


def test_a_file_names_a_program_its_variables_and_its_mode(agent_file):
    agent = parse_agent("foreign", FILE.format(more="env: {A: '${relay}'}\nsession_mode: build\n"))

    assert (agent.engine, agent.command, agent.session_mode) == ("acp", ("opencode", "acp"), "build")
    assert (agent.env, agent.options, agent.pool) == ({"A": "${relay}"}, {}, "build")
    assert card(agent).engine == "acp"


@pytest.mark.parametrize(("text", "program"), list(zip(DOCUMENTED, ("opencode", "node"), strict=True)))
def test_the_files_of_the_documentation_are_agents(text, program):
    agent = parse_agent("foreign", text)

    assert (agent.engine, agent.command[0], agent.pool) == ("acp", program, "build")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("engine: acp\n", "needs a command"),
        ("engine: acp\ncommand: []\n", "needs a command"),
        ("command: [x]\n", "with engine: acp"),
        ("env: {A: b}\n", "with engine: acp"),
        ("engine: apc\ncommand: [x]\n", "engine: "),
        ("engine: acp\ncommand: x\n", "command: "),
        ("engine: acp\ncommand: [x]\nmode: recipe\n", "a recipe calls no model"),
        ("engine: acp\ncommand: [x]\nenv: {'A B': c}\n", "no name of a variable"),
        (
            f"engine: acp\ncommand: [x]\nenv: {{KEY: {KEY}}}\n",
            "looks like a secret",
        ),
    ],
)
def test_what_makes_no_program_is_refused(text, words):
    with pytest.raises(BadAgent) as refused:
        parse_agent("foreign", f"---\ndescription: d\n{text}---\n")

    assert words in refused.value.message


@pytest.mark.parametrize("trusted", [True, False])
def test_only_people_bring_a_program(trusted):
    file = AgentFile(".muster/agents/foreign.md", "foreign", FILE.format(more="").encode())

    known = with_files(Known(builtin()), [file], trusted=trusted)

    assert ("foreign" in known.agents) == trusted
    assert [(fault.key, fault.hint) for fault in known.faults] == ([] if trusted else [("engine", "muster trust")])


def test_variables_name_the_relay_and_the_model_and_no_key():
    env = environment({"MINE": "${model}, ${key}", "OPENAI_BASE_URL": "other"}, relay="http://r", model="openai/x")

    assert env == {
        "OPENAI_BASE_URL": "other",
        "OPENAI_API_KEY": NO_KEY,
        "ANTHROPIC_BASE_URL": "http://r",
        "ANTHROPIC_API_KEY": NO_KEY,
        "MINE": f"openai/x, {NO_KEY}",
    }


@pytest.mark.parametrize(
    ("kind", "given", "paths", "targets"),
    [
        ("edit", {"filePath": "src/a.py"}, [], [("edit", "src/a.py")]),
        ("edit", None, ["/workspace/src/../b.py"], [("edit", "b.py")]),
        ("delete", {}, ["/etc/passwd"], [("external_directory", "/etc/*"), ("edit", "/etc/passwd")]),
        ("read", {"path": "/workspace/.env"}, [], [("read", ".env")]),
        ("execute", {"command": "git status && rm -r x"}, [], [("bash", "git status"), ("bash", "rm -r x")]),
        ("execute", {"command": ["git", "log", "a b"]}, [], [("bash", "git log 'a b'")]),
        ("execute", {"command": 7}, [], [("engine", "Do it")]),
        ("fetch", {"url": "https://example.org/"}, [], [("webfetch", "https://example.org/")]),
        ("edit", {}, [], [("engine", "Do it")]),
        ("other", {"filePath": "src/a.py"}, [], [("engine", "Do it")]),
    ],
)
def test_what_it_wants_is_told_in_our_permissions(kind, given, paths, targets):
    wanted = permission(kind, "Do\n it", given, paths, "")

    assert [(target.permission, target.pattern) for target in wanted.targets({})] == targets
