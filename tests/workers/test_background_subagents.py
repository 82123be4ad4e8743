"""Subagents in the background: their caller goes on, does not end before them, and hears of the end of each once."""

from __future__ import annotations

import json

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskInput
from workers.agents.registry import builtin, parse_agent
from workers.recording.recorder import CASSETTE
from workers.recording.replay import find_cassette, replay
from workers.subagents.children import ADDED
from workers.tools.background import PASSED_ON, RUNS, STOPPED, TOLD

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SCOPE = ("read:**", "edit:**", "bash:**", "task:**")
# Served by the pool of its caller, which has one slot: it cannot begin before its caller waits.
AGENTS = {"helper": "---\ndescription: helps\nmode: subagent\npool: build\n---\nYou help."}
HELPER = {name: parse_agent(name, text) for name, text in AGENTS.items()}

STARTS = "description: x, subagent_type: helper, background: true"
WRITES = f"""
rules:
  - when: {{prompt_contains: write one, turn: 1}}
    reply: {{tool_calls: [{{name: write, arguments: {{filePath: src/one.py, content: "X = 1\\n"}}}}]}}
  - {{when: {{prompt_contains: write one}}, reply: {{text: wrote it}}}}
  - when: {{prompt_contains: lead, turn: 1}}
    reply: {{tool_calls: [{{name: task, arguments: {{{STARTS}, prompt: write one}}}}]}}
  - when: {{prompt_contains: lead, turn: 2}}
    reply: {{tool_calls: [{{name: bash, arguments: {{command: ls src}}}}]}}
  - {{when: {{prompt_contains: lead, turn: 3}}, reply: {{text: I have nothing else to do.}}}}
  - when: {{user_contains: wrote it, turn: 4}}
    reply: {{tool_calls: [{{name: bash, arguments: {{command: cat src/one.py}}}}]}}
  - {{when: {{user_contains: wrote it, turn: 5}}, reply: {{text: "${{result.0}} | ${{result.1}} | ${{result.2}}"}}}}
"""


@pytest.fixture
def start_leads(start_agents):
    async def start(script: str, **settings):
        return await start_agents(script, **{"slots": 1, "agents": AGENTS, **settings})

    return start


def lead(hands, workspace=None, **fields):
    told = {"agent": "build", "auth_scope": SCOPE, "workspace": workspace, "input": TaskInput(prompt="lead")}
    return hands.request(**{**told, **fields})


def last_asked(server, prompt: str = "lead") -> list[dict]:
    """The messages of the last request of a session."""
    asked = [body["messages"] for body in server.log.bodies if body["messages"][1]["content"].startswith(prompt)]
    return asked[-1]


def words(server) -> list[str]:
    return [message["content"] for message in last_asked(server) if TOLD in str(message["content"])]


async def child_of(hands, request):
    [child] = [task for task in await hands.transport.tasks(trace_id=request.trace_id) if task.parent_task_id]
    return child


def is_parked(task_id: str):
    return lambda progress: progress.task_id == task_id and progress.status is State.WAITING


def says(task_id: str, kind: str):
    return lambda progress: progress.task_id == task_id and any(event.kind == kind for event in progress.events)


async def test_a_caller_goes_on_with_its_turns_and_does_not_end_before_its_subagent(start_leads, workspace):
    hands, server = await start_leads(WRITES)
    request = lead(hands, workspace)

    result = await hands.result(request)

    child = await child_of(hands, request)
    started, listed, written = result.output.text.split(" | ")
    assert (result.status, result.errors, result.attempt) == (State.COMPLETED, (), 2)
    assert started == f'<task id="{child.task_id}" state="running">\n{RUNS}\n</task>'
    assert "one.py" not in listed and written == "X = 1"
    [word] = words(server)
    assert f'<task id="{child.task_id}" agent="helper" state="completed">\nwrote it' in word
    assert "Changed files: A src/one.py\n</task>" in word
    assert [file.path for file in result.patch.files] == ["src/one.py"]


async def test_nobody_waits_for_an_agent_whose_file_says_so(start_leads, workspace):
    script = WRITES.replace(", background: true", "")
    hands, server = await start_leads(
        script, agents={"helper": AGENTS["helper"].replace("pool:", "background: true\npool:")}
    )

    result = await hands.result(lead(hands, workspace))

    assert result.output.text.startswith("<task id=") and RUNS in result.output.text
    assert len(words(server)) == 1


QUEUES = """
rules:
  - when: {prompt_contains: look, turn: 1}
    reply: {tool_calls: [{name: bash, arguments: {command: echo looked}}]}
  - {when: {prompt_contains: look}, reply: {text: "${result.0}"}}
  - when: {prompt_contains: lead, turn: 1}
    reply:
      tool_calls:
        - {name: task, arguments: {description: a, prompt: look first, subagent_type: explore, background: true}}
  - when: {prompt_contains: lead, turn: 2}
    reply: {tool_calls: [{name: task, arguments: {description: b, prompt: look next, subagent_type: explore}}]}
  - {when: {prompt_contains: lead}, reply: {text: "done: ${result.1}"}}
"""


async def test_the_word_comes_with_the_next_turn_of_a_caller_that_has_work(start_leads):
    hands, server = await start_leads(QUEUES)  # explorers have one slot: the second begins when the first has ended

    result = await hands.result(lead(hands))

    assert result.output.text.startswith("done: <task") and result.metrics.turns == 3
    assert [message["role"] for message in last_asked(server)[2:]] == ["assistant", "tool", "assistant", "tool", "user"]
    assert len(words(server)) == 1


TWO = f"""
rules:
  - {{when: {{prompt_contains: look}}, reply: {{tool_calls: [{{name: bash, arguments: {{command: sleep 600}}}}]}}}}
  - {{when: {{prompt_contains: help}}, reply: {{text: I helped.}}}}
  - when: {{prompt_contains: lead, turn: 1}}
    reply:
      tool_calls:
        - {{name: task, arguments: {{{STARTS}, prompt: help}}}}
        - {{name: task, arguments: {{description: x, prompt: look, subagent_type: explore, background: true}}}}
  - {{when: {{user_contains: I helped}}, reply: {{text: One has answered.}}}}
  - {{when: {{user_contains: how far}}, reply: {{text: One of two.}}}}
  - {{when: {{user_contains: cancelled}}, reply: {{text: That was all.}}}}
  - {{when: {{prompt_contains: lead}}, reply: {{text: I wait.}}}}
"""


async def test_who_waits_hears_of_the_first_that_ends_and_listens_to_people(start_leads):
    hands, server = await start_leads(TWO)
    request = lead(hands)
    await hands.transport.submit([request])
    waits = await hands.until(request.trace_id, is_parked(request.task_id))
    waits = await hands.until(request.trace_id, is_parked(request.task_id), after=waits)  # one has ended meanwhile
    await hands.transport.prompt(request.task_id, "how far are you?", by="test")
    await hands.until(request.trace_id, is_parked(request.task_id), after=waits)
    [looks] = [task for task in await hands.transport.tasks(trace_id=request.trace_id) if task.agent == "explore"]

    await hands.transport.cancel(looks.task_id, by="test", reason="enough")

    assert (await hands.ended(request.task_id)).output.text == "That was all."
    said = [message["content"] for message in last_asked(server) if message["role"] != "tool"][3:]
    first, second = words(server)
    assert said == ["I wait.", first, "One has answered.", "how far are you?", "One of two.", second]
    assert "I helped." in first and 'state="cancelled"' in second


STALLS = WRITES.replace(
    "rules:\n",
    """rules:
  - when: {user_contains: wrote it, turn: 4}
    times: 1
    reply: {text: "A reply of many words, so that some of them are seen before the worker stops, and some are not."}
    fault: {after_bytes: 800, stall_s: 600}
""",
)


async def test_another_worker_tells_it_once_too(start_leads, workspace):
    hands, server = await start_leads(STALLS)
    request = lead(hands, workspace)
    await hands.transport.submit([request])
    parked = await hands.until(request.trace_id, is_parked(request.task_id))
    await hands.until(request.trace_id, says(request.task_id, "text"), after=parked)  # it was told, and stored nothing
    await hands.stop()
    others, _ = await start_leads("rules: []", model_base_url=server.base_url)

    result = await others.ended(request.task_id)

    assert (result.status, result.metrics.turns) == (State.COMPLETED, 5)
    assert result.output.text.endswith("X = 1")
    assert len(words(server)) == 1
    assert len(await hands.transport.tasks(trace_id=request.trace_id)) == 2


FAILS = f"""
rules:
  - {{when: {{prompt_contains: hopeless}}, fault: {{status: 401}}}}
  - when: {{prompt_contains: lead, turn: 1}}
    reply: {{tool_calls: [{{name: task, arguments: {{{STARTS}, prompt: hopeless}}}}]}}
  - {{when: {{user_contains: model_auth}}, reply: {{text: I heard.}}}}
  - {{when: {{prompt_contains: lead}}, reply: {{text: I wait.}}}}
"""


async def test_a_failure_is_told_with_its_code(start_leads):
    hands, server = await start_leads(FAILS)

    result = await hands.result(lead(hands))

    assert (result.status, result.output.text) == (State.COMPLETED, "I heard.")
    [word] = words(server)
    assert 'state="error">\nError model_auth:' in word


LOOKS = """
rules:
  - {when: {prompt_contains: look}, reply: {tool_calls: [{name: bash, arguments: {command: sleep 600}}]}}
  - when: {prompt_contains: lead, turn: 1}
    reply:
      tool_calls: [{name: task, arguments: {description: a, prompt: look, subagent_type: explore, background: true}}]
  - {when: {user_contains: cancelled}, reply: {text: I heard.}}
  - {when: {prompt_contains: lead}, reply: {text: I wait.}}
"""


async def test_a_subagent_that_somebody_cancels_is_no_silence(start_leads):
    hands, server = await start_leads(LOOKS)
    request = lead(hands)
    await hands.transport.submit([request])
    await hands.until(request.trace_id, is_parked(request.task_id))
    child = await child_of(hands, request)

    await hands.transport.cancel(child.task_id, by="test", reason="not needed")

    assert (await hands.ended(request.task_id)).output.text == "I heard."
    [word] = words(server)
    assert 'state="cancelled">\nError cancelled: not needed' in word


COLLIDES = f"""
rules:
  - when: {{prompt_contains: make it 2, turn: 1}}
    reply: {{tool_calls: [{{name: read, arguments: {{filePath: src/other.py}}}}]}}
  - when: {{prompt_contains: make it 2, turn: 2}}
    reply: {{tool_calls: [{{name: edit, arguments: {{filePath: src/other.py, oldString: X = 1, newString: X = 2}}}}]}}
  - {{when: {{prompt_contains: make it 2}}, reply: {{text: made}}}}
  - when: {{prompt_contains: lead, turn: 1}}
    reply:
      tool_calls:
        - {{name: task, arguments: {{{STARTS}, prompt: make it 2}}}}
        - {{name: read, arguments: {{filePath: src/other.py}}}}
  - when: {{prompt_contains: lead, turn: 2}}
    reply: {{tool_calls: [{{name: edit, arguments: {{filePath: src/other.py, oldString: X = 1, newString: X = 3}}}}]}}
  - {{when: {{prompt_contains: lead}}, reply: {{text: I changed it.}}}}
"""


async def test_a_change_that_collides_is_told_and_not_taken_in(start_leads, workspace):
    hands, server = await start_leads(COLLIDES)

    result = await hands.result(lead(hands, workspace))

    [word] = words(server)
    assert "Changed files, not taken into your workspace: M src/other.py" in word
    assert "Error collision: the subagent's change of src/other.py collides" in word
    assert "+X = 3" in await hands.diff(result)


ENDS = f"""
rules:
  - when: {{prompt_contains: lead, turn: 1}}
    reply: {{tool_calls: [{{name: task, arguments: {{{STARTS}, prompt: write one}}}}]}}
  - {{when: {{user_contains: still there}}, reply: {{text: I am.}}}}
  - {{when: {{prompt_contains: lead}}, fault: {{status: 401}}}}
"""


async def test_a_caller_that_fails_takes_its_subagents_with_it(start_leads):
    hands, server = await start_leads(ENDS)
    request = lead(hands)

    result = await hands.result(request)

    child = await child_of(hands, request)
    stopped = await hands.ended(child.task_id)
    assert result.errors[0].code is ErrorCode.MODEL_AUTH
    assert (stopped.status, stopped.errors[0].message) == (State.CANCELLED, "its parent ended")
    later = lead(hands, resume_token=result.resume_token, input=TaskInput(prompt="still there?"))
    assert (await hands.result(later)).output.text == "I am."
    told = [message["content"] for message in last_asked(server) if message["role"] == "user"]
    assert told == ["lead", f"{STOPPED}\n- {child.task_id}: helper, x", "still there?"]


async def test_a_caller_that_waits_and_is_cancelled_takes_its_subagents_with_it(start_leads):
    hands, _ = await start_leads(LOOKS)
    request = lead(hands)
    await hands.transport.submit([request])
    await hands.until(request.trace_id, is_parked(request.task_id))
    child = await child_of(hands, request)
    assert (await hands.transport.record(request.task_id)).waits_for == (child.task_id,)

    await hands.transport.cancel(request.task_id, by="test", reason="enough")

    ends = {(await hands.ended(task_id)).status for task_id in (request.task_id, child.task_id)}
    assert ends == {State.CANCELLED}


async def test_a_recorded_caller_plays_again_without_a_difference(start_leads, workspace):
    hands, _ = await start_leads(WRITES)
    given = TaskInput(prompt="lead", params={"record": True})
    result = await hands.result(lead(hands, workspace, input=given))
    cassette = {one.name: one.blob for one in result.attachments}

    entries = await find_cassette(hands.transport.blobs, cassette, None)
    again = await replay(entries, hands.transport.blobs, {**builtin(), **HELPER})

    assert json.dumps(TOLD)[1:-1] in (await hands.transport.blobs.get(cassette[CASSETTE])).decode()
    assert (again.difference, again.is_whole, again.calls) == (None, True, 5)


HEARS = f"""
rules:
  - {{when: {{user_contains: look there too}}, reply: {{text: "I looked there, too."}}}}
  - {{when: {{prompt_contains: look}}, reply: {{text: I heard nothing.}}}}
  - when: {{prompt_contains: lead, turn: 1}}
    reply: {{tool_calls: [{{name: task, arguments: {{{STARTS}, prompt: look}}}}]}}
  - when: {{prompt_contains: lead, turn: 2}}
    capture: {{id: {{pattern: 'id="([^"]+)"', line: '\\1'}}}}
    reply:
      tool_calls:
        - name: task
          arguments: {{description: x, prompt: /look there too, subagent_type: helper, task_id: "${{id}}"}}
        - {{name: task, arguments: {{{STARTS}, prompt: /look there too, task_id: "${{id}}"}}}}
  - {{when: {{user_contains: I looked}}, reply: {{text: "${{result.1}} | ${{result.2}}"}}}}
  - {{when: {{prompt_contains: lead}}, reply: {{text: I wait.}}}}
"""


async def test_a_subagent_that_has_not_ended_is_told_more(start_leads):
    hands, server = await start_leads(HEARS)
    request = lead(hands)

    result = await hands.result(request)

    child = await child_of(hands, request)
    alone, passed_on = result.output.text.split(" | ")
    assert f"is under way in task {child.task_id}" in alone and "with background: true" in alone
    assert passed_on == f'<task id="{child.task_id}" state="running">\n{PASSED_ON}\n</task>'
    assert len(words(server)) == 1
    assert [message["content"] for message in last_asked(server, "look")[1:]] == ["look", f"{ADDED}\n/look there too"]
