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
