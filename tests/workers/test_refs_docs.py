"""The example of `docs/agents/refs.md` is a request, and every limit that it names is the code's."""

from __future__ import annotations

import json
import re
from pathlib import Path

from envelope.ids import new_task_id, new_trace_id
from envelope.messages import TaskRequest
from workers.agent_task import attachments
from workers.delivery import artifacts
from workers.delivery.output_schema import MAX_DEPTH, MAX_SCHEMA_BYTES, answer_schema
from workers.references.names import MAX_REFS, check_refs, parse_name
from workers.sandboxes.subpath import folder_of
from workers.settings import WorkerSettings
from workers.subagents.room import MAX_IN_FLIGHT

DOC = (Path(__file__).parents[2] / "docs/agents/refs.md").read_text()
MIB = 1024 * 1024


def test_the_example_is_a_request_that_agents_take():
    found = re.search(r"```json\n(.*?)```", DOC, re.DOTALL)
    assert found is not None
    ours = {"task_id": new_task_id(), "trace_id": new_trace_id(), "sender": "doc", "recipient": "general"}

    request = TaskRequest.model_validate({**json.loads(found[1]), **ours, "deadline_ms": 1000, "created_at_ms": 0})

    check_refs(request.context_refs)
    assert request.output_schema is not None and answer_schema(request.output_schema) == request.output_schema
    assert folder_of(request) == "/workspace/services/billing"
    assert parse_name("file:services/billing/load.py#10-60") == request.context_refs[0]


def test_the_limits_are_those_of_the_code():
    assert f"At most {MAX_REFS} references" in DOC
    assert f"up to {attachments.INLINE_BYTES // 1024} KiB" in DOC
    assert f"({attachments.ALL_INLINE_BYTES // 1024} KiB in all)" in DOC
    assert f"{attachments.MAX_FILES:,} files and {attachments.MAX_BYTES // MIB} MiB" in DOC
    assert f"({artifacts.MAX_FILES} files, {artifacts.MAX_FILE_BYTES // MIB} MiB" in DOC
    assert f"{artifacts.MAX_BYTES // MIB} MiB in all" in DOC
    assert f"at most {MAX_SCHEMA_BYTES // 1024} KiB and {MAX_DEPTH} levels" in DOC
    assert f"at most {MAX_IN_FLIGHT} tasks" in DOC


def test_the_settings_are_those_of_the_code():
    named = {name.lower() for name in re.findall(r"`MUSTER_(\w+)`", DOC)}

    assert named and named <= WorkerSettings.model_fields.keys()
