"""A worker that is killed while a session is being compacted: another one makes the notes, and nothing twice."""

from __future__ import annotations

import json
import signal

import pytest

from envelope.budget import Budget
from envelope.lifecycle import State
from envelope.messages import TaskInput
from workers.recording.recorder import CASSETTE

pytestmark = [pytest.mark.redis, pytest.mark.docker]

MODEL = "openai/scripted"
NOTES = "The notes of what was done: one command ran. "
USAGE = "usage: {input_tokens: 100, output_tokens: 10}"
STALLS_IN_THE_NOTES = f"""
rules:
  - when: {{user_contains: Write the notes under exactly these headings}}
    times: 1
    reply: {{text: "{NOTES * 20}"}}
    fault: {{after_bytes: 3000, stall_s: 600}}
  - {{when: {{user_contains: Write the notes under exactly these headings}}, reply: {{text: "{NOTES}", {USAGE}}}}}
  - {{when: {{user_contains: The notes of what was done}}, reply: {{text: Done., {USAGE}}}}}
  - when: {{turn: 1}}
    reply:
      tool_calls: [{{name: bash, arguments: {{command: echo ran}}}}]
      usage: {{input_tokens: 9500, output_tokens: 10}}
  - {{reply: {{text: Done., {USAGE}}}}}
"""


async def test_a_worker_that_dies_in_a_compaction_costs_one_model_call(start_worker, fleet, serve):
    server = await serve(STALLS_IN_THE_NOTES)
    settings = {
        "MUSTER_MODEL": MODEL, "MUSTER_MODEL_BASE_URL": server.base_url, "MUSTER_MODEL_API_KEY": "unused",
        "MUSTER_SLOTS": "1", "MUSTER_LEASE_S": "2", "MUSTER_TITLES": "false",
        "MUSTER_PRICES": json.dumps({MODEL: {"input": 1_000_000, "output": 1_000_000}}),
        "MUSTER_MODEL_LIMITS": json.dumps({MODEL: {"context": 10_000, "output": 1_000}}),
    }  # fmt: skip
    first = await start_worker("build", **settings)
    request = await fleet.submit(
        agent="build",
        auth_scope=("bash:**",),
        input=TaskInput(prompt="begin", params={"record": True}),
        budget=Budget(max_cost_microusd=1_000_000),
    )
    await fleet.until(request, "turn_started", turn=2)
    first.send_signal(signal.SIGKILL)
    await first.wait()
    await start_worker("build", **settings)

    result = await fleet.ended(request.task_id)

    record = await fleet.transport.record(request.task_id)
    assert (result.status, result.errors, result.output.text) == (State.COMPLETED, (), "Done.")
    assert (record.lost_leases, result.attempt) == (1, 2)
    assert [call.tool for call in result.tool_calls] == ["bash"]
    assert result.metrics.turns == 3
    assert result.metrics.cost_microusd == 9_510 + 110 + 110  # each turn that came to its end, once
    noted = [body for body in server.log.bodies if "exactly these headings" in str(body["messages"][-1]["content"])]
    assert 1 <= len(noted) <= 2 and server.log.requests == len(noted) + 2
    cassette = next(one for one in result.attachments if one.name == CASSETTE)
    lines = (await fleet.transport.blobs.get(cassette.blob)).decode().splitlines()
    assert [json.loads(line)["kind"] for line in lines].count("call") == 3, "what was never stored is in no recording"
