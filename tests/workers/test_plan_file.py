"""The plan file over a real queue: what `plan` may write, who reads it before saying yes, and who carries it out."""

from __future__ import annotations

import pytest

from envelope.asks import AskTerms, Reply
from envelope.errors import ErrorCode
from envelope.events import AskOpened
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress
from envelope.plan_sections import SECTIONS
from workers.agents.registry import builtin
from workers.recording.replay import find_cassette, replay

pytestmark = [pytest.mark.redis, pytest.mark.docker]

CARRIED = "user_contains: carry it out"
FILE = "capture: {file: {of: prompt, pattern: '/workspace/[.]muster/plans/[^ ]+[.]md'}}"
LEAVES = "reply: {tool_calls: [{name: plan_exit, arguments: {}}]}"
YES = Reply(choice="once", answers=(("yes",),))


def calls(tool: str, **arguments: str) -> str:
    told = ", ".join(f'{name}: "{value}"' for name, value in arguments.items())
    return f"reply: {{tool_calls: [{{name: {tool}, arguments: {{{told}}}}}]}}"


def whole(overview: str) -> str:
    """A plan with all its sections."""
    rest = "".join(f"\n# {name}\n-" for name in SECTIONS[1:])
    return f"# Overview\n{overview}{rest}"


def quoted(text: str) -> str:
    """Within quotes in YAML."""
    return text.replace("\n", "\\n")


PLANS = f"""
rules:
  - {{when: {{{CARRIED}, turn: 7}}, {FILE.replace("prompt", "user")}, {calls("read", filePath="${file}")}}}
  - {{when: {{{CARRIED}, turn: 8}}, {calls("bash", command="echo planned > made.txt")}}}
  - {{when: {{{CARRIED}}}, reply: {{text: "It said: ${{result.6}}"}}}}
  - {{when: {{turn: 1}}, {LEAVES}}}
  - {{when: {{turn: 2}}, {calls("write", filePath="src/other.py", content="X = 2")}}}
  - {{when: {{turn: 3}}, {FILE}, {calls("write", filePath="${file}", content=quoted(whole("1. Change X.")))}}}
  - {{when: {{result_contains: smaller}}, {FILE},
     {calls("edit", filePath="${file}", oldString="Change X.", newString="Make made.txt.")}}}
  - {{{LEAVES}}}
"""


def goal(hands, workspace, agent: str = "plan", **fields):
    told = {"agent": agent, "recipient": builtin()[agent].pool, "auth_scope": builtin()[agent].auth_scope}
    told |= {"workspace": workspace, "input": TaskInput(prompt=fields.pop("prompt", "make it"))}
    return hands.request(**{**told, **fields})


async def asked(hands, request, *, after: str = "0") -> tuple[AskOpened, str]:
    """The next ask that the task waits for, and where the stream stands."""
    found: list[AskOpened] = []

    def waits(progress: TaskProgress) -> bool:
        found.extend(event for event in progress.events if isinstance(event, AskOpened))
        return bool(found) and progress.status is State.WAITING

    place = await hands.until(request.trace_id, waits, after=after)
    return found[-1], place


async def say(hands, request, ask: AskOpened, reply: Reply) -> None:
    await hands.transport.answer(request.task_id, ask.ask_id, reply.text(), by="tester", asked=ask.digest())


async def test_a_plan_is_written_refined_approved_and_carried_out_by_several_workers(start_agents, workspace):
    hands, server = await start_agents(PLANS)
    request = goal(hands, workspace, asks=AskTerms())
    await hands.transport.submit([request])
    first, place = await asked(hands, request)
    path = f"/workspace/.muster/plans/{request.task_id}.md"
    assert (first.permission, first.detail) == ("plan_exit", whole("1. Change X."))
    await hands.stop()
    others, _ = await start_agents("rules: []", model_base_url=server.base_url)

    await say(others, request, first, Reply(choice="reject", message="make it smaller"))
    second, _ = await asked(others, request, after=place)
    assert second.detail == whole("1. Make made.txt.")
    await say(others, request, second, YES)
    planned = await others.ended(request.task_id)

    assert (planned.status, planned.next_agent, planned.patch) == (State.COMPLETED, "build", None)
    said = [message["content"] for message in server.log.bodies[5]["messages"] if message["role"] == "tool"]
    assert said[0] == f"Error: your plan file {path} is empty; write the plan there, and call plan_exit again"
    assert "src/other.py" in said[1] and "not allowed" in said[1]
    assert said[2] == f"Created {path}."

    carry = goal(others, workspace, "build", prompt="carry it out", resume_token=planned.resume_token)
    built = await others.result(carry)

    assert built.output.text.startswith("It said: <path>" + path) and "2: 1. Make made.txt." in built.output.text
    assert [file.path for file in built.patch.files] == ["made.txt"]
    users = [message["content"] for message in server.log.bodies[-1]["messages"] if message["role"] == "user"]
    assert len(users) == 4 and users[2].startswith(f"carry it out\n\nThe approved plan: {path}")
    [told] = await others.events(carry.trace_id, "message")
    assert (told.role, told.synthetic) == ("user", True)


OTHER = "/workspace/.opencode/plans/refuse.md"
NAMED = f"""
rules:
  - {{when: {{turn: 1}}, {calls("write", filePath=OTHER, content=quoted(whole("1. Change X.")))}}}
  - {{when: {{turn: 2}}, {calls("edit", filePath=OTHER, oldString="Change X.", newString="Change Y.")}}}
  - {{when: {{turn: 3}}, {calls("write", filePath="/workspace/.opencode/plans/deep/er.md", content="X")}}}
  - {{when: {{turn: 4}}, {LEAVES}}}
  - {{when: {{turn: 5}}, {calls("read", filePath=OTHER)}}}
  - {{{LEAVES}}}
"""


async def test_a_plan_has_the_name_that_its_agent_gives_it_where_plans_are(start_agents, workspace):
    hands, server = await start_agents(NAMED)
    request = goal(hands, workspace, asks=AskTerms())
    await hands.transport.submit([request])
    first, place = await asked(hands, request)
    await say(hands, request, first, Reply(choice="reject", message="are you sure?"))  # and it begins in a new attempt
    second, _ = await asked(hands, request, after=place)
    await say(hands, request, second, YES)

    planned = await hands.ended(request.task_id)

    assert (planned.next_agent, planned.patch) == ("build", None)
    assert first.detail == second.detail == whole("1. Change Y.")
    said = [message["content"] for message in server.log.bodies[-1]["messages"] if message["role"] == "tool"]
    assert said[0] == f"Created {OTHER}."
    assert "deep/er.md" in said[2] and "not allowed" in said[2]
    assert f"<path>{OTHER}" in said[4] and "1. Change Y." in said[4]


STOPS = """
rules:
  - {when: {turn: 1}, reply: {text: I would change X.}}
  - {reply: {text: As I said.}}
"""


async def test_a_text_alone_is_no_end_of_planning_and_the_model_hears_so_once(start_agents, workspace):
    hands, server = await start_agents(STOPS)
    request = goal(hands, workspace, asks=AskTerms())

    result = await hands.result(request)

    assert (result.status, result.errors[0].code) == (State.ERROR, ErrorCode.PLAN_INCOMPLETE)
    assert result.errors[0].hint == f'say what is missing with: muster task prompt {result.task_id} "…"'
    assert (result.output.text, server.log.requests) == ("As I said.", 2)
    told = [event for event in await hands.events(request.trace_id, "message") if event.synthetic]
    assert len(told) == 1 and "plan_exit" in told[0].text


async def test_a_question_is_an_end_of_a_turn_and_its_answer_begins_anew(start_agents, workspace):
    wants = '{question: "Which?", header: Choice}'
    hands, server = await start_agents(
        f"""
rules:
  - {{when: {{turn: 1}}, reply: {{text: Hm.}}}}
  - {{when: {{turn: 2}}, reply: {{tool_calls: [{{name: question, arguments: {{questions: [{wants}]}}}}]}}}}
  - {{when: {{turn: 3}}, reply: {{text: Hm again.}}}}
  - {{when: {{turn: 4}}, {FILE}, {calls("write", filePath="${file}", content=quoted(whole("1. Red.")))}}}
  - {{{LEAVES}}}
"""
    )
    request = goal(hands, workspace, asks=AskTerms())
    await hands.transport.submit([request])
    question, place = await asked(hands, request)
    await say(hands, request, question, Reply(choice="once", answers=(("red",),)))
    leave, _ = await asked(hands, request, after=place)
    await say(hands, request, leave, YES)

    result = await hands.ended(request.task_id)

    assert (result.next_agent, server.log.requests) == ("build", 5)


async def test_a_plan_that_is_not_whole_is_not_shown_to_anybody_before_it_is(start_agents, workspace):
    half = whole("Red.").replace("# Approach\n-", "# Approach").replace("# Verification\n-", "")
    hands, server = await start_agents(
        f"""
rules:
  - {{when: {{turn: 1}}, {FILE}, {calls("write", filePath="${file}", content=quoted(half))}}}
  - {{when: {{turn: 2}}, {LEAVES}}}
  - {{when: {{turn: 3}}, {FILE}, {calls("write", filePath="${file}", content=quoted(whole("Red.")))}}}
  - {{{LEAVES}}}
"""
    )
    request = goal(hands, workspace, asks=AskTerms())
    await hands.transport.submit([request])

    ask, _ = await asked(hands, request)

    assert ask.detail == whole("Red.")
    refused = server.log.bodies[2]["messages"][-1]["content"]
    assert 'is not whole: the section "Approach" is empty; the section "Verification" is missing; write' in refused


async def test_where_nobody_can_be_asked_a_text_is_the_plan(start_agents, workspace):
    hands, server = await start_agents(STOPS)

    result = await hands.result(goal(hands, workspace))

    assert (result.status, result.output.text) == (State.COMPLETED, "I would change X.")
    tools = {tool["function"]["name"] for tool in server.log.bodies[0]["tools"]}
    assert {"write", "edit"} <= tools and not tools & {"plan_exit", "apply_patch"}


async def test_a_plan_that_nobody_would_read_whole_is_refused(start_agents, workspace):
    long = "x" * (16 * 1024 + 1)
    hands, _ = await start_agents(
        f"""
rules:
  - {{when: {{turn: 1}}, {FILE}, {calls("write", filePath="${file}", content=long)}}}
  - {{reply: {{text: "${{result.0}}"}}}}
"""
    )

    result = await hands.result(goal(hands, workspace))

    assert "a plan has at most 16384 bytes, and this has 16385" in result.output.text


STEP = "{version: 0, ops: [{op: add, title: Look}]}"
RECORDED = f"""
rules:
  - when: {{turn: 1}}
    {FILE}
    reply:
      tool_calls:
        - {{name: plan_update, arguments: {STEP}}}
        - {{name: write, arguments: {{filePath: "${{file}}", content: "1. Look."}}}}
  - {{reply: {{text: Planned.}}}}
"""


async def test_a_recorded_plan_is_the_same_when_it_is_played_again(start_agents, workspace):
    hands, server = await start_agents(RECORDED)
    told = TaskInput(prompt="make it", params={"record": True})
    first = await hands.result(goal(hands, workspace, input=told))
    later = TaskInput(prompt="and then?", params={"record": True})
    second = await hands.result(goal(hands, workspace, input=later, resume_token=first.resume_token))
    prompts = [message["content"] for message in server.log.bodies[-1]["messages"] if message["role"] == "user"]
    assert "1. [pending] s1: Look (build)" in prompts[-1]

    for result in (first, second):
        cassettes = {one.name: one.blob for one in result.attachments}
        checkpoint = (await hands.transport.record(result.task_id)).checkpoint
        cassette = await find_cassette(hands.transport.blobs, cassettes, checkpoint)
        ended = await replay(cassette, hands.transport.blobs, builtin())
        assert (ended.difference, ended.is_whole) == (None, True)
