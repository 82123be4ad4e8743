"""A trace by HTTP: its events as they come, from where a reader left, and the tree that they make."""

from __future__ import annotations

import json

import pytest

from envelope.events import AskOpened, TurnStarted

pytestmark = pytest.mark.redis

PUSH = AskOpened(ask_id="ask_1", permission="bash", patterns=("git push",), detail="git push origin main")


async def read_event(stream) -> dict:
    event: dict = {}
    async for line in stream.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if not name and event:
            return event
        if name in ("id", "event", "data"):
            event[name] = json.loads(value) if name == "data" else value
    return event


async def read_all(stream) -> list[dict]:
    events = []
    while event := await read_event(stream):
        events.append(event)
    return events


async def test_events_are_streamed_and_resumed_to_the_end(api):
    work = await api.work()
    await work.tell(TurnStarted(turn=1))
    path = f"{api.url}/v1/traces/{work.lease.trace_id}/events"
    async with api.session.get(path, headers=api.auth("viewer")) as stream:
        first = [await read_event(stream) for _ in range(2)]  # pending and running come of the queue
        await work.end()
        rest = await read_all(stream)
    resumed = {"Last-Event-ID": first[-1]["id"], **api.auth("viewer")}
    async with api.session.get(path, headers=resumed) as stream:
        again = await read_all(stream)

    assert rest == again
    assert rest[-1]["event"] == "end"
    assert rest[-2]["data"]["kind"] == "result"
    told = [event for one in [*first, *rest] for event in one["data"].get("events", ())]
    assert {"kind": "turn_started", "turn": 1, "model": "", "window_tokens": 0} in told


async def test_the_tree_is_the_fold_of_the_events(api):
    task_id = await (await api.work()).ask(PUSH)
    trace_id = (await api.stage.muster.record(task_id)).trace_id

    status, tree = await api.call("GET", f"/v1/traces/{trace_id}")

    assert (status, tree["root"]) == (200, task_id)
    assert tree["tasks"][task_id]["state"] == "waiting"
    assert "ask_1" in tree["tasks"][task_id]["asks"]


async def test_a_reader_whose_place_was_trimmed_gets_the_whole_tree_again(api):
    work = await api.work()
    trace_id = work.lease.trace_id
    first = (await api.call("GET", f"/v1/traces/{trace_id}"))[1]
    for turn in range(1, 5):
        await work.tell(TurnStarted(turn=turn))
    cell = api.stage.transport._cells.of_trace(trace_id)
    await cell.client.call("XTRIM", cell.keys.name("events", trace_id), "MAXLEN", 1)
    await work.end()

    tree = (await api.call("GET", f"/v1/traces/{trace_id}"))[1]
    cut = {"Last-Event-ID": first["cursor"], **api.auth("viewer")}
    async with api.session.get(f"{api.url}/v1/traces/{trace_id}/events", headers=cut) as stream:
        events = await read_all(stream)

    assert tree["tasks"][work.task_id]["state"] == "completed"
    assert "resynced" in [event["kind"] for event in events[0]["data"]["events"]]
    assert (events[-2]["data"]["kind"], events[-1]["event"]) == ("result", "end")
