"""The list of traces and a trace's page, as HTML: what is on them, who sees them, who may do what."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from envelope.budget import Metrics
from envelope.errors import ErrorCode
from envelope.events import CallState, ChildSpawned, GateVerdict, PlanChanged, TitleSet, ToolCallChanged, TurnStarted
from envelope.ids import new_task_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskResult
from envelope.plan import Plan, PlanStep
from orchestrator.api.console.tree import proved
from orchestrator.session.task import TaskView


async def test_a_trace_shows_its_tasks_what_they_are_at_and_what_they_cost(console):
    work = await console.work("tidy up")
    child = new_task_id()
    await work.tell(
        TitleSet(title="Tidy up"),
        TurnStarted(turn=1, model="m"),
        ChildSpawned(child_task_id=child, agent="explore", title="Find callers"),
        ToolCallChanged(call_id="1", tool="bash", state=CallState.RUNNING, title="make test"),
        GateVerdict(phase="after", passed=True, tests=7),
    )

    page = (await console.get(f"/console{work.trace}")).text

    assert "Tidy up" in page and "Find callers" in page and f"/console/tasks/{child}" in page
    assert "bash make test" in page and "gate after: passed, 7 tests" in page
    assert 'class="row d1 pending"' in page and '<rect class="queued"' in page and '<rect class="tool"' in page


async def test_the_list_is_searched_filtered_and_paged(console):
    begun = [await console.work(f"goal {number}") for number in range(3)]
    await begun[0].end()

    assert (await console.get("/console/traces")).text.count("/console/traces/") == 3
    found = (await console.get("/console/traces?q=GOAL+2")).text
    assert "goal 2" in found and "goal 1" not in found
    done = (await console.get("/console/traces?state=completed&state=error")).text
    assert "goal 0" in done and "goal 1" not in done
    assert "Nothing is like that" in (await console.get("/console/traces?q=nothing")).text
    assert (await console.get("/console/traces?state=tired")).status == 422
    assert (await console.get("/console/traces?after=nonsense")).status == 422


async def test_a_big_tree_is_paged_where_nothing_is_live_and_searched(console):
    work = await console.work("fan out")
    spawned = [ChildSpawned(child_task_id=new_task_id(), agent="explore", title=f"look at {n:04}") for n in range(1000)]
    for start in range(0, 1000, 250):
        await work.tell(*spawned[start : start + 250])

    first = (await console.get(f"/console{work.trace}")).text
    assert len(first) < 100_000
    assert first.count('class="row ') == 60 and "Page 1 of 17" in first
    last = (await console.get(f"/console{work.trace}?page=17")).text
    assert "look at 0999" in last
    found = (await console.get(f"/console{work.trace}?q=0997+explore")).text
    assert found.count('class="row ') == 1 and "look at 0997" in found


async def test_what_changes_comes_by_the_stream_and_is_followed_once_for_all(console, monkeypatch):
    work = await console.work("go on")
    follows = []
    follow = console.stage.transport.follow
    monkeypatch.setattr(
        console.stage.transport, "follow", lambda *a, **k: (follows.append(k.get("wait", True)), follow(*a, **k))[1]
    )
    streams = [console.news(f"{work.trace}/live") for _ in range(5)]
    async with asyncio.timeout(20):
        begun = [await anext(stream) for stream in streams]
        assert all({"trace-head", "tree-0", "tree-order"} <= set(parts) for _, parts in begun)
        await work.tell(TitleSet(title="news"))
        for stream in streams:
            name, parts = await anext(stream)
            assert "news" in parts["tree-0"] and "tree-order" not in parts
        await asyncio.gather(*(stream.aclose() for stream in streams))

        await work.tell(TitleSet(title="newer"))
        async for _, parts in console.news(f"{work.trace}/live", after=name):
            assert "newer" in parts["tree-0"]
            break
        assert follows.count(True) == 1, "one follower for all who watch"
        await work.end()
        seen = [parts async for _, parts in console.news(f"{work.trace}/live")]
    assert "completed" in seen[0]["trace-head"] or "completed" in seen[1]["trace-head"]


async def test_what_models_and_repositories_wrote_is_text(console):
    evil = console.hostile
    work = await console.work(evil)
    await work.tell(
        TitleSet(title=evil),
        ToolCallChanged(call_id="1", tool="bash", state=CallState.RUNNING, title=evil),
    )

    pages = [(await console.get(f"/console{path}")).text for path in ("/", "/traces", work.trace)]
    await work.end(State.ERROR, errors=(ErrorInfo.of(ErrorCode.RECIPE_FAILED, evil, hint=evil),))
    pages.append((await console.get(f"/console{work.trace}")).text)
    pages.append(json.dumps([parts async for _, parts in console.news(f"{work.trace}/live")], ensure_ascii=False))

    for page in pages:
        assert "&lt;script&gt;" in page
        assert not re.search(r"<script>|<img|[\x1b\x07\u202e\u2066]", page)


@pytest.mark.parametrize("place", ["{trace}", "{trace}/live"])
async def test_a_trace_of_another_tenant_is_not_there(console, place: str):
    work = await console.work("secret")
    theirs = await console.get(f"/console{place.format(trace=work.trace)}", who="stranger")
    nowhere = await console.get(f"/console{place.format(trace='/traces/' + '0' * 32)}", who="stranger")
    assert (theirs.status, nowhere.status) == (404, 404)
    assert "secret" not in theirs.text
    assert theirs.text.replace(work.lease.trace_id, "0" * 32) == nowhere.text
    assert "secret" not in (await console.get("/console/traces", who="stranger")).text


DEEDS = {
    "{task}/prompt": {"text": "hurry"},
    "{task}/cancel": {"reason": "enough"},
    "{trace}/budget": {"dollars": "7.50"},
}


@pytest.mark.parametrize("place", DEEDS)
@pytest.mark.parametrize("who", ["viewer", "submitter", "approver", "stranger"])
async def test_who_may_do_what(console, place: str, who: str):
    work = await console.work("go")
    path = place.format(task=work.task, trace=work.trace)

    page = await console.post(f"/console{path}", DEEDS[place], who=who)

    may = {"submitter": "prompt" in path or "cancel" in path, "approver": "budget" in path, "viewer": False}
    assert page.status == (404 if who == "stranger" else 303 if may[who] else 403)
    shown = (await console.get(f"/console{work.trace}", who="viewer" if who == "stranger" else who)).text
    assert (f'action="/console{path}"' in shown) == may.get(who, False)


async def test_deeds_are_done_in_the_name_of_who_did_them(console):
    work = await console.work("go", budget={"max_cost_microusd": 1_000_000})
    await console.post(f"/console{work.trace}/budget", {"dollars": "7.50"})
    assert (await console.stage.transport.ledger(work.lease.trace_id)).cap_microusd == 7_500_000
    refused = await console.post(f"/console{work.task}/replan", {"reason": "x"})
    assert refused.status == 409 or refused.status == 422, refused.text
    done = await console.post(f"/console{work.task}/cancel", {"reason": "enough"})
    assert done.headers["Location"] == f"/console{work.trace}"
    record = await console.stage.muster.record(work.lease.task_id)
    assert (record.cancelled_by, record.cancel_reason) == ("console:admin", "enough")
    wrong = await console.post(f"/console{work.trace}/budget", {"dollars": "much"})
    assert wrong.status == 422


async def test_a_plan_and_an_answer_stay_text(console):
    work = await console.work("tidy up")
    step = PlanStep(step_id="a", title=console.hostile, goal="", agent="build", outcome=console.hostile)
    await work.tell(PlanChanged(plan=Plan(goal=console.hostile, steps=(step,))))
    await work.end(output=Output(text=console.hostile))

    for path in (work.trace, work.task):
        page = (await console.get(f"/console{path}")).text
        assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4
        assert "<script>alert" not in page and "\x1b" not in page and "\u202e" not in page


@pytest.mark.parametrize(
    ("agent", "turns", "structured", "said"),
    [
        ("run", 0, {"verified": True}, "done and verified"),
        (
            "run",
            0,
            {"verified": True, "reason": "the same test fails on the base"},
            "verified: the same test fails on the base",
        ),
        ("run", 0, {"verified": False, "reason": "no gate"}, "done, not verified: no gate"),
        ("run", 0, None, "done, not verified"),
        ("build", 1, {"verified": True}, ""),
        ("run", 1, {"verified": True}, ""),  # an agent that took the name, and says so of itself
    ],
)
def test_only_the_platform_says_that_a_change_is_verified(agent, turns, structured, said):
    task_id, trace_id = new_task_id(), "1" * 32
    spawned = ChildSpawned(child_task_id=task_id, agent=agent, title="tidy up")
    output, metrics = Output(structured=structured), Metrics(turns=turns)
    result = TaskResult(
        trace_id=trace_id, task_id=task_id, attempt=1, status=State.COMPLETED, output=output, metrics=metrics
    )

    assert proved(TaskView(task_id, spawned=spawned, result=result)) == said
