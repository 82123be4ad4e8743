"""A repository's folder of skills or commands that is a link: what it leads to may be nothing that a task may read."""

from __future__ import annotations

import pytest

from envelope.messages import TaskInput

pytestmark = [pytest.mark.redis, pytest.mark.docker]
SKILL = "---\nname: deploy\ndescription: how we deploy, by the word sesame\n---\nSECRET-SKILL\n"
SCRIPT = """
rules:
  - when: {turn: 1}
    reply: {tool_calls: [{name: skill, arguments: {name: deploy}}]}
  - reply: {text: "${result.0}"}
"""


@pytest.mark.parametrize("links", [("commands", "skills"), ("",), ("commands/deploy", "skills/deploy")])
@pytest.mark.parametrize("typed", ["/notes", "look"])
async def test_a_link_out_of_the_settings_tells_nothing(start_agents, repository, pack, typed, links):
    private = repository / "private"
    (private / "deploy").mkdir(parents=True)
    (private / "commands").mkdir()
    for place in (private / "notes.md", private / "deploy/notes.md", private / "commands/notes.md"):
        place.write_text("SECRET-NOTE\n")
    for place in (private / "SKILL.md", private / "deploy/SKILL.md"):
        place.write_text(SKILL)
    for link in links:
        place = repository / ".muster" / link
        place.parent.mkdir(exist_ok=True, parents=True)
        place.symlink_to("../" * (link.count("/") + bool(link)) + ("private/deploy" if "/" in link else "private"))
    hands, server = await start_agents(SCRIPT)
    scope = ("read:src/**", "skill:*")
    await hands.result(
        hands.request(agent="build", workspace=await pack(), input=TaskInput(prompt=typed), auth_scope=scope)
    )

    told = str(server.log.bodies)
    assert [secret for secret in ("SECRET-NOTE", "SECRET-SKILL", "sesame") if secret in told] == []


async def test_a_link_between_folders_of_settings_is_followed(start_agents, repository, pack):
    (repository / ".agents/skills/deploy").mkdir(parents=True)
    (repository / ".agents/skills/deploy/SKILL.md").write_text(SKILL)
    (repository / ".claude").mkdir()
    (repository / ".claude/skills").symlink_to("../.agents/skills")
    hands, _ = await start_agents(SCRIPT)
    request = hands.request(
        agent="build", workspace=await pack(), input=TaskInput(prompt="look"), auth_scope=("read:src/**", "skill:*")
    )

    assert "SECRET-SKILL" in (await hands.result(request)).output.text
