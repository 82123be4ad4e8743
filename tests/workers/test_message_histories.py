"""Whole message histories, as a session stores them: what a model was told, word for word, in four stories."""

from __future__ import annotations

import re

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress
from workers.sessions.checkpoints import Checkpoints

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SCOPE = ("read:**", "glob:**", "grep:**", "edit:src/**", "bash:**", "task:**")


def asked(hands, workspace, prompt: str):
    told = {"agent": "build", "auth_scope": SCOPE, "workspace": workspace, "input": TaskInput(prompt=prompt)}
    return hands.request(**told)


async def history_of(hands, task_id: str) -> str:
    """The session's messages after the system prompt; what differs from run to run is a word in capitals."""
    record = await hands.transport.record(task_id)
    session = await Checkpoints(hands.transport.blobs).load(record.checkpoint)
    told = "\n".join(line for message in session.messages[1:] for line in lines(message))
    return re.sub(r"in \d+\.\d+s", "in TIME", re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "TASK", told))


def lines(message) -> list[str]:
    head = f"{message.role}{' ' + message.name if message.name else ''}{' (error)' if message.is_error else ''}:"
    said = f"{head} {message.content}".rstrip()
    finish = f" [{message.finish.reason}]" if message.finish else ""
    return [said + finish, *(f"  {call.name} {call.arguments}" for call in message.tool_calls)]


async def test_read_edit_test(start_agents, workspace):
    hands, _ = await start_agents(
        r"""
rules:
  - {when: {turn: 1}, reply: {text: I look., tool_calls: [{name: read, arguments: {filePath: src/other.py}}]}}
  - when: {turn: 2}
    reply: {tool_calls: [{name: edit, arguments: {filePath: src/other.py, oldString: X = 1, newString: X = 2}}]}
  - when: {turn: 3}
    reply: {tool_calls: [{name: bash, arguments: {command: "python3 -c 'import sys; sys.exit(3)'"}}]}
  - {reply: {text: Changed.}}
"""
    )
    result = await hands.result(asked(hands, workspace, "make X two"))

    assert (
        await history_of(hands, result.task_id)
        == """\
user: make X two
assistant: I look. [tool_use]
  read {"filePath": "src/other.py"}
tool read: <path>/workspace/src/other.py</path>
<type>file</type>
<content>
1: X = 1

(end of file, 1 lines)
</content>
assistant: [tool_use]
  edit {"filePath": "src/other.py", "oldString": "X = 1", "newString": "X = 2"}
tool edit: Edited /workspace/src/other.py.
assistant: [tool_use]
  bash {"command": "python3 -c 'import sys; sys.exit(3)'"}
tool bash: (no output)
(exit code 3)
assistant: Changed. [end_turn]"""
    )


async def test_fan_out_of_three(start_agents, workspace):
    hands, _ = await start_agents(
        """
rules:
  - {when: {prompt_contains: look for a}, reply: {text: a is here}}
  - {when: {prompt_contains: look for b}, reply: {text: b is there}}
  - {when: {prompt_contains: look for c}, fault: {status: 401}}
  - when: {turn: 1}
    reply:
      tool_calls:
        - {name: task, arguments: {description: a, prompt: look for a, subagent_type: explore}}
        - {name: task, arguments: {description: b, prompt: look for b, subagent_type: explore}}
        - {name: task, arguments: {description: c, prompt: look for c, subagent_type: explore}}
  - {reply: {text: Two of three.}}
"""
    )
    result = await hands.result(asked(hands, workspace, "find them"))

    assert (
        await history_of(hands, result.task_id)
        == """\
user: find them
assistant: [tool_use]
  task {"description": "a", "prompt": "look for a", "subagent_type": "explore"}
  task {"description": "b", "prompt": "look for b", "subagent_type": "explore"}
  task {"description": "c", "prompt": "look for c", "subagent_type": "explore"}
tool task: <task id="TASK" state="completed">
a is here
</task>
tool task: <task id="TASK" state="completed">
b is there
</task>
tool task (error): <task id="TASK" state="error">
Error model_auth: the model provider says: scripted fault
To go on where it stopped, call task with this id as task_id.
</task>
assistant: Two of three. [end_turn]"""
    )


async def test_a_denied_call_with_its_reason(start_agents, workspace):
    hands, _ = await start_agents(
        """
rules:
  - {when: {turn: 1}, reply: {tool_calls: [{name: write, arguments: {filePath: docs/a.md, content: x}}]}}
  - {reply: {text: Then not.}}
"""
    )
    result = await hands.result(asked(hands, workspace, "write"))

    assert (
        await history_of(hands, result.task_id)
        == """\
user: write
assistant: [tool_use]
  write {"filePath": "docs/a.md", "content": "x"}
tool write (error): not allowed: edit 'docs/a.md' is outside this task's scope (edit:src/**)
assistant: Then not. [end_turn]"""
    )


async def test_a_worker_that_stops_and_another_that_goes_on(start_agents, workspace):
    hands, server = await start_agents(
        """
rules:
  - {when: {turn: 1}, reply: {tool_calls: [{name: write, arguments: {filePath: src/new.py, content: "Y = 1"}}]}}
  - {when: {turn: 2}, times: 1, reply: {tool_calls: [{name: bash, arguments: {command: sleep 600}}]}}
  - {when: {turn: 2}, reply: {tool_calls: [{name: bash, arguments: {command: cat src/new.py}}]}}
  - {reply: {text: It is there.}}
"""
    )
    request = asked(hands, workspace, "x")
    await hands.transport.submit([request])
    await hands.until(
        request.trace_id,
        lambda progress: any(getattr(event, "title", "") == "sleep 600" for event in progress.events),
    )
    await hands.stop()
    await start_agents("rules: []", model_base_url=server.base_url)
    result = await hands.ended(request.task_id)

    assert result.attempt == 2
    assert (
        await history_of(hands, result.task_id)
        == """\
user: x
assistant: [tool_use]
  write {"filePath": "src/new.py", "content": "Y = 1"}
tool write: Created /workspace/src/new.py.
assistant: [tool_use]
  bash {"command": "cat src/new.py"}
tool bash: Y = 1
assistant: It is there. [end_turn]"""
    )


async def test_a_task_that_is_cancelled_and_goes_on_with_another_prompt(start_agents, workspace):
    hands, _ = await start_agents(
        """
rules:
  - when: {turn: 1}
    reply:
      tool_calls:
        - {name: write, arguments: {filePath: src/new.py, content: "Y = 1"}}
        - {name: bash, arguments: {command: sleep 600}}
  - {when: {turn: 2}, reply: {tool_calls: [{name: bash, arguments: {command: cat src/new.py}}]}}
  - {reply: {text: It is there.}}
"""
    )
    request = asked(hands, workspace, "x")
    await hands.transport.submit([request])
    seen: set[str] = set()

    def both(progress) -> bool:
        calls = [event for event in progress.events if event.kind == "tool_call"]
        seen.update(event.state for event in calls if event.state == "completed" or event.title == "sleep 600")
        return seen == {"running", "completed"}

    await hands.until(request.trace_id, both)
    await hands.transport.cancel(request.task_id, by="test", reason="enough")
    stopped = await hands.ended(request.task_id)
    after = asked(hands, workspace, "go on").model_copy(update={"resume_token": stopped.resume_token})
    result = await hands.result(after)

    assert stopped.status is State.CANCELLED
    assert (
        await history_of(hands, result.task_id)
        == """\
user: x
assistant: [tool_use]
  write {"filePath": "src/new.py", "content": "Y = 1"}
  bash {"command": "sleep 600"}
tool write: Created /workspace/src/new.py.
tool bash (error): Cancelled: the task was stopped before this call had ended. It may have taken effect; look before \
you repeat it. [cancelled]
user: go on
assistant: [tool_use]
  bash {"command": "cat src/new.py"}
tool bash: Y = 1
assistant: It is there. [end_turn]"""
    )
    reasons = [
        event.finish_reason
        async for entry in hands.transport.follow(request.trace_id)
        if isinstance(entry.message, TaskProgress)
        for event in entry.message.events
        if event.kind == "turn_finished"
    ]
    assert reasons == ["tool_use", "cancelled"]


async def test_what_a_model_saw_cut_is_kept_whole_in_a_blob(start_agents, workspace):
    hands, _ = await start_agents(
        """
rules:
  - {when: {turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: seq 1 5000}}]}}
  - {reply: {text: Counted.}}
"""
    )
    result = await hands.result(asked(hands, workspace, "count"))
    record = await hands.transport.record(result.task_id)
    session = await Checkpoints(hands.transport.blobs).load(record.checkpoint)
    [answer] = [message for message in session.messages if message.role == "tool"]

    whole = (await hands.transport.blobs.get(answer.metadata["output_blob"])).decode()

    assert "\n17\n" not in answer.content
    assert whole.split() == [str(number) for number in range(1, 5001)]
