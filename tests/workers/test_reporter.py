"""What a task tells, gathered and charged: over the transport in memory, which keeps the same promises."""

from __future__ import annotations

import asyncio
import time

import pytest

from envelope.budget import Budget, Usage
from envelope.events import (
    CallState,
    MessageAdded,
    TextDelta,
    ToolCallChanged,
    ToolInputDelta,
    TurnFinished,
    TurnStarted,
)
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskRequest, TaskResult
from envelope.redaction import register_secret
from transport.consumer import Ending
from transport.errors import Fenced
from transport.keyring import fresh
from transport.limits import Limits
from transport.memory import MemoryTransport
from workers.delivery.reporter import Reporter


@pytest.fixture
async def claimed():
    """A transport in memory and the claim of one task, with a cost cap of 100 micro-dollars."""
    transport = MemoryTransport(limits=Limits(), keyring=fresh())
    request = TaskRequest(
        task_id=new_task_id(), trace_id=new_trace_id(), sender="test", recipient="build", agent="build",
        deadline_ms=60_000, created_at_ms=time.time_ns() // 1_000_000, budget=Budget(max_cost_microusd=100),
    )  # fmt: skip
    await transport.submit([request])
    [claim] = await transport.claim("build", "w1", slots=1, wait_s=1)
    yield transport, claim
    await transport.close()


async def sent(transport: MemoryTransport, claim, until: str) -> list[TaskProgress]:
    """The messages of the stream, up to the one with an event of this kind."""
    messages: list[TaskProgress] = []
    async with asyncio.timeout(60):
        async for entry in transport.follow(claim.lease.trace_id):
            if isinstance(entry.message, TaskProgress) and entry.message.attempt == claim.lease.attempt:
                messages.append(entry.message)
                if any(event.kind == until for event in entry.message.events):
                    break
    return messages


def own(messages: list[TaskProgress]) -> list[TaskProgress]:
    return [m for m in messages if any(event.kind != "state" for event in m.events)]


async def test_deltas_are_gathered_and_sent_without_a_flush(claimed):
    transport, claim = claimed
    async with Reporter(transport, claim.lease) as reporter:
        for piece in ("a", "b", "c "):
            reporter.report(TextDelta(text=piece))
        [message] = own(await sent(transport, claim, "text"))

    assert message.events == (TextDelta(text="abc "),)


SECRET = "canary-secret-in-pieces"


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
@pytest.mark.parametrize("delta", [TextDelta(text=""), ToolInputDelta(call_id="1", text="")], ids=["text", "input"])
async def test_no_cut_of_a_stream_lets_a_part_of_a_secret_out(claimed, cut: int, delta):
    transport, claim = claimed
    register_secret(SECRET)
    seen: list = []
    async with Reporter(transport, claim.lease, observers=[seen.append]) as reporter:
        reporter.report(delta.model_copy(update={"text": f"see {SECRET[:cut]}"}))
        await sent(transport, claim, delta.kind)  # what may go has gone out by itself
        reporter.report(delta.model_copy(update={"text": f"{SECRET[cut:]}, "}))
        reporter.report(TurnStarted(turn=2, model="m"))
        await reporter.flush()
    messages = own(await sent(transport, claim, "turn_started"))

    deltas = [event for message in messages for event in message.events if event.kind == delta.kind]
    assert "".join(event.text for event in deltas) == "see [redacted], "
    assert [event for event in seen if event.kind == delta.kind] == deltas
    assert all("canary" not in (message.partial_output or "") for message in messages)


async def test_the_text_of_one_turn_is_not_the_partial_output_of_the_next(claimed):
    transport, claim = claimed
    async with Reporter(transport, claim.lease) as reporter:
        reporter.report(TextDelta(text="the last words of turn 1"))
        reporter.report(TurnStarted(turn=2, model="m"))
        await reporter.flush()

    assert reporter.totals.partial_output == ""


async def test_a_whole_event_takes_the_deltas_before_it_along_in_order(claimed):
    transport, claim = claimed
    async with Reporter(transport, claim.lease) as reporter:
        reporter.report(TurnStarted(turn=1, model="m"))
        reporter.report(TextDelta(text="a"))
        reporter.report(ToolInputDelta(call_id="1", text="{"))
        reporter.report(ToolInputDelta(call_id="2", text="["))
        reporter.report(TextDelta(text="b"))
        await reporter.flush()
    messages = own(await sent(transport, claim, "tool_input"))

    assert [event.kind for m in messages for event in m.events] == [
        "turn_started",
        "text",
        "tool_input",
        "tool_input",
        "text",
    ]
    assert [m.seq for m in messages] == list(range(len(messages)))
    assert messages[-1].partial_output in (None, "ab")
    assert reporter.totals.partial_output == "ab"


async def test_a_turn_is_charged_once_and_the_ledger_comes_back(claimed):
    transport, claim = claimed
    usage = Usage(input_tokens=10, output_tokens=5)
    async with Reporter(transport, claim.lease) as reporter:
        reporter.report(TurnFinished(turn=1, finish_reason="stop", usage=usage, cost_microusd=60))
        first = await reporter.flush()
        again = await reporter.flush()
        reporter.report(TurnFinished(turn=2, finish_reason="stop", usage=usage, cost_microusd=60))
        last = await reporter.flush()

    assert (first.spent_microusd, first.cap_microusd, first.exhausted) == (60, 100, "")
    assert again.spent_microusd == 60
    assert (last.spent_microusd, last.exhausted) == (120, "trace")
    assert (
        reporter.totals.metrics.cost_microusd,
        reporter.totals.metrics.turns,
        reporter.totals.metrics.usage.total_tokens,
    ) == (120, 2, 30)


async def test_a_lost_lease_is_told_by_the_next_flush(claimed):
    transport, claim = claimed
    async with Reporter(transport, claim.lease) as reporter:
        await transport.cancel(claim.lease.task_id, by="test", reason="x")
        await transport.give_back(claim.lease)
        reporter.report(MessageAdded(role="user", text="too late"))
        with pytest.raises(Fenced):
            await reporter.flush()
        with pytest.raises(Fenced):
            await reporter.flush()


async def test_secrets_are_blanked_out_before_anybody_sees_them(claimed):
    transport, claim = claimed
    register_secret("canary-secret-4711")
    seen: list = []
    async with Reporter(transport, claim.lease, observers=[seen.append]) as reporter:
        reporter.report(TextDelta(text="the key is canary-secret-4711"))
        reporter.report(
            ToolCallChanged(call_id="1", tool="bash", state="completed", output="canary-secret-4711",
                            input={"command": "echo canary-secret-4711", "api_key": "short"})
        )  # fmt: skip
        await reporter.flush()
    messages = await sent(transport, claim, "tool_call")

    assert "canary" not in repr(messages) + repr(seen) + reporter.totals.partial_output
    assert "short" not in repr(messages)


async def test_a_checkpoint_is_stored_after_what_was_reported(claimed):
    transport, claim = claimed
    async with Reporter(transport, claim.lease) as reporter:
        reporter.report(TurnFinished(turn=1, finish_reason="stop", cost_microusd=7))
        await reporter.checkpoint(await transport.blobs.put(b"session"))

    assert reporter.ledger.spent_microusd == 7
    assert reporter.last_checkpoint.startswith("sha256:")


async def test_what_was_not_sent_goes_with_the_result(claimed):
    transport, claim = claimed
    done = TaskResult(
        trace_id=claim.lease.trace_id, task_id=claim.lease.task_id, attempt=claim.lease.attempt, status=State.COMPLETED
    )
    async with Reporter(transport, claim.lease) as reporter:
        reporter.report(TurnStarted(turn=1, model="m"))
        await reporter.flush()
        nothing_left = await reporter.ending(done)
        reporter.report(TextDelta(text="the end"))
        reporter.report(TurnFinished(turn=1, finish_reason="stop", cost_microusd=7))
        end = await reporter.ending(done)

    assert nothing_left == Ending(done, None)
    assert (end.result, end.charge_microusd, end.progress.seq) == (done, 7, 1)
    assert [event.kind for event in end.progress.events] == ["text", "turn_finished"]
    assert len(own(await sent(transport, claim, "turn_started"))) == 1


async def test_what_is_too_large_to_go_with_the_result_goes_before_it(claimed):
    transport, claim = claimed
    done = TaskResult(
        trace_id=claim.lease.trace_id, task_id=claim.lease.task_id, attempt=claim.lease.attempt, status=State.COMPLETED
    )
    async with Reporter(transport, claim.lease) as reporter:
        reporter.report(TextDelta(text="word " * 600_000))
        reporter.report(TurnFinished(turn=1, finish_reason="stop", cost_microusd=7))
        end = await reporter.ending(done)

    messages = own(await sent(transport, claim, "turn_finished"))
    assert end == Ending(done, None)
    assert [message.seq for message in messages] == [*range(len(messages))]
    assert reporter.ledger.spent_microusd == 7


async def test_what_is_too_large_for_one_message_goes_in_several_and_is_charged_once(claimed):
    transport, claim = claimed
    text = "word " * 600_000
    running = ToolCallChanged(call_id="", tool="write", state=CallState.RUNNING, input={"content": "x" * 4000})
    many = [running.model_copy(update={"call_id": f"c{n}"}) for n in range(600)]
    huge = running.model_copy(
        update={"call_id": "huge", "title": "t" * 3_000_000, "input": {"k" * 2_000_000: [1] * 500_000}}
    )
    async with Reporter(transport, claim.lease) as reporter:
        for event in (TextDelta(text=text), *many, huge, TurnFinished(turn=1, finish_reason="stop", cost_microusd=7)):
            reporter.report(event)
        ledger = await reporter.flush()
        messages = own(await sent(transport, claim, "turn_finished"))

    events = [event for message in messages for event in message.events]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
    assert [event.call_id for event in events if event.kind == "tool_call"] == [f"c{n}" for n in range(600)] + ["huge"]
    assert next(event for event in events if getattr(event, "call_id", "") == "huge").title.endswith("more characters)")
    assert ledger.spent_microusd == 7
    assert [message.seq for message in messages] == sorted({message.seq for message in messages})
