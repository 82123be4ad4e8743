"""What hangs is ended with its task, at the deadline and when somebody cancels.

Nothing of it is left behind: no money set aside, and no sandbox (which the driver's own fixture looks for).
"""

from __future__ import annotations

import pytest

from envelope.asks import AskTerms
from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress
from workers.mcp.settings import McpServers

pytestmark = [pytest.mark.redis, pytest.mark.docker]

MODEL = "openai/scripted"
FULL = "usage: {input_tokens: 8000, output_tokens: 10}"
STALLS = "fault: {after_bytes: 400, stall_s: 600}"
READS = "{name: read, arguments: {filePath: src/other.py}}"
SILENT = {"silent": {"command": ["sleep", "600"], "timeout_s": 600}}
ASKER = "---\ndescription: asks\nmode: all\npool: build\npermission: {bash: ask}\n---\nYou ask."

# what hangs → the model's script, the worker's settings, the event after which it hangs
HANGS = {
    "model": (f"[{{{STALLS}}}]", {}, "turn_started"),
    "tool": ("[{reply: {tool_calls: [{name: bash, arguments: {command: sleep 600}}]}}]", {}, "tool_call"),
    "compaction": (
        f"[{{when: {{system_contains: You write the notes}}, {STALLS}}},"
        f" {{reply: {{tool_calls: [{READS}, {READS}], {FULL}}}}}]",
        {"model_limits": {MODEL: {"context": 16_000, "output": 8_000}}},
        "turn_finished",
    ),
    "mcp": ("[{reply: {text: never}}]", {"mcp": SILENT}, "state"),
    "ask": ("[{reply: {tool_calls: [{name: bash, arguments: {command: ls}}]}}]", {}, "ask_opened"),
    "title": ("[{fault: {stall_s: 600}}]", {"titles": True}, "turn_started"),
}  # fmt: skip


@pytest.fixture(params=HANGS)
async def hung(request, start_agents, workspace):
    """`await hung(deadline_ms)`: the fleet, and a task that was submitted; and what says that it hangs."""
    script, settings, seen = HANGS[request.param]
    if "mcp" in settings:
        settings = {"mcp": McpServers.model_validate(settings["mcp"])}
    hands, _ = await start_agents(f"rules: {script}", agents={"asker": ASKER}, **settings)

    async def begin(**fields):
        task = hands.request(
            agent="asker",
            auth_scope=("read:**", "bash:**", "silent_*:*"),
            workspace=workspace,
            input=TaskInput(prompt="go"),
            asks=AskTerms(approved=() if request.param == "ask" else ("bash:*",)),
            budget=Budget(max_cost_microusd=1_000_000),
            **fields,
        )
        await hands.transport.submit([task])
        return hands, task

    def begins(progress: TaskProgress) -> bool:
        return any(event.kind == seen for event in progress.events)

    return begin, begins


async def reserved(hands, task) -> int:
    """What is still set aside of the trace's money."""
    return (await hands.transport.raise_cap(task.trace_id, 2_000_000, by="tester")).reserved_microusd


async def test_it_ends_at_the_deadline(hung):
    begin, begins = hung
    hands, task = await begin(deadline_ms=6_000)
    await hands.until(task.trace_id, begins)

    result = await hands.ended(task.task_id)

    assert (result.status, [error.code for error in result.errors]) == (State.EXPIRED, [ErrorCode.DEADLINE])
    await hands.stop()
    assert await reserved(hands, task) == 0


async def test_it_ends_when_it_is_cancelled(hung):
    begin, begins = hung
    hands, task = await begin()
    await hands.until(task.trace_id, begins)

    await hands.transport.cancel(task.task_id, reason="enough", by="tester")

    result = await hands.ended(task.task_id)
    assert (result.status, [error.code for error in result.errors]) == (State.CANCELLED, [ErrorCode.CANCELLED])
    await hands.stop()
    assert await reserved(hands, task) == 0
