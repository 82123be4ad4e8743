"""An agent in a folder of its repository: scripted model over HTTP, real Redis, Docker and git."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import Attachment, TaskInput, Workspace
from sandbox.base import WORKSPACE
from workers.tools.apply_patch import ApplyPatch
from workers.tools.rooted import Rooted

PATCH = """\
*** Begin Patch
*** Update File: other.py
*** Move to: /workspace/src/moved.py
@@
-X = 1
+X = "*** Add File: no header"
*** Add File: sub/new.py
+*** Delete File: text of a file
*** End Patch"""


@pytest.fixture
def inside(start_agents, workspace: Workspace) -> Callable:
    """`await inside(subpath, calls, …)`: what calls of one turn gave in this folder; the result; the model's server."""

    async def run(subpath: str, calls: list[dict], **fields):
        said = " ## ".join(f"${{result.{n}}}" for n in range(len(calls)))
        rules = [{"when": {"turn": 1}, "reply": {"tool_calls": calls}}, {"reply": {"text": said}}]
        hands, server = await start_agents(json.dumps({"rules": rules}))
        where = workspace.model_copy(update={"subpath": subpath})
        told = {"agent": "build", "input": TaskInput(prompt="work"), "workspace": where, "auth_scope": ("*:**",)}
        result = await hands.result(hands.request(**{**told, **fields}))
        return result.output.text.split(" ## "), result, server

    return run


def call(tool: str, **arguments: object) -> dict:
    return {"name": tool, "arguments": arguments}


@pytest.mark.redis
@pytest.mark.docker
async def test_tools_and_prompt_start_in_the_folder(inside):
    calls = [
        call("list"),
        call("read", filePath="greet.py"),
        call("glob", pattern="**/*.py"),
        call("grep", pattern="greet"),
        call("bash", command="pwd"),
        call("bash", command="pwd", workdir="../tests"),
        call("write", filePath="sub/new.py", content="Y = 2\n"),
        call("read", filePath="../tests/test_greet.py", limit=1),
    ]

    texts, result, server = await inside("src", calls)

    assert texts[0] == "greet.py\nother.py"
    assert "<path>/workspace/src/greet.py</path>" in texts[1]
    assert set(texts[2].split("\n")) >= {"/workspace/src/greet.py", "/workspace/src/other.py"}
    assert "/workspace/src/greet.py" in texts[3] and "tests" not in texts[3]
    assert texts[4:6] == ["/workspace/src", "/workspace/tests"]
    assert [file.path for file in result.patch.files] == ["src/sub/new.py"]
    assert "import sys" in texts[7]
    prompt = server.log.bodies[0]["messages"][0]["content"]
    assert "Directory: /workspace/src (writable)" in prompt
    assert "test_greet.py" not in prompt


@pytest.mark.redis
@pytest.mark.docker
async def test_grants_are_still_read_from_the_top(inside):
    calls = [
        call("write", filePath="new.py", content="Y = 2\n"),
        call("write", filePath="../new.py", content="Y = 2\n"),
    ]

    texts, result, _ = await inside("src", calls, auth_scope=("edit:src/**",))

    assert "outside this task's scope" in texts[1]
    assert [file.path for file in result.patch.files] == ["src/new.py"]


@pytest.mark.redis
@pytest.mark.docker
@pytest.mark.parametrize("subpath", ["nowhere", "src/greet.py", "../etc", "/etc"])
async def test_a_folder_that_is_none_is_refused(inside, subpath: str):
    _, result, server = await inside(subpath, [])

    assert (result.status, result.errors[0].code) == (State.ERROR, ErrorCode.BAD_INPUT)
    assert subpath in result.errors[0].message and result.errors[0].hint
    assert server.log.requests == 0


@pytest.mark.redis
@pytest.mark.docker
async def test_a_session_goes_on_with_its_work_and_new_attachments(start_agents, workspace: Workspace):
    hands, server = await start_agents(
        """
rules:
  - {when: {user_contains: second, turn: 3}, reply: {tool_calls: [{name: bash, arguments: {command: cat new.py}}]}}
  - {when: {user_contains: second}, reply: {text: "${result.1}"}}
  - {when: {turn: 1}, reply: {tool_calls: [{name: write, arguments: {filePath: new.py, content: "Y = 2"}}]}}
  - {reply: {text: done}}
"""
    )
    where = workspace.model_copy(update={"subpath": "src"})
    told = {"agent": "build", "workspace": where, "auth_scope": ("*:**",)}
    first = await hands.result(hands.request(input=TaskInput(prompt="first"), **told))
    log = Attachment(blob=await hands.transport.blobs.put(b"it broke"), name="log.txt")

    second = await hands.result(
        hands.request(input=TaskInput(prompt="second"), attachments=(log,), resume_token=first.resume_token, **told)
    )

    assert second.output.text == "Y = 2"
    assert "it broke" in server.log.bodies[2]["messages"][-1]["content"]
    assert [file.path for file in second.patch.files] == ["src/new.py"]


def test_a_patchs_paths_start_in_the_folder_and_its_content_stays():
    targets = Rooted(ApplyPatch(), f"{WORKSPACE}/src").targets({"patchText": PATCH})

    assert {target.pattern for target in targets} == {"src/other.py", "src/moved.py", "src/sub/new.py"}
