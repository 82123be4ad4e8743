"""Sessions outlive their tasks: gone on with by another, spoken to while they run."""

from __future__ import annotations

import pytest

from envelope.ids import new_task_id
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress
from transport.errors import Busy

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SCOPE = ("read:**", "edit:**", "bash:**", "task:**")


def ask(hands, prompt: str, **fields):
    told = {"agent": "build", "auth_scope": SCOPE, "input": TaskInput(prompt=prompt)}
    return hands.request(**{**told, **fields})


def tells(kind: str):
    def seen(progress: TaskProgress) -> bool:
        return any(event.kind == kind for event in progress.events)

    return seen


async def test_a_session_keeps_the_name_of_the_task_that_opened_it(start_agents):
    hands, _ = await start_agents('rules: [{reply: {text: "hm"}}]')
    first = await hands.result(opening := ask(hands, "first"))

    second = await hands.result(ask(hands, "second", resume_token=first.resume_token))

    assert first.resume_token == second.resume_token == opening.task_id


LISTENS = """
rules:
  - {when: {user_contains: and say hello}, reply: {text: "hello; ${result.0}"}}
  - {when: {turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: sleep 1; echo slept}}]}}
  - {when: {turn: 2}, reply: {text: I did not hear a thing.}}
"""


async def test_a_word_to_a_running_session_is_heard_before_its_next_turn(start_agents):
    hands, _ = await start_agents(LISTENS)
    request = ask(hands, "sleep")
    await hands.transport.submit([request])
    await hands.until(request.trace_id, tells("tool_call"))

    handle = await hands.transport.prompt(request.task_id, "and say hello", by="test")

    assert handle.task_id == request.task_id
    assert (await hands.ended(request.task_id)).output.text == "hello; slept"


async def test_a_word_that_comes_during_the_last_turn_is_answered_too(start_agents):
    hands, _ = await start_agents(
        """
rules:
  - {when: {user_contains: and say hello}, reply: {text: hello}}
  - when: {turn: 1}
    reply: {text: "A reply of many words, so that some of them are seen before the stall, and some after it."}
    fault: {after_bytes: 800, stall_s: 1}
"""
    )
    request = ask(hands, "talk")
    await hands.transport.submit([request])
    await hands.until(request.trace_id, tells("text"))

    await hands.transport.prompt(request.task_id, "and say hello", by="test")

    result = await hands.ended(request.task_id)
    assert (result.output.text, result.metrics.turns) == ("hello", 2)


async def test_a_session_that_runs_is_not_gone_on_with(start_agents):
    hands, _ = await start_agents(LISTENS)
    request = ask(hands, "sleep")
    await hands.transport.submit([request])
    await hands.until(request.trace_id, tells("tool_call"))

    with pytest.raises(Busy, match=f"under way in task {request.task_id}"):
        await hands.transport.submit([ask(hands, "again", resume_token=request.task_id)])
    assert (await hands.ended(request.task_id)).status is State.COMPLETED


ASKS_AGAIN = r"""
rules:
  - {when: {user_contains: what was it}, reply: {text: "It was ${result.0}"}}
  - {when: {prompt_contains: remember, turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: echo blue}}]}}
  - {when: {prompt_contains: remember}, reply: {text: I do.}}
  - when: {prompt_contains: lead, turn: 1}
    reply: {tool_calls: [{name: task, arguments: {description: x, prompt: remember, subagent_type: explore}}]}
  - when: {prompt_contains: lead, turn: 2}
    capture: {id: {pattern: 'id="([^"]+)"', line: '\1'}}
    reply:
      tool_calls:
        - name: task
          arguments: {description: x, prompt: what was it, subagent_type: explore, task_id: "${id}"}
  - {when: {prompt_contains: lead}, reply: {text: "${result.1}"}}
"""


async def test_a_caller_goes_on_with_a_subagent(start_agents):
    hands, _ = await start_agents(ASKS_AGAIN)

    result = await hands.result(ask(hands, "lead"))

    assert "It was blue" in result.output.text


FAILS_FIRST = ASKS_AGAIN.replace(
    "  - {when: {prompt_contains: remember}, reply: {text: I do.}}\n",
    "  - {when: {prompt_contains: remember}, fault: {status: 401}}\n",
)


async def test_a_caller_goes_on_with_a_subagent_that_failed(start_agents):
    hands, _ = await start_agents(FAILS_FIRST)

    result = await hands.result(ask(hands, "lead"))

    assert "It was blue" in result.output.text
    assert [call.is_error for call in result.tool_calls] == [True, False]


CALLS = """
rules:
  - {when: {prompt_contains: remember}, reply: {text: I do.}}
  - when: {prompt_contains: lead, turn: 1}
    reply: {tool_calls: [{name: task, arguments: {description: x, prompt: remember, subagent_type: explore}}]}
  - when: {prompt_contains: lead, turn: 2}
    capture: {id: {pattern: 'id="([^"]+)"', line: '\\1'}}
    reply:
      tool_calls:
        - name: task
          arguments: {description: x, prompt: remember this, subagent_type: explore, task_id: "${id}"}
        - name: task
          arguments: {description: x, prompt: remember that, subagent_type: explore, task_id: "${id}"}
        - name: task
          arguments: {description: x, prompt: remember, subagent_type: explore, task_id: FOREIGN}
  - {when: {prompt_contains: lead}, reply: {text: "${result.1} | ${result.2} | ${result.3}"}}
"""


async def test_a_session_has_one_runner_and_only_its_caller_goes_on_with_it(start_agents):
    foreign = new_task_id()
    hands, _ = await start_agents(CALLS.replace("FOREIGN", foreign))
    await hands.result(ask(hands, "remember", task_id=foreign, agent="explore", recipient="explore"))

    result = await hands.result(ask(hands, "lead"))

    this, that, others = result.output.text.split(" | ")
    assert sorted(["is under way in task" in this, "is under way in task" in that]) == [False, True]
    assert f"you have started no subagent with the id '{foreign}'" in others
    assert "leave task_id out to start a new one" in others


UNKNOWN = """
rules:
  - {when: {prompt_contains: remember}, reply: {text: I do.}}
  - when: {prompt_contains: lead, turn: 1}
    reply:
      tool_calls:
        - name: task
          arguments: {description: x, prompt: remember, subagent_type: explore, task_id: ses_12}
        - name: task
          arguments: {description: x, prompt: remember, subagent_type: explore, task_id: ses_12, background: true}
  - {when: {prompt_contains: lead}, reply: {text: "${result.0} | ${result.1}"}}
"""


async def test_an_id_that_nobody_knows_starts_no_fresh_session(start_agents):
    hands, _ = await start_agents(UNKNOWN)
    request = ask(hands, "lead")

    result = await hands.result(request)

    for said in result.output.text.split(" | "):
        assert "you have started no subagent with the id 'ses_12'" in said and "leave task_id out" in said
    assert len(await hands.transport.tasks(trace_id=request.trace_id)) == 1


STOPPED = ASKS_AGAIN.replace(
    "  - {when: {prompt_contains: remember}, reply: {text: I do.}}\n",
    "  - {when: {prompt_contains: remember}, reply: {tool_calls: [{name: bash, arguments: {command: sleep 600}}]}}\n",
)


async def test_a_caller_goes_on_with_a_subagent_that_was_cancelled(start_agents):
    hands, _ = await start_agents(STOPPED)
    request = ask(hands, "lead")
    await hands.transport.submit([request])

    def sleeps(progress: TaskProgress) -> bool:
        return any(event.kind == "tool_call" and event.title == "sleep 600" for event in progress.events)

    await hands.until(request.trace_id, sleeps)
    [_, child] = await hands.transport.tasks(trace_id=request.trace_id)
    await hands.transport.cancel(child.task_id, by="test", reason="not so")

    result = await hands.ended(request.task_id)

    assert "It was blue" in result.output.text
    assert [call.is_error for call in result.tool_calls] == [True, False]


async def test_a_session_that_goes_on_is_where_it_was(start_agents):
    hands, _ = await start_agents(
        """
rules:
  - {when: {user_contains: first, tool_results: 0}, reply: {tool_calls: [{name: bash, arguments: {command: cd /tmp}}]}}
  - {when: {user_contains: second, tool_results: 1}, reply: {tool_calls: [{name: bash, arguments: {command: pwd}}]}}
  - {when: {user_contains: second}, reply: {text: "${result.1}"}}
  - {reply: {text: "${result.0}"}}
"""
    )
    first = await hands.result(ask(hands, "first"))
    second = await hands.result(ask(hands, "second", resume_token=first.resume_token))

    assert "the working directory is /tmp now" in first.output.text
    assert second.output.text == "/tmp"


async def test_a_task_that_was_stopped_goes_on_with_half_its_answer(start_agents):
    hands, server = await start_agents(
        """
rules:
  - {when: {user_contains: go on}, reply: {text: done}}
  - reply: {text: "A reply of many words, so that some of them are seen before the stall, and some after it."}
    fault: {after_bytes: 800, stall_s: 60}
"""
    )
    request = ask(hands, "talk")
    await hands.transport.submit([request])
    await hands.until(request.trace_id, tells("text"))
    await hands.transport.cancel(request.task_id, by="test", reason="enough")
    stopped = await hands.ended(request.task_id)

    second = await hands.result(ask(hands, "go on", resume_token=stopped.resume_token or request.task_id))

    assert (stopped.status, second.output.text) == (State.CANCELLED, "done")
    *_, half, note, prompt = server.log.bodies[-1]["messages"]
    assert half["role"] == "assistant" and half["content"].startswith("A reply of")
    assert "stopped while you were writing" in str(note["content"]) and "go on" in str(prompt["content"])


LATE = r"""
rules:
  - when: {user_contains: what is there, tool_results: 1}
    reply: {tool_calls: [{name: bash, arguments: {command: cat late.txt}}]}
  - {when: {user_contains: what is there}, reply: {text: "${result.1}"}}
  - {when: {turn: 1}, reply: {tool_calls: [{name: bash, arguments: ARGUMENTS}]}}
  - {reply: {text: I wrote it.}, fault: {after_bytes: 1, stall_s: 1}}
"""


@pytest.mark.parametrize(
    "arguments",
    [
        "{command: sleep 0.3; echo written late > late.txt, run_in_background: true}",
        "{command: '(sleep 0.3; echo written late > late.txt) >/dev/null 2>&1 &'}",
    ],
)
async def test_what_a_command_wrote_while_the_model_gave_its_answer_goes_on_with_the_session(
    start_agents, pack, arguments
):
    hands, _ = await start_agents(LATE.replace("ARGUMENTS", arguments))
    workspace = await pack({"a": "x"})
    first = await hands.result(ask(hands, "write", workspace=workspace))

    second = await hands.result(ask(hands, "what is there", workspace=workspace, resume_token=first.resume_token))

    assert first.patch and [file.path for file in first.patch.files] == ["late.txt"]
    assert second.output.text == "written late"
