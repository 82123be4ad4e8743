"""Recordings that were cut, damaged or made up: a sentence for a person, and nothing runs."""

from __future__ import annotations

import time

import pytest

from envelope.ids import new_task_id, new_trace_id
from envelope.messages import TaskInput, TaskRequest
from transport.memory import MemoryTransport
from workers.agents.registry import builtin
from workers.errors import BadInput
from workers.llm.cassette import Call, Ended, Kept, written
from workers.recording.recorder import AGENT, AGENTS, CASSETTE, EARLIER, REQUEST
from workers.recording.replay import find_cassette, replay

REQUEST_OF_IT = TaskRequest(
    task_id=new_task_id(),
    trace_id=new_trace_id(),
    sender="test",
    recipient="build",
    agent="build",
    input=TaskInput(prompt="go"),
    deadline_ms=1_000,
    created_at_ms=time.time_ns() // 1_000_000,
)
KEPT = {
    REQUEST: REQUEST_OF_IT.model_dump(mode="json"),
    AGENT: AGENTS.dump_python(builtin()["build"], mode="json"),
    EARLIER: None,
}


def entries(**changed):
    return tuple(Kept(name=name, value=value) for name, value in {**KEPT, **changed}.items() if value != "left out")


LINE = written(Kept(name=REQUEST, value=KEPT[REQUEST]))
NOT_READ = {
    "cut in the middle of a line": LINE[: len(LINE) // 2].encode(),
    "no JSON": b"\x7fELF",
    "no text": b"\xff\xfe\x00",
    "an unknown kind": b'{"kind": "exec", "command": "id"}',
    "wrong types": b'{"kind": "call", "model": 7, "kept": "x", "added": 1, "reply": {}}',
    "deep": b"[" * 200_000,
    "a number of a million digits": b'{"kind": "kept", "name": "x", "value": ' + b"9" * 1_000_000 + b"}",
}


@pytest.mark.parametrize("content", NOT_READ.values(), ids=NOT_READ.keys())
async def test_what_is_no_cassette_is_refused_in_a_sentence(content):
    blobs = MemoryTransport().blobs

    with pytest.raises(BadInput, match="the recording cannot be read: ") as refused:
        await replay(await find_cassette(blobs, {CASSETTE: await blobs.put(content)}, None), blobs, builtin())

    assert len(str(refused.value)) < 300 and "--record" in refused.value.hint


NOT_PLAYED = {
    "empty": (),
    "no request": entries(**{REQUEST: "left out"}),
    "a request of another shape": entries(**{REQUEST: {"task_id": "../../etc/passwd"}}),
    "no agent": entries(**{AGENT: "left out"}),
    "an agent of another shape": entries(**{AGENT: ["build"]}),
    "an agent that nobody has": entries(**{REQUEST: {**KEPT[REQUEST], "agent": "nobody"}}),
    "a session that is no reference": entries(**{EARLIER: {"path": "/etc/passwd"}}),
    "a reply of nothing": (*entries(), Call(model="x", kept=0, added=(), reply=())),
    "a reply of an unknown kind": (*entries(), Call(model="x", kept=0, added=(), reply=(("Exec", {}),))),
    "a reply of wrong types": (*entries(), Call(model="x", kept=0, added=(), reply=(("Text", {"text": 7}),))),
}


@pytest.mark.parametrize("recorded", NOT_PLAYED.values(), ids=NOT_PLAYED.keys())
async def test_what_is_made_up_is_refused_in_a_sentence(recorded):
    with pytest.raises(BadInput, match="the recording cannot be read: "):
        await replay(recorded, MemoryTransport().blobs, builtin())


@pytest.mark.parametrize("earlier", ["/etc/passwd", "../../etc/passwd", "sha256:" + "0" * 64])
async def test_an_earlier_session_is_a_blob_and_no_path(earlier):
    with pytest.raises(BadInput):
        await replay(entries(**{EARLIER: earlier}), MemoryTransport().blobs, builtin())


async def test_a_recording_of_nothing_but_its_task_differs_where_it_begins():
    """What it does not hold is told as a difference, and no model, tool or network stands in for it."""
    ended = await replay((*entries(), Ended(text="x")), MemoryTransport().blobs, builtin())

    assert ended.calls == 0 and ended.difference is not None and ended.difference.turn == 0


async def test_surroundings_of_another_form_are_a_difference():
    recorded = (*entries(), Kept(name="surroundings", value={"environment": 7}), Ended(text="x"))

    ended = await replay(recorded, MemoryTransport().blobs, builtin())

    assert "in another form" in ended.difference.what
