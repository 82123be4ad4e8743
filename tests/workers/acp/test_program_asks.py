"""What a program asks of us: files, commands, permissions; each below scope, rules, and people."""

from __future__ import annotations

import pytest

from envelope.asks import AskTerms, Reply
from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.events import AskOpened, CallState, ToolCallChanged
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator.asks import open_asks
from workers.acp.conversation import MAX_AGAIN
from workers.acp.told import NEVER_ENDED
from workers.delivery.people import STRUCK
from workers.sessions.checkpoints import Checkpoints

pytestmark = [pytest.mark.redis, pytest.mark.docker]

GREET = "/workspace/src/greet.py"


async def test_files_are_read_and_written_by_our_tools_and_within_the_grants(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    request = led(
        hands,
        steps(
            ("write", "/workspace/src/made.py", "A = 1\nB = 2\nC = 3\n"),
            ("read", "/workspace/src/made.py", 2, 1),
            ("write", "/workspace/tests/made.py", "A = 1\n"),
            ("read", "/workspace/../etc/passwd"),
            ("read", "src/greet.py"),
            ("run", "ln -s /etc/passwd src/link"),
            ("read", "/workspace/src/link"),
            ("run", "rm src/link"),
            ("read", "/workspace/none"),
        ),
    )

    result = await hands.result(request)

    assert result.errors == ()
    said = result.output.text
    assert said.startswith("written\nB = 2\n")
    assert "'tests/made.py' is outside this task's scope" in said
    assert "'/etc/*' needs a person's approval" in said
    assert "Invalid params" in said
    assert "src/link is a link" in said
    assert "root:" not in said
    assert [file.path for file in result.patch.files] == ["src/made.py"]
    tools = [event.tool for event in await hands.events(request.trace_id, "tool_call") if event.state == "completed"]
    assert tools == ["write", "read", "bash", "bash"]


async def test_commands_run_in_terminals_below_the_rules(start_agents, led, agent_file, steps):
    rules = 'permission: {bash: {"*": allow, "git push *": deny}}\n'
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file(rules)})
    request = led(
        hands,
        steps(
            ("run", "echo out; echo err >&2; exit 3"),
            ("run", "pwd; cat"),
            ("kill", "sleep 1000"),
            ("run", "sleep 1000 & echo left"),
            ("run", "git push origin"),
            ("run", "no-such-program"),
        ),
    )

    result = await hands.result(request)

    assert result.errors == ()
    said = result.output.text
    assert said.startswith("3 out\nerr\n0 /workspace\nSIGKILL\n0 left\n")
    assert "denied by the rule `bash: git push *`" in said
    assert "127 sh: 1: no-such-program: not found" in said


async def test_nobody_to_ask_is_a_no_and_what_is_none_of_ours_is_asked_for(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file("permission: {edit: ask}\n")})
    prompt = steps(
        ("edits", GREET, "X = 3\n"),
        ("permission", "other", "Leave the planet"),
        ("permission", "execute", "List", "ls src"),
        ("permission", "execute", "Anything"),
    )

    result = await hands.result(led(hands, prompt))

    assert result.errors == ()
    assert result.output.text == "reject_once\nreject_once\nallow_once\nreject_once"
    assert result.patch is None


async def held(hands, request) -> AskOpened:
    found: list[AskOpened] = []

    def waits(progress: TaskProgress) -> bool:
        found.extend(event for event in progress.events if event.kind == "ask_opened")
        return progress.status is State.WAITING

    await hands.until(request.trace_id, waits)
    return found[0]


async def test_a_person_allows_an_edit_while_the_program_waits(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file("permission: {edit: ask}\n")})
    request = led(hands, steps(("edits", GREET, "X = 3\n"), ("write", GREET, "X = 4\n")), asks=AskTerms())
    await hands.transport.submit([request])

    ask = await held(hands, request)
    [listed] = await open_asks(hands.transport, trace_id=request.trace_id)
    assert (listed.ask.ask_id, listed.task.state) == (ask.ask_id, State.WAITING)
    assert (ask.permission, ask.patterns) == ("edit", ("src/greet.py",))
    await hands.transport.answer(
        request.task_id, ask.ask_id, Reply(choice="always", rules=ask.always).text(), by="me", asked=ask.digest()
    )
    result = await hands.ended(request.task_id)

    assert result.errors == ()
    assert result.output.text == "edited\nwritten"
    assert "+X = 4" in await hands.diff(result)
    [answered] = await hands.events(request.trace_id, "ask_answered")
    assert (answered.answer, answered.by) == ("always", "me")
    record = await hands.transport.record(request.task_id)
    assert (await Checkpoints(hands.transport.blobs).load(record.checkpoint)).approved_in == (request.task_id,)


async def test_a_forged_yes_lets_a_program_do_nothing_and_its_person_is_asked_again(
    start_agents, led, agent_file, steps, stranger
):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file("permission: {edit: ask}\n")})
    request = led(hands, steps(("edits", GREET, "X = 3\n")), asks=AskTerms())
    await hands.transport.submit([request])
    ask = await held(hands, request)

    await stranger.answer(request.task_id, ask.ask_id, "once", by="alice")
    events = []
    await hands.until(request.trace_id, lambda progress: events.extend(progress.events) or _waits_anew(events))
    assert len(await open_asks(hands.transport, trace_id=request.trace_id)) == 1
    no = Reply(choice="reject", message="not this file")
    await hands.transport.answer(request.task_id, ask.ask_id, no.text(), by="me", asked=ask.digest())
    result = await hands.ended(request.task_id)

    assert (result.errors, result.patch) == ((), None)
    [answered] = await hands.events(request.trace_id, "ask_answered")
    assert (answered.answer, answered.by) == ("reject", "me")


def _waits_anew(events) -> bool:
    waits = [event for event in events if event.kind == "state" and event.state is State.WAITING]
    return len(waits) == 2 and any(event.kind == "warning" and event.code == STRUCK for event in events)


async def test_a_plain_no_ends_the_task_and_a_word_with_it_does_not(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file("permission: {edit: ask}\n")})
    for reply, ends in ((Reply(choice="reject", message="not this file"), False), (Reply(choice="reject"), True)):
        request = led(hands, steps(("edits", GREET, "X = 3\n")), asks=AskTerms())
        await hands.transport.submit([request])
        ask = await held(hands, request)
        await hands.transport.answer(request.task_id, ask.ask_id, reply.text(), by="me", asked=ask.digest())

        result = await hands.ended(request.task_id)

        assert [error.code for error in result.errors] == [ErrorCode.REFUSED] * ends
        assert result.patch is None


@pytest.mark.parametrize(("stop", "beside"), [("end_turn", ""), ("end_turn", "Run the tests"), ("cancelled", "")])
async def test_a_program_that_stops_at_a_no_is_told_why_and_goes_on(start_agents, led, agent_file, steps, stop, beside):
    rules = f"permission: {{edit: deny}}\nenv: {{STOP_AT_NO: {stop}}}\n"
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file(rules)})
    request = led(hands, steps(("edits_or_stops", GREET, "X = 3\n", beside)))

    result = await hands.result(request)

    assert result.errors == ()
    assert result.output.text.startswith("heard: This was not allowed, and you stopped there:")
    assert (
        f"- edit (Edit {GREET}): not allowed: edit 'src/greet.py' is denied by the rule `edit: *`" in result.output.text
    )
    [told] = [event for event in await hands.events(request.trace_id, "message") if event.synthetic]
    assert told.text in result.output.text


async def test_the_model_of_a_program_that_goes_on_reads_why_in_the_result_of_its_call(
    start_agents, led, agent_file, steps
):
    hands, server = await start_agents(
        "rules: [{reply: {text: ok}}]", agents={"foreign": agent_file("permission: {edit: deny}\n")}
    )
    call = {"id": "edit1", "type": "function", "function": {"name": "edit", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call, call | {"id": "other"}]},
        {"role": "tool", "tool_call_id": "edit1", "content": "User refused."},
        {"role": "tool", "tool_call_id": "other", "content": "done"},
    ]
    asks = ("post", "/v1/chat/completions", {"model": "any", "messages": messages})

    result = await hands.result(led(hands, steps(("edits", GREET, "X = 3\n"), asks, asks)))

    assert result.errors == ()
    for body in server.log.bodies:
        told = {
            message["tool_call_id"]: message["content"] for message in body["messages"] if message["role"] == "tool"
        }
        assert told["edit1"].startswith(
            "User refused.\nnot allowed: edit 'src/greet.py' is denied by the rule `edit: *`"
        )
        assert told["other"] == "done"
    assert server.log.requests == 2


async def test_the_word_of_a_person_who_says_no_reaches_a_program_that_stops(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file("permission: {edit: ask}\n")})
    request = led(hands, steps(("edits_or_stops", GREET, "X = 3\n")), asks=AskTerms())
    await hands.transport.submit([request])
    ask = await held(hands, request)
    no = Reply(choice="reject", message="put it into src/other.py")
    await hands.transport.answer(request.task_id, ask.ask_id, no.text(), by="me", asked=ask.digest())

    result = await hands.ended(request.task_id)

    assert result.errors == ()
    assert "put it into src/other.py" in result.output.text


async def test_a_program_that_tries_the_same_again_and_again_ends_as_refused(start_agents, led, agent_file, steps):
    rules = "permission: {edit: deny}\nenv: {STUBBORN: '1'}\n"
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file(rules)})
    request = led(hands, steps(("edits_or_stops", GREET, "X = 3\n")))

    result = await hands.result(request)

    [error] = result.errors
    assert error.code is ErrorCode.REFUSED
    assert error.message.startswith(
        f"the agent's program stopped at what it was refused: edit (Edit {GREET}): not allowed"
    )
    assert error.hint.endswith(f'muster task prompt {request.task_id} "…"')
    told = [event for event in await hands.events(request.trace_id, "message") if event.synthetic]
    assert len(told) == MAX_AGAIN


async def test_what_a_program_does_without_asking_is_in_its_sandbox_and_checked(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file("permission: {edit: deny}\n")})

    read_only = await hands.result(led(hands, steps(("edits", GREET, "X = 3\n"), ("write", GREET, "X = 3\n"))))

    assert read_only.patch is None
    others, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    outside = await others.result(
        led(others, steps(("run", "echo 1 > tests/new.py")), auth_scope=("bash:**", "edit:src/**"))
    )
    assert [error.code for error in outside.errors] == [ErrorCode.OUT_OF_SCOPE]


async def test_people_see_its_calls_thoughts_and_plan(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    request = led(hands, steps(("plan", "first", "second"), ("edits", GREET, "X = 3\n")))

    await hands.result(request)

    events = await hands.events(request.trace_id)
    calls = [event for event in events if isinstance(event, ToolCallChanged)]
    assert [(call.tool, call.state.value, call.output) for call in calls] == [
        ("edit", "pending", ""),
        ("edit", "completed", "X = 3\n"),
    ]
    assert calls[0].title == f"Edit {GREET}"
    kinds = [event.kind for event in events]
    assert [todo.content for todo in events[kinds.index("todo")].todos] == ["first", "second"]
    assert events[kinds.index("reasoning")].text == "thinking"


async def test_what_is_told_and_asked_for_is_one_call_and_counts_once(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    asked = (
        ("within", "edit", "I write", "write", "/workspace/src/a.py", "A = 1\n"),
        ("within", "execute", "I run", "run", "true"),
        ("write", "/workspace/src/b.py", "A = 1\n"),
        ("within", "think", "I think", "write", "/workspace/src/c.py", "A = 1\n"),  # that is no doing of it
        ("read", "/workspace/src/a.py"),
    )
    request = led(hands, steps(*asked), budget=Budget(max_tool_calls=5))

    result = await hands.result(request)

    assert result.errors == ()
    assert result.output.text == "written\n0 \nwritten\nwritten\nERROR this task gets no more calls"
    assert [call.tool for call in result.tool_calls] == ["edit", "bash", "write", "write", "think"]
    assert result.metrics.tool_calls == 5
    changes = await hands.events(request.trace_id, "tool_call")
    assert len({change.call_id for change in changes}) == 5
    written = [(change.state, change.title) for change in changes if change.call_id == changes[0].call_id]
    assert [state.value for state, _ in written] == ["running", "running", "completed"]
    assert [title for _, title in written][:2] == ["I write", "src/a.py"]  # as it says, and as we know it


async def test_a_call_whose_end_is_never_told_has_failed_and_counts(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    request = led(hands, steps(("begins", "I run ", "Run the tests"), ("run", "true")))

    result = await hands.result(request)

    assert (result.errors, result.output.text) == ((), "None\n0 ")
    assert [(call.tool, call.is_error) for call in result.tool_calls] == [("bash", True)]
    assert result.metrics.tool_calls == 1
    changes = await hands.events(request.trace_id, "tool_call")
    assert len({change.call_id for change in changes}) == 1
    assert (changes[-1].state, changes[-1].output) == (CallState.ERROR, NEVER_ENDED)


async def test_a_call_that_a_program_dies_in_is_over(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    request = led(hands, steps(("begins", "I run ", "Run the tests"), ("die", 3)))

    result = await hands.result(request)

    assert [error.code for error in result.errors] == [ErrorCode.ENGINE]
    [*_, last] = await hands.events(request.trace_id, "tool_call")
    assert last.state is CallState.ERROR
