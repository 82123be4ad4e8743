"""Asks over a real queue: a task that needs a person's word holds nothing while it waits, and any worker goes on."""

from __future__ import annotations

import json

import pytest

from envelope.asks import AskTerms, Reply
from envelope.errors import ErrorCode
from envelope.events import AskOpened
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress
from workers.delivery.people import STRUCK
from workers.sessions.checkpoints import Checkpoints

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SCOPE = ("read:**", "edit:**", "bash:**", "task:**")
# Whoever `asker` is, it must be allowed to run git and to edit.
ASKER = """---
description: asks
mode: all
pool: build
permission: {bash: {"*": ask, "git push *": deny, "ls *": allow}, edit: ask}
---
You ask.
"""
AGENTS = {"asker": ASKER}

WRITES = "echo one >> notes; cat notes"
ASKS_ONCE = f"""
rules:
  - when: {{turn: 1}}
    reply:
      tool_calls: [{{name: bash, arguments: {{command: "{WRITES}"}}}}, {{name: bash, arguments: {{command: ls src}}}}]
  - when: {{turn: 2}}
    reply: {{text: "${{result.0}} | ${{result.1}}"}}
"""


def task(hands, workspace, prompt="go", **fields):
    told = {"agent": "asker", "auth_scope": SCOPE, "workspace": workspace, "input": TaskInput(prompt=prompt)}
    return hands.request(**{"asks": AskTerms(), **told, **fields})


async def opened(hands, request, count: int = 1, *, task_id: str = "") -> list[AskOpened]:
    """The first asks of the trace, as soon as their task waits for them."""
    found: dict[str, AskOpened] = {}

    def waits(progress: TaskProgress) -> bool:
        for event in progress.events:
            if event.kind == "ask_opened":
                found[event.ask_id] = event
        return len(found) >= count and progress.status is State.WAITING

    await hands.until(request.trace_id, waits)
    return list(found.values())


async def answer(hands, task_id: str, ask: AskOpened, reply: str | Reply) -> None:
    text = reply if isinstance(reply, str) else reply.text()
    await hands.transport.answer(task_id, ask.ask_id, text, by="tester", asked=ask.digest())


async def test_a_call_waits_for_a_person_and_runs_once_on_another_worker(start_agents, workspace, containers_of_task):
    hands, server = await start_agents(ASKS_ONCE, agents=AGENTS)
    request = task(hands, workspace)
    await hands.transport.submit([request])
    [ask] = await opened(hands, request)
    record = await hands.transport.record(request.task_id)
    assert (ask.permission, ask.patterns) == ("bash", ("echo one >> notes", "cat notes"))
    assert ask.detail == WRITES
    assert record.waits_for == (ask.ask_id,)
    assert containers_of_task(request.task_id) == []
    await hands.stop()
    others, _ = await start_agents("rules: []", model_base_url=server.base_url, agents=AGENTS)

    await answer(others, request.task_id, ask, "once")
    result = await others.ended(request.task_id)

    assert (result.status, result.output.text) == (State.COMPLETED, "one | greet.py\nother.py")
    assert [call.is_error for call in result.tool_calls] == [False, False]
    assert (result.metrics.turns, server.log.requests) == (2, 2)
    [answered] = await others.events(request.trace_id, "ask_answered")
    assert (answered.ask_id, answered.answer, answered.by) == (ask.ask_id, "once", "tester")


async def test_an_answer_that_nobody_signed_runs_nothing_and_the_person_is_still_asked(
    start_agents, workspace, stranger
):
    hands, server = await start_agents(ASKS_ONCE, agents=AGENTS)
    request = task(hands, workspace)
    await hands.transport.submit([request])
    [ask] = await opened(hands, request)

    await stranger.answer(request.task_id, ask.ask_id, "once", by="alice")
    place = await hands.until(request.trace_id, lambda progress: struck(progress.events))
    await hands.until(request.trace_id, lambda progress: progress.status is State.WAITING, after=place)
    await answer(hands, request.task_id, ask, "once")
    result = await hands.ended(request.task_id)

    assert result.status is State.COMPLETED
    assert server.log.requests == 2
    [answered] = await hands.events(request.trace_id, "ask_answered")
    assert (answered.answer, answered.by) == ("once", "tester")
    assert len(await hands.events(request.trace_id, "warning")) == 1


KEY = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"
HIDDEN = "touch harm"
HIDES = f"""
rules:
  - when: {{turn: 1}}
    reply:
      tool_calls:
        - {{name: bash, arguments: {{command: {json.dumps(f"cat <<X{chr(10)}{KEY.format(HIDDEN)}{chr(10)}X")}}}}}
        - {{name: write, arguments: {{filePath: /workspace/deploy.sh, content: {json.dumps(KEY.format(HIDDEN))}}}}}
        - {{name: question, arguments: {{questions: [{{header: a, question: {json.dumps(KEY.format(HIDDEN))}}}]}}}}
        - {{name: write, arguments: {{filePath: /workspace/long.sh, content: {json.dumps("#" * 21_000)}}}}}
  - when: {{turn: 2}}
    reply: {{text: "${{result.0}} | ${{result.1}} | ${{result.2}} | ${{result.3}}"}}
"""


async def test_what_a_person_would_not_be_shown_whole_is_not_asked(start_agents, workspace):
    hands, _ = await start_agents(HIDES, agents={"asker": ASKER.replace("edit: ask", "edit: ask, question: allow")})

    result = await hands.result(task(hands, workspace))

    assert result.output.text.count("looks as if it holds a secret") == 3
    assert "it is too long to be shown" in result.output.text
    assert await hands.events(result.trace_id, "ask_opened") == []
    assert result.patch is None


def struck(events) -> bool:
    return any(event.kind == "warning" and event.code == STRUCK for event in events)


TWICE = """
rules:
  - when: {turn: 1}
    reply: {tool_calls: [{name: bash, arguments: {command: git log -1}}]}
  - when: {turn: 2}
    reply:
      tool_calls:
        - {name: bash, arguments: {command: git log -2}}
        - {name: bash, arguments: {command: git push origin}}
  - when: {turn: 3}
    reply: {text: "${result.2}"}
"""


async def test_always_allows_what_begins_alike_and_lifts_no_deny(start_agents, workspace):
    hands, _ = await start_agents(TWICE.replace("git log -2", "git log -2; git status"), agents=AGENTS)
    request = task(hands, workspace)
    await hands.transport.submit([request])
    [first] = await opened(hands, request)
    assert first.always == ("bash:git log *",)

    await answer(hands, request.task_id, first, Reply(choice="always", rules=("bash:git *",)))
    result = await hands.ended(request.task_id)

    assert "denied by the rule `bash: git push *`" in result.output.text
    assert len(await hands.events(request.trace_id, "ask_opened")) == 1


async def test_what_was_always_allowed_before_is_not_asked(start_agents, workspace):
    hands, _ = await start_agents(ASKS_ONCE, agents=AGENTS)
    approved = AskTerms(approved=("bash:echo one >> notes", "bash:cat *"))

    result = await hands.result(task(hands, workspace, asks=approved))

    assert result.output.text.startswith("one")
    assert await hands.events(result.trace_id, "ask_opened") == []


async def test_a_plain_refusal_ends_the_task(start_agents, workspace):
    hands, server = await start_agents(TWICE, agents=AGENTS)
    request = task(hands, workspace)
    await hands.transport.submit([request])
    [ask] = await opened(hands, request)

    await answer(hands, request.task_id, ask, "reject")
    result = await hands.ended(request.task_id)

    assert (result.status, result.errors[0].code) == (State.ERROR, ErrorCode.REFUSED)
    assert "git log -1" in result.errors[0].message
    assert [call.is_error for call in result.tool_calls] == [True]
    assert (server.log.requests, result.metrics.turns) == (1, 1)
    reasons = [event.finish_reason for event in await hands.events(request.trace_id, "turn_finished")]
    assert reasons == ["tool_use", "permission_denied"]
    session = await Checkpoints(hands.transport.blobs).load((await hands.transport.record(request.task_id)).checkpoint)
    assert session.messages[-1].finish.reason == "permission_denied"


async def test_a_refusal_with_a_message_is_told_to_the_model(start_agents, workspace):
    hands, _ = await start_agents(ASKS_ONCE, agents=AGENTS)
    request = task(hands, workspace)
    await hands.transport.submit([request])
    [ask] = await opened(hands, request)

    await answer(hands, request.task_id, ask, Reply(choice="reject", message="use the tool write"))
    result = await hands.ended(request.task_id)

    assert result.status is State.COMPLETED
    assert result.output.text.startswith("Not done: a person said: use the tool write")


async def test_nobody_answers_in_time(start_agents, workspace):
    hands, _ = await start_agents(ASKS_ONCE, agents=AGENTS)
    request = task(hands, workspace, asks=AskTerms(timeout_ms=500))

    result = await hands.result(request)

    assert result.status is State.COMPLETED
    assert "nobody has answered in time" in result.output.text
    [answered] = await hands.events(request.trace_id, "ask_answered")
    assert answered.answer == "none"
    [entry, *_] = await hands.transport.audit.latest(1)
    assert (entry.fields["actor"], entry.fields["subject"]) == ("timeout", request.task_id)
    assert entry.fields["details"]["ask"] == answered.ask_id
    late = await hands.transport.answers(request.task_id)
    assert late[answered.ask_id].by == "timeout"


async def test_a_headless_task_asks_nobody(start_agents, workspace):
    hands, server = await start_agents(ASKS_ONCE, agents=AGENTS)

    result = await hands.result(task(hands, workspace, asks=None))

    assert "needs a person's approval" in result.output.text
    tools = {tool["function"]["name"] for tool in server.log.bodies[0]["tools"]}
    assert "bash" in tools and not tools & {"question", "plan_exit"}


EDITS = """
rules:
  - when: {turn: 1}
    reply: {tool_calls: [{name: read, arguments: {filePath: src/other.py}}]}
  - when: {turn: 2}
    reply:
      tool_calls:
        - {name: edit, arguments: {filePath: src/other.py, oldString: X = 1, newString: X = 2}}
        - {name: bash, arguments: {command: touch /opt/x, description: outside}}
  - when: {turn: 3}
    reply: {text: "${result.1} | ${result.2}"}
"""


async def test_two_calls_of_a_turn_are_asked_in_order_with_the_exact_change(start_agents, workspace):
    hands, _ = await start_agents(EDITS, agents=AGENTS)
    request = task(hands, workspace)
    await hands.transport.submit([request])
    edit, outside, command = await opened(hands, request, 3)
    asked = [ask.permission for ask in (edit, outside, command)]
    assert asked == ["edit", "external_directory", "bash"]
    assert "-X = 1" in edit.detail and "+X = 2" in edit.detail
    assert (outside.patterns, command.detail) == (("/opt/*",), "touch /opt/x")

    for ask in (command, edit):
        await answer(hands, request.task_id, ask, "once")
    await answer(hands, request.task_id, outside, Reply(choice="reject", message="stay inside"))
    result = await hands.ended(request.task_id)

    edited, touched = result.output.text.split(" | ")
    assert edited == "Edited /workspace/src/other.py."
    assert "stay inside" in touched
    assert [file.path for file in result.patch.files] == ["src/other.py"]


CHILD_ASKS = """
rules:
  - when: {prompt_contains: lead, turn: 1}
    reply: {tool_calls: [{name: task, arguments: {description: x, prompt: work, subagent_type: asker}}]}
  - {when: {prompt_contains: lead}, reply: {text: "${result.0}"}}
  - {when: {prompt_contains: work, turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: echo done}}]}}
  - {when: {prompt_contains: work}, reply: {text: "child: ${result.0}"}}
"""


async def test_a_childs_ask_is_seen_in_the_trace_and_holds_no_slot(start_agents, workspace):
    hands, _ = await start_agents(CHILD_ASKS, slots=1, agents=AGENTS)
    request = task(hands, workspace, "lead", agent="build")
    await hands.transport.submit([request])
    [ask] = await opened(hands, request)
    [child] = [one for one in await hands.transport.tasks(trace_id=request.trace_id) if one.parent_task_id]

    await answer(hands, child.task_id, ask, "once")
    result = await hands.ended(request.task_id)

    assert "child: done" in result.output.text


QUESTION = """
rules:
  - when: {turn: 1}
    reply:
      tool_calls:
        - name: question
          arguments:
            questions:
              - {question: "Which one?", header: Choice, options: [{label: red}, {label: blue}], multiple: true}
              - {question: "And why?", header: Reason}
  - {when: {turn: 2}, reply: {text: "${result.0}"}}
"""


async def test_a_question_gets_its_answers_as_json(start_agents, workspace):
    hands, _ = await start_agents(QUESTION, agents=AGENTS)
    request = task(hands, workspace, agent="build")
    await hands.transport.submit([request])
    [ask] = await opened(hands, request)
    assert [question.header for question in ask.questions] == ["Choice", "Reason"]

    await answer(hands, request.task_id, ask, Reply(choice="once", answers=(("red", "blue"),)))
    result = await hands.ended(request.task_id)

    assert json.loads(result.output.text) == [
        {"question": "Which one?", "answer": ["red", "blue"]},
        {"question": "And why?", "answer": ["(no answer)"]},
    ]


REPEATS = """
rules:
  - {when: {user_contains: same call}, reply: {text: warned}}
  - {when: {tool_results: 4}, reply: {text: "${result.3}"}}
  - {reply: {tool_calls: [{name: bash, arguments: {command: ls src}}]}}
"""


@pytest.mark.parametrize(
    ("reply", "text"),
    [(Reply(choice="reject", message="stop it"), "stop it"), ("once", "again")],
    ids=["no", "once"],
)
async def test_a_circle_is_asked_about(start_agents, workspace, reply, text):
    script = REPEATS.replace("tool_results: 4", "tool_results: 3").replace("result.3", "result.2")
    hands, _ = await start_agents(script, agents=AGENTS)
    request = task(hands, workspace)
    await hands.transport.submit([request])
    [ask] = await opened(hands, request)
    assert (ask.permission, ask.patterns, ask.always) == ("doom_loop", ("bash",), ("doom_loop:bash",))
    assert ask.detail == "ls src"

    await answer(hands, request.task_id, ask, reply)
    result = await hands.ended(request.task_id)

    assert result.status is State.COMPLETED
    assert ("greet.py" if text == "again" else text) in result.output.text
