"""A model's server that means harm, or has lost its mind: what it says in the places of ids, names and references.

Real worker, Redis and Docker; the model's server is the scripted one, over HTTP.
"""

from __future__ import annotations

import pytest

from envelope.asks import AskTerms
from envelope.events import AskOpened
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress

pytestmark = [pytest.mark.redis, pytest.mark.docker]

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
AGENTS = {"asker": ASKER, "writer": WRITER}


def task(hands, workspace, agent: str, **fields):
    told = {"auth_scope": ("read:**", "edit:**", "bash:**"), "workspace": workspace, "input": TaskInput(prompt="go")}
    return hands.request(agent=agent, **{**told, **fields})


SAME_IDS = """
rules:
  - when: {turn: 1}
    reply:
      tool_calls:
        - {name: bash, id: same, arguments: {command: touch /workspace/not-shown}}
        - {name: bash, id: same, arguments: {command: touch /workspace/shown}}
  - reply: {text: "${result.0} | ${result.1}"}
"""


async def test_a_yes_to_one_call_is_none_to_another_that_has_its_id(start_agents, workspace):
    hands, _ = await start_agents(SAME_IDS, agents=AGENTS)
    request = task(hands, workspace, "asker", asks=AskTerms())
    await hands.transport.submit([request])
    asks: dict[str, AskOpened] = {}

    def both_asked(progress: TaskProgress) -> bool:
        asks.update({event.detail: event for event in progress.events if isinstance(event, AskOpened)})
        return len(asks) == 2 and progress.status is State.WAITING

    await hands.until(request.trace_id, both_asked)
    shown, other = asks["touch /workspace/shown"], asks["touch /workspace/not-shown"]
    await hands.transport.answer(request.task_id, shown.ask_id, "once", by="tester", asked=shown.digest())
    await hands.transport.answer(
        request.task_id, other.ask_id, '{"choice": "reject", "message": "no"}', by="tester", asked=other.digest()
    )

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


async def test_an_id_that_is_a_path_names_no_file_elsewhere(start_agents, workspace):
    hands, _ = await start_agents(PATH_AS_ID, agents=AGENTS)

    result = await hands.result(task(hands, workspace, "writer"))

    assert result.output.text == "greet.py\nother.py"
    assert result.patch is None


HUGE = """
rules:
  - when: {turn: 1}
    reply: {tool_calls: [{name: "%s", id: "%s", arguments: {a: 1}}]}
  - reply: {text: "${result.0}"}
"""


async def test_a_name_and_an_id_of_a_megabyte_are_cut(start_agents, workspace):
    hands, _ = await start_agents(HUGE % ("n" * 1_100_000, "i" * 1_100_000), agents=AGENTS)

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
async def workspace_with_links(repository, pack):
    (repository / "docs").mkdir()
    (repository / "secret.key").write_text("the-secret\n")
    for name, target in {"harmless.txt": "../secret.key", "inner": "../src", "outside": "/etc", "free": "."}.items():
        (repository / "docs" / name).symlink_to(target)
    return await pack()


@pytest.mark.parametrize("asks", [None, AskTerms()], ids=["headless", "with-people"])
async def test_a_repositorys_links_lead_around_no_rule_and_no_grant(start_agents, workspace_with_links, asks):
    hands, _ = await start_agents(LINKS, agents=AGENTS)
    scope = ("read:docs/**", "read:**.key", "edit:**", "list:**")

    result = await hands.result(task(hands, workspace_with_links, "writer", auth_scope=scope, asks=asks))

    key, source, new, etc, free = result.output.text.split(" ## ")
    assert "denied by the rule `read: *.key`" in key and "leads to secret.key" in key
    assert "outside this task's scope" in source and "leads to src/greet.py" in source
    assert "denied by the rule `edit: src/*`" in new
    assert ("must allow" if asks else "needs a person's approval") in etc
    assert free.startswith("Created")
    assert [file.path for file in result.patch.files] == ["docs/a.md"]
