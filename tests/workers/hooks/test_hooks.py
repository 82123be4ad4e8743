"""Hooks of a package that is really installed, around real tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from envelope.budget import Usage
from envelope.events import WarningRaised
from envelope.lifecycle import State
from envelope.messages import TaskInput
from workers.agents.registry import builtin
from workers.errors import BadSettings
from workers.hooks.api import Parameters, Refuse, TaskView, ToolUse
from workers.hooks.chain import Hooks, hooked
from workers.hooks.installed import Installed, installed_hooks
from workers.llm.base import ChatMessage, Completed, ProviderItems, ToolCall, ToolSpec
from workers.recording.replay import find_cassette, replay
from workers.tools.base import ToolResult

TASK = TaskView("t", "r", "build", "m")
MODEL = "openai/scripted"
Install = Callable[..., None]


POLICY = """
from workers.hooks.api import Parameters, Refuse
from dataclasses import replace


class Policy:
    async def before_tool(self, use):
        if use.tool == "bash" and "curl" in use.input["command"]:
            return Refuse("nothing is fetched here")
        if use.tool == "bash":
            return {**use.input, "command": use.input["command"] + "; echo $TICKET"}

    async def after_tool(self, use, result):
        return replace(result, content=result.content.replace("hello", "HELLO"))

    async def system_prompt(self, task, prompt):
        return prompt + "\\nThe house rules of " + task.agent

    async def messages(self, task, messages):
        return [m.model_copy(update={"content": m.content + " (seen by a hook)"}) if m.role == "user" else m
                for m in messages]

    async def tool_definitions(self, task, tools):
        return [replace(tool, description="short") for tool in tools]

    async def chat_parameters(self, task, parameters):
        return Parameters(temperature=0.25)

    async def shell_environment(self, task):
        return {"TICKET": "T-" + task.agent}


class Broken:
    async def after_tool(self, use, result):
        raise RuntimeError("after is broken")

    async def messages(self, task, messages):
        raise RuntimeError("messages is broken")
"""

SCRIPT = """
rules:
  - when: {turn: 1, system_contains: The house rules of build, prompt_contains: say hello (seen by a hook)}
    reply:
      tool_calls:
        - {name: bash, arguments: {command: echo hello}}
        - {name: bash, arguments: {command: curl example.com}}
  - when: {turn: 2}
    reply: {text: "It said: ${result.0} / ${result.1}"}
"""


NOTES = """
from dataclasses import replace
from workers.hooks.api import NotesWanted


class Keeps:
    async def compacting(self, task, wanted):
        return replace(wanted, context=(*wanted.context, "Keep the ticket T-1 of " + task.agent))


class Odd:
    async def compacting(self, task, wanted):
        return "notes"


class Rewords:
    async def compacting(self, task, wanted):
        assert "## Objective" in wanted.template
        return NotesWanted("Write one line.", wanted.context)
"""
LONG = """
rules:
  - when: {system_contains: You write the notes}
    reply: {text: "One line."}
  - when: {turn: 1}
    reply:
      tool_calls: [{name: bash, arguments: {command: echo hello}}]
      usage: {input_tokens: 8000, output_tokens: 10}
  - reply: {text: done}
"""


@pytest.mark.redis
@pytest.mark.docker
async def test_installed_hooks_word_what_notes_of_a_full_window_keep(install: Install, start_agents, workspace):
    install(NOTES, a_keeps="Keeps", b_odd="Odd", c_rewords="Rewords")
    hands, model = await start_agents(LONG, model_limits={MODEL: {"context": 16_000, "output": 8_000}})
    request = hands.request(agent="build", auth_scope=("bash:**",), workspace=workspace, input=TaskInput(prompt="go"))

    result = await hands.result(request)

    assert (result.status, result.output.text) == (State.COMPLETED, "done"), result.errors
    [asked] = [body["messages"] for body in model.log.bodies if "You write the notes" in body["messages"][0]["content"]]
    assert asked[1]["content"].startswith("<record>")
    assert asked[1]["content"].endswith("Keep the ticket T-1 of build\n\nWrite one line.")
    warnings = [event.message for event in await hands.events(request.trace_id, "warning")]
    assert any("the hook b_odd failed in compacting: TypeError('NotesWanted or None" in one for one in warnings)


@pytest.mark.redis
@pytest.mark.docker
async def test_an_installed_hook_is_asked_around_everything(install: Install, start_agents, workspace):
    install(POLICY, a_policy="Policy", b_broken="Broken")
    hands, _ = await start_agents(SCRIPT)
    request = hands.request(
        agent="build",
        auth_scope=("bash:**",),
        workspace=workspace,
        input=TaskInput(prompt="say hello", params={"record": True}),
    )

    result = await hands.result(request)
    [cassette] = result.attachments
    blobs = hands.transport.blobs
    entries = await find_cassette(blobs, {cassette.name: cassette.blob}, None)
    played = await replay(entries, blobs, builtin())

    assert result.status is State.COMPLETED, result.errors
    assert result.output.text.startswith("It said: HELLO\nT-build / not allowed: nothing is fetched here")
    # a replay has no hooks: it asks what is asked before they change it, and has the results that they made
    assert (played.difference, played.is_whole) == (None, True)
    warnings = [event.message for event in await hands.events(request.trace_id, "warning")]
    assert any("the hook b_broken failed in after_tool" in warning for warning in warnings)
    assert any("the hook b_broken failed in messages" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("source", "point", "said"),
    [
        ("class Hook: pass", "Hook", "has none of the methods"),
        ("class Hook:\n    def before_tool(self, use): return None", "Hook", "no `async def`"),
        ("class Hook:\n    def __init__(self): raise ValueError('no')", "Hook", "cannot be loaded: ValueError"),
        ("raise RuntimeError('at import')", "Hook", "cannot be loaded: RuntimeError"),
        ("", "Hook", "cannot be loaded: AttributeError"),
    ],
)
def test_a_hook_that_cannot_work_stops_the_worker_at_its_start(install: Install, source: str, point: str, said: str):
    install(source, mine=point)

    with pytest.raises(BadSettings, match=said) as refused:
        installed_hooks()

    assert "hook mine" in refused.value.message and "uninstall hooks_of_" in refused.value.hint


class Raises:
    async def before_tool(self, use: ToolUse) -> None:
        raise RuntimeError("oops")

    async def shell_environment(self, task: TaskView) -> None:
        raise RuntimeError("oops")


class Hangs:
    async def before_tool(self, use: ToolUse) -> None:
        await asyncio.Event().wait()

    async def after_tool(self, use: ToolUse, result: ToolResult) -> None:
        await asyncio.Event().wait()


class Words:
    async def chat_parameters(self, task: TaskView, parameters: Parameters) -> Parameters:
        return Parameters(0.25)

    async def tool_definitions(self, task: TaskView, tools: Sequence[ToolSpec]) -> list[ToolSpec]:
        return [replace(tool, description=f"{tool.description} (of {task.agent})") for tool in tools]


async def test_parameters_and_descriptions_are_those_that_hooks_make():
    hooks = chain([], Words(), Words())

    assert await hooks.parameters(Parameters(None)) == Parameters(0.25)
    [tool] = await hooks.tool_definitions([ToolSpec("read", "reads", {})])
    assert tool.description == "reads (of build) (of build)"


class Counts:
    async def before_tool(self, use: ToolUse) -> dict[str, Any] | Refuse:
        n = use.input.get("n", 0)
        return Refuse("enough") if n == 2 else {"n": n + 1}


def chain(told: list[Any], *hooks: Any) -> Hooks:
    return Hooks([Installed(f"h{n}", hook) for n, hook in enumerate(hooks)], TASK, told.append, timeout_s=0.05)


CALL = ToolCall(id="c", name="bash", arguments="{}", input={})


@pytest.mark.parametrize("hook", [Raises(), Hangs()])
async def test_a_check_that_fails_refuses_the_call(hook: Any):
    told: list[Any] = []

    assert await chain(told, hook).before(CALL) == "not run: the hook h0, which checks calls, has failed"
    assert [type(event) for event in told] == [WarningRaised]


async def test_other_hooks_that_fail_leave_things_as_they_are():
    told: list[Any] = []
    result = ToolResult("as it was")

    assert await chain(told, Hangs(), Raises()).after(CALL, result) is result
    assert await chain(told, Raises()).shell_environment() == {}
    assert len(told) == 2


async def test_hooks_go_on_from_what_the_one_before_made_and_a_refusal_is_the_end():
    changed = await chain([], Counts(), Counts()).before(CALL)
    assert isinstance(changed, ToolCall) and changed.input == {"n": 2}

    assert await chain([], Counts(), Counts(), Counts(), Counts()).before(CALL) == (
        "not allowed: enough (says the hook h2)"
    )


async def test_who_is_cancelled_while_a_hook_thinks_is_cancelled():
    asking = asyncio.create_task(Hooks([Installed("h", Hangs())], TASK, lambda _: None).before(CALL))
    await asyncio.sleep(0)

    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking


class Listener:
    """A provider that keeps what it is sent."""

    name = MODEL

    def __init__(self) -> None:
        self.sent: Sequence[ChatMessage] = ()

    async def stream(self, messages, tools, tool_choice="auto"):
        self.sent = messages
        yield Completed("", "", (), "stop", Usage())


class Silences:
    def __init__(self, field: str) -> None:
        self.field = field

    async def messages(self, task, messages):
        return [one.model_copy(update={self.field: ""}) if one.role == "assistant" else one for one in messages]


@pytest.mark.parametrize("field", ["content", "reasoning"])
async def test_what_a_hook_takes_out_of_a_reply_goes_back_in_no_other_form(field):
    items = ProviderItems(model=MODEL, items=({"type": "thinking", "thinking": "SECRET"}, {"text": "SECRET"}))
    reply = ChatMessage(role="assistant", content="SECRET", reasoning="SECRET", provider_items=items)
    asked = [ChatMessage(role="system", content="You."), ChatMessage(role="user", content="Go."), reply]
    listener, other = Listener(), Listener()

    for model, hook in ((listener, Silences(field)), (other, Silences("agent"))):
        hooks = Hooks([Installed("silences", hook)], TASK, lambda event: None)
        assert [type(event) async for event in hooked(model, hooks).stream(asked, ())] == [Completed]

    assert listener.sent[-1].provider_items is None
    assert other.sent[-1].provider_items == items
