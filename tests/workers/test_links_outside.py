"""A repository's links: searches, commands and instruction files are judged by where they lead."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskInput, Workspace
from repo.bundle import bundle

pytestmark = [pytest.mark.redis, pytest.mark.docker]

MODEL = "openai/scripted"
AGENT = """---
description: reads no keys
mode: primary
permission:
  read: {"*": allow, "*.key": deny}
---
You look.
"""
LOOKS = """
rules:
  - when: {turn: 1}
    reply:
      tool_calls:
        - {name: grep, arguments: {pattern: root, path: docs/outside}}
        - {name: glob, arguments: {pattern: "*", path: docs/outside}}
        - {name: bash, arguments: {command: ls, workdir: docs/outside}}
        - {name: grep, arguments: {pattern: greet, path: docs/inner}}
        - {name: bash, arguments: {command: ls, workdir: docs/inner}}
        - {name: read, arguments: {filePath: src/greet.py}}
  - reply: {text: "${result.0} ## ${result.1} ## ${result.2} ## ${result.3} ## ${result.4} ## ${result.5}"}
"""
LINKS = {
    "docs/outside": "/etc",
    "docs/inner": "../src",
    "AGENTS.md": "secret.key",
    "CLAUDE.md": "conventions.txt",
    "src/AGENTS.md": "/etc/passwd",
}


def git(root: Path, *words: str) -> str:
    who = {f"GIT_{one}_{what}": "tester@localhost" for one in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), **who}
    return subprocess.run(
        ["git", *words], cwd=root, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
async def workspace_of(repository, transport, tmp_path):
    async def packed(links: dict[str, str]) -> Workspace:
        (repository / "docs").mkdir()
        (repository / "secret.key").write_text("the-secret\n")
        (repository / "conventions.txt").write_text("Use tabs.\n")
        for name, target in links.items():
            (repository / name).symlink_to(target)
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", "-m", "links")
        head, file = git(repository, "rev-parse", "HEAD"), tmp_path / "links.bundle"
        await bundle(repository, head, file)
        return Workspace(bundle=await transport.blobs.put(file.read_bytes()), base=head)

    return packed


@pytest.fixture
def looked(start_hands, serve):
    async def look(workspace: Workspace):
        server = await serve(LOOKS)
        told = {"model": MODEL, "model_base_url": server.base_url, "model_api_key": "unused-key"}
        hands = await start_hands(**told, agents={"looker": AGENT})
        scope = ("read:**", "grep:**", "glob:**", "bash:**")
        request = hands.request(agent="looker", workspace=workspace, input=TaskInput(prompt="look"), auth_scope=scope)
        return await hands.result(request), server

    return look


async def test_searches_and_commands_reach_no_further_by_a_link(looked, workspace_of):
    result, _ = await looked(await workspace_of(LINKS))

    grep, glob, bash, inside, ran, _ = result.output.text.split(" ## ")
    assert result.status is State.COMPLETED
    for refused in (grep, glob, bash):
        assert "external_directory" in refused and "docs/outside is a link" in refused and "leads to /etc" in refused
    assert "greet.py" in inside and "Line 1" in inside
    assert "greet.py" in ran


async def test_an_instruction_file_behind_a_link_is_told_only_if_it_may_be_read(looked, workspace_of):
    result, server = await looked(await workspace_of(LINKS))

    system = server.log.bodies[0]["messages"][0]["content"]
    read = result.output.text.split(" ## ")[5]
    assert "the-secret" not in system and "root:" not in system
    assert "1: def greet" in read and "root:" not in read


async def test_the_next_kind_counts_where_a_link_leads_out(looked, workspace_of):
    _, server = await looked(await workspace_of({**LINKS, "AGENTS.md": "/etc/hostname"}))

    assert "Use tabs." in server.log.bodies[0]["messages"][0]["content"]
