"""The examples of the page on prompts are what they claim to be."""

from __future__ import annotations

import re
from pathlib import Path

from workers.commands.catalogue import catalogue
from workers.commands.template import inlined, mentions, shell_commands
from workers.project.skills import parse_skill

PAGE = (Path(__file__).parent.parent.parent / "docs" / "agents" / "prompt.md").read_text()
FILES = dict(re.findall(r"^`([^`]+\.md)`:\n\n```markdown\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_the_skill_is_one():
    path = ".muster/skills/release-notes/SKILL.md"

    skill = parse_skill(f"/workspace/{path}", FILES[path].encode())

    assert skill.name == "release-notes" and skill.body.startswith("One line for each change")


def test_the_command_makes_the_prompt_that_the_page_tells():
    arguments = "src/greet.py 'one page'"
    command = catalogue(repository=FILES, users={}).named("explain").command

    prompt = inlined(command.template, arguments, ["tester"])

    assert command.agent == "plan"
    assert f'muster run "/explain {arguments}"' in PAGE
    assert shell_commands(command.template, arguments) == ["git log -1 --format=%an -- src/greet.py"]
    assert mentions(prompt) == ["src/greet.py"]
    assert prompt.endswith("at the length of one page.\nWho changed it last: tester")
