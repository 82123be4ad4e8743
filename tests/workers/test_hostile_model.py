"""A model's server that means harm, or has lost its mind: what it says in the places of ids, names and references.

Real worker, Redis and Docker; the model's server is the scripted one, over HTTP.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from envelope.asks import AskTerms
from envelope.events import AskOpened
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress, Workspace
from repo.bundle import bundle

pytestmark = [pytest.mark.redis, pytest.mark.docker]

MODEL = "openai/scripted"
ASKER = """---
description: asks
mode: all
pool: build
permission: {bash: {"*": ask, "git status": allow}}
---
You ask.
"""
WRITER = """---
description: may write some files, and read most
mode: all
pool: build
permission: {bash: allow, edit: {"*": allow, "src/*": deny}, read: {"*": allow, "*.key": deny}}
---
You write.
"""


@pytest.fixture
def start_hostile(start_hands, serve):
    async def start(script: str):
        server = await serve(script)
        told = {"model": MODEL, "model_base_url": server.base_url, "model_api_key": "unused-key"}
        return await start_hands(agents={"asker": ASKER, "writer": WRITER}, **told)

    return start


def task(hands, workspace, agent: str, **fields):
    told = {"auth_scope": ("read:**", "edit:**", "bash:**"), "workspace": workspace, "input": TaskInput(prompt="go")}
    return hands.request(agent=agent, **{**told, **fields})


def git(root: Path, *words: str) -> str:
    identity = {
        f"GIT_{who}_{what}": "tester@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), **identity}
    done = subprocess.run(["git", "-C", root, *words], env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


SAME_IDS = """
rules:
  - when: {turn: 1}
    reply:
      tool_calls:
        - {name: bash, id: same, arguments: {command: touch /workspace/not-shown}}
        - {name: bash, id: same, arguments: {command: touch /workspace/shown}}
  - reply: {text: "${result.0} | ${result.1}"}
"""


async def test_a_yes_to_one_call_is_none_to_another_that_has_its_id(start_hostile, workspace):
    hands = await start_hostile(SAME_IDS)
    request = task(hands, workspace, "asker", asks=AskTerms())
    await hands.transport.submit([request])
    asks: dict[str, AskOpened] = {}

    def both_asked(progress: TaskProgress) -> bool:
        asks.update({event.detail: event for event in progress.events if isinstance(event, AskOpened)})
        return len(asks) == 2 and progress.status is State.WAITING

    await hands.until(request.trace_id, both_asked)
    shown, other = asks["touch /workspace/shown"], asks["touch /workspace/not-shown"]
    await hands.transport.answer(request.task_id, shown.ask_id, "once", by="tester")
    await hands.transport.answer(request.task_id, other.ask_id, '{"choice": "reject", "message": "no"}', by="tester")

    result = await hands.ended(request.task_id)

    assert [file.path for file in result.patch.files] == ["shown"]


PATH_AS_ID = """
rules:
  - when: {turn: 1}
    reply:
      tool_calls:
        - {name: bash, id: "../../workspace/src/planted", arguments: {command: seq 9000; git status --short}}
  - when: {turn: 2}
    reply: {tool_calls: [{name: bash, arguments: {command: ls /workspace/src}}]}
  - reply: {text: "${result.1}"}
"""


async def test_an_id_that_is_a_path_names_no_file_elsewhere(start_hostile, workspace):
    hands = await start_hostile(PATH_AS_ID)

    result = await hands.result(task(hands, workspace, "writer"))

    assert result.output.text == "greet.py\nother.py"
    assert result.patch is None


HUGE = """
rules:
  - when: {turn: 1}
    reply: {tool_calls: [{name: "%s", id: "%s", arguments: {a: 1}}]}
  - reply: {text: "${result.0}"}
"""


async def test_a_name_and_an_id_of_a_megabyte_are_cut(start_hostile, workspace):
    hands = await start_hostile(HUGE % ("n" * 1_100_000, "i" * 1_100_000))

    result = await hands.result(task(hands, workspace, "writer"))

    assert result.status is State.COMPLETED, result.errors
    assert result.output.text.startswith("Error: there is no tool 'nnn") and len(result.output.text) < 1000


LINKS = """
rules:
  - when: {turn: 1}
    reply:
      tool_calls:
        - {name: read, arguments: {filePath: docs/harmless.txt}}
        - {name: read, arguments: {filePath: docs/inner/greet.py}}
        - {name: write, arguments: {filePath: docs/inner/new.py, content: planted}}
  - when: {turn: 2}
    reply: {tool_calls: [{name: list, arguments: {path: docs/outside}}]}
  - when: {turn: 3}
    reply: {tool_calls: [{name: write, arguments: {filePath: docs/free/a.md, content: a}}]}
  - reply: {text: "${result.0} ## ${result.1} ## ${result.2} ## ${result.3} ## ${result.4}"}
"""


@pytest.fixture
async def workspace_with_links(repository, transport, tmp_path):
    (repository / "docs").mkdir()
    (repository / "secret.key").write_text("the-secret\n")
    for name, target in {"harmless.txt": "../secret.key", "inner": "../src", "outside": "/etc", "free": "."}.items():
        (repository / "docs" / name).symlink_to(target)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", "links")
    head, file = git(repository, "rev-parse", "HEAD"), tmp_path / "links.bundle"
    await bundle(repository, head, file)
    return Workspace(bundle=await transport.blobs.put(file.read_bytes()), base=head)


@pytest.mark.parametrize("asks", [None, AskTerms()], ids=["headless", "with-people"])
async def test_a_repositorys_links_lead_around_no_rule_and_no_grant(start_hostile, workspace_with_links, asks):
    hands = await start_hostile(LINKS)
    scope = ("read:docs/**", "read:**.key", "edit:**", "list:**")

    result = await hands.result(task(hands, workspace_with_links, "writer", auth_scope=scope, asks=asks))

    key, source, new, etc, free = result.output.text.split(" ## ")
    assert "denied by the rule `read: *.key`" in key and "leads to secret.key" in key
    assert "outside this task's scope" in source and "leads to src/greet.py" in source
    assert "denied by the rule `edit: src/*`" in new
    assert ("must allow" if asks else "needs a person's approval") in etc
    assert free.startswith("Created")
    assert [file.path for file in result.patch.files] == ["docs/a.md"]
