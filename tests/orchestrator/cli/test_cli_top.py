"""`muster top`: what one look tells of a fleet, and how it is drawn. The fleet's tasks are played by hand."""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from envelope.agents import WorkerCard
from envelope.budget import Usage
from envelope.events import AskOpened, CallState, ChildSpawned, ToolCallChanged, TurnFinished, TurnStarted
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from orchestrator.cli.top_picture import top_picture
from orchestrator.client import Muster
from orchestrator.overview import Overview, Overviews
from orchestrator.session.fold import apply_all
from orchestrator.settings import Settings
from orchestrator.submit import task_request
from transport.base import Claim, Entry, Handle, PoolStats
from transport.keyring import fresh
from transport.memory import MemoryTransport

HOUR_MS = 3_600_000
SVG = Path(__file__).parents[3] / "docs" / "pictures" / "top.svg"
PICTURE = """\
muster  1 worker · 2 running · 3 in line · $0.2500 so far · $0.5000 an hour
build         █████·····  2 of 4 slots      3 in line ▲ 3  the oldest for 1 m 30 s
orchestrator  ··········  nobody serves it  0 in line
openai/gpt-5  1 task at work  1.2k tok  $0.2500
openai/small  1 task at work  0 tok     $0.00
! dead letters: 2  muster dlq list
? May I run rm -rf build?  muster ask show {ask}

{task}  ● run mend the tests               explore: grep TODO    0/2  1.2k tok  $0.2500  30 m 00 s
"""


class Stage:
    def __init__(self) -> None:
        self.transport = MemoryTransport(keyring=fresh())
        self.muster = Muster(self.transport, Settings(pools={"build": 4}))

    async def submit(self, agent: str, pool: str, **fields) -> tuple[Handle, Claim]:
        request = task_request(agent=agent, pool=pool, auth_scope=(), deadline_ms=HOUR_MS, **fields)
        handle = await self.muster.submit(request)
        (claim,) = await self.transport.claim(pool, "player", slots=1, wait_s=5)
        return handle, claim

    async def tell(self, claim: Claim, *events) -> None:
        lease = claim.lease
        said = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
        await self.transport.emit(lease, TaskProgress(**said, seq=0, at_ms=0, status=State.RUNNING, events=events))

    async def finish(self, claim: Claim) -> None:
        lease = claim.lease
        said = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
        await self.transport.finish(lease, TaskResult(**said, status=State.COMPLETED))


@pytest.fixture
async def stage():
    return Stage()


async def _goal(stage: Stage) -> tuple[Handle, Claim]:
    root, claim = await stage.submit("run", "orchestrator", prompt="mend the tests")
    children = [f"0190a6c4-5f0e-7000-8000-00000000000{n}" for n in (1, 2)]
    await stage.tell(
        claim,
        *(ChildSpawned(child_task_id=child, agent="explore", title="look") for child in children),
        TurnStarted(turn=1, model="openai/gpt-5"),
        TurnFinished(
            turn=1, finish_reason="stop", usage=Usage(input_tokens=1_000, output_tokens=200), cost_microusd=250_000
        ),
        AskOpened(ask_id="a" * 32, permission="bash", question="May I run rm -rf build?"),
    )
    return root, claim


async def test_a_look_tells_of_every_root_that_is_under_way(stage):
    root, claim = await _goal(stage)
    looks = Overviews(stage.muster)
    first = await looks.look()
    again = await looks.look()
    await stage.finish(claim)
    after = await looks.look()

    [going] = first.going
    assert (going.record.task_id, going.tasks, going.tasks_ended) == (root.task_id, 2, 0)
    assert going.view.cost_microusd == again.going[0].view.cost_microusd == 250_000
    assert list(going.asks.values()) == ["May I run rm -rf build?"]
    assert after.going == []
    told = json.loads(json.dumps(first.as_json()))
    assert told["going"][0]["intent"] == "mend the tests"
    assert {pool["pool"]: pool["slots"] for pool in told["pools"]} == {"orchestrator": 0, "build": 0}


async def test_a_trace_is_read_on_from_where_the_last_look_ended(stage):
    _, claim = await _goal(stage)
    looks = Overviews(stage.muster)
    [before] = (await looks.look()).going
    await stage.tell(claim, TurnStarted(turn=2), TurnFinished(turn=2, finish_reason="stop", cost_microusd=50_000))
    [after] = (await looks.look()).going
    assert after.view is before.view
    assert after.view.cost_microusd == 300_000


async def test_the_picture(stage):
    root, _ = await _goal(stage)
    seen = _stopped(await Overviews(stage.muster).look(), child_does="TODO")
    drawn = _drawn(seen, width=100)
    assert drawn == PICTURE.format(ask="a" * 8, task=root.task_id[-8:])


async def test_what_does_not_fit_is_counted(stage):
    for number in range(6):
        await stage.submit("run", "orchestrator", prompt=f"goal {number}")
    seen = await Overviews(stage.muster).look()
    drawn = _drawn(seen, width=90, max_rows=9)
    assert sum("goal" in line for line in drawn.splitlines()) == 3
    assert drawn.splitlines()[-1].strip() == "… 3 more"


async def test_a_line_that_grows_is_seen_from_look_to_look(stage):
    looks = Overviews(stage.muster)
    await looks.look()
    for number in range(3):
        fields = {"agent": "build", "pool": "build", "auth_scope": (), "deadline_ms": HOUR_MS}
        await stage.muster.submit(task_request(prompt=f"one {number}", **fields))
    seen = await looks.look()
    assert seen.grown["build"] == 3
    await stage.transport.claim("build", "player", slots=2, wait_s=5)
    assert (await looks.look()).grown["build"] == 1
    told = seen.as_json()
    assert [pool["grown"] for pool in told["pools"] if pool["pool"] == "build"] == [3]
    assert (told["dead_letters"], told["models"]) == (0, [])


async def test_the_picture_in_the_documents(stage):
    """`WRITE_PICTURES=1` writes it anew."""
    await _goal(stage)
    seen = _stopped(await Overviews(stage.muster).look(), child_does="TODO")
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    console.print(top_picture(seen, max_rows=20))
    drawn = re.sub(
        r"\s*(@font-face \{.*?\}|<!--.*?-->)",
        "",
        console.export_svg(title="muster top", unique_id="top"),
        flags=re.DOTALL,
    )
    drawn = re.sub(r">[0-9a-f]{8}<", ">4c1f09ab<", drawn)

    if "WRITE_PICTURES" in os.environ:
        SVG.write_text(drawn)
    assert drawn == SVG.read_text(), "if it is meant so, write it anew"


def test_an_empty_fleet_says_so():
    assert "nothing is under way" in _drawn(Overview(0, [], [], []), width=60)


def _stopped(seen: Overview, *, child_does: str) -> Overview:
    """As half an hour after the start, with pools and workers as a fleet would tell them."""
    [going] = seen.going
    task = next(task for task in going.view.tasks.values() if task.agent == "explore")
    call = ToolCallChanged(call_id="c", tool="grep", title=child_does, state=CallState.RUNNING)
    said = TaskProgress(
        trace_id=going.record.trace_id, task_id=task.task_id, attempt=1, seq=0, at_ms=0, status=State.RUNNING,
        events=(TurnStarted(turn=1, model="openai/small"), call),
    )  # fmt: skip
    apply_all(going.view, [_entry(said)])
    record = replace(going.record, started_at_ms=0, state=State.RUNNING)
    pools = [PoolStats("build", 3, 2, 90.0), PoolStats("orchestrator", 0, 0, 0.0)]
    workers = [WorkerCard(worker="w", pool="build", slots=4)]
    return replace(
        seen,
        now_ms=HOUR_MS // 2,
        pools=pools,
        workers=workers,
        going=[replace(going, record=record)],
        dead=2,
        grown={"build": 3},
    )


def _entry(message: TaskProgress) -> Entry:
    return Entry("99999999999999-0", message)


def _drawn(seen: Overview, *, width: int, max_rows: int = 40) -> str:
    out = io.StringIO()
    Console(file=out, width=width, no_color=True, highlight=False).print(top_picture(seen, max_rows=max_rows))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


async def test_a_goal_is_followed_however_many_shards_are_younger(stage):
    root, _ = await _goal(stage)
    batch = task_request(agent="batch", pool="orchestrator", auth_scope=(), deadline_ms=HOUR_MS)
    fields = {"agent": "recipe", "pool": "explore", "auth_scope": (), "deadline_ms": HOUR_MS}
    shards = [task_request(**fields, batch_id=batch.task_id) for _ in range(1_001)]
    await stage.transport.submit([batch, *shards])

    seen = await Overviews(stage.muster).look()

    assert [one.record.task_id for one in seen.going[:2]] == [batch.task_id, root.task_id]
    assert len(seen.going) + seen.others == 1_003
