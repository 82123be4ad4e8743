"""Batches on pages: the board, causes, both sides of a collision, what is done to many, and for whom."""

from __future__ import annotations

import pytest

from envelope.events import ChildSpawned, MergeStep
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator.api.console.batches import MAX_CARDS, parts_of
from orchestrator.batch.board import board_of
from orchestrator.session.fold import Session, apply
from transport.base import Entry, TaskRecord

pytestmark = pytest.mark.redis

FILES = {"src/a.py": "old\n", "src/b.py": "old\n", "src/<b>.py": "old\n", "tests/t.py": "assert\n"}


async def ended(console, text: str, files: dict[str, str] = FILES) -> str:
    """A batch that has ended; its id."""
    stage = console.stage
    request = stage.batch_request(await stage.repository(files), text=text)
    result = await stage.run(request)
    return result.task_id


async def test_a_batch_that_failed_shows_why_and_is_done_again(console, batch_text):
    def fail(task, files):
        if "a.py" not in str(task.input.params):
            raise console.stage.builders.fails("no <script>alert(1)</script> in src/x.py")
        console.stage.builders.modernise(task, files)

    console.stage.builders.edit = fail
    task_id = await ended(console, batch_text)
    path = f"/console/batches/{task_id}"
    listed, seen = await console.get("/console/batches"), await console.get(path)
    hidden = [await console.get(each, who="stranger") for each in (path, f"{path}/live", f"{path}/column/failed")]
    theirs = await console.get("/console/batches", who="stranger")

    assert f'href="{path}"' in listed.text and task_id not in theirs.text
    assert [each.status for each in hidden] == [404] * 3
    assert "2 × recipe_failed" in seen.text
    assert "no &lt;script&gt;alert(1)&lt;/script&gt;" in seen.text and "<script>alert" not in seen.text
    assert "src/&lt;b&gt;.py" in seen.text
    assert "for each shard that landed" in seen.text and "before" in seen.text
    assert "Retry" not in seen.text

    assert (await console.post(f"{path}/retry", {}, who="approver")).status == 403
    first, again = [await console.post(f"{path}/retry", {}, who="submitter") for _ in range(2)]
    assert (first.status, again.headers["Location"]) == (303, first.headers["Location"])
    waiting = await console.get(first.headers["Location"])
    assert waiting.status == 200 and "pending" in waiting.text


async def test_both_sides_of_a_collision_stand_beside_each_other(console, batch_text):
    def same_place(task, files):
        mine = str(task.input.params["commands"][0]).removeprefix("fix ")
        files["src/shared.py"] = f"by {mine}\n"

    console.stage.builders.edit = same_place
    text = batch_text.replace('glob = "src/*.py"', 'glob = "src/[ab].py"\nalso_edit = ["src/shared.py"]')
    task_id = await ended(console, text, {**FILES, "src/shared.py": "old\n"})
    seen = await console.get(f"/console/batches/{task_id}")
    shown = await console.get(f"/console/batches/{task_id}/collisions/demo/0")
    none = await console.get(f"/console/batches/{task_id}/collisions/demo/7")

    assert "Merged in this order" in seen.text and "collision" in seen.text
    assert shown.text.count("+by src/") == 2 and "landed" in shown.text
    assert none.status == 404
    assert (await console.get(f"/console/batches/{task_id}/collisions/demo/0", who="stranger")).status == 404


async def test_one_deed_for_many_says_what_became_of_each(console, batch_text):
    stage = console.stage
    request = stage.batch_request(await stage.repository(FILES), text=batch_text)
    running = (await stage.muster.submit(request)).task_id
    no_batch = (await stage.muster.submit(agent="build", prompt="x", deadline_ms=60_000)).task_id

    async def deed(who: str, name: str, *chosen: str, **fields: str):
        csrf = (await console.get("/console/", who=who)).csrf
        data = [("csrf", csrf), ("deed", name), *(("batch", each) for each in chosen), *fields.items()]
        return await console._call("POST", "/console/batches/bulk", who, data=data)

    assert [(await deed(who, "cancel", running)).status for who in ("viewer", "approver")] == [403, 403]
    assert (await deed("submitter", "comment", running, text="x")).status == 403
    assert (await deed("submitter", "cancel")).status == 422
    assert (await deed("submitter", "burn", running)).status == 422
    strangers = await deed("stranger", "cancel", running)
    retried = await deed("submitter", "retry", running, no_batch)
    stopped = await deed("submitter", "cancel", running, "0" * 32)
    again = await deed("submitter", "cancel", running)

    assert "there is no task" in strangers.text
    assert "is under way" in retried.text and "is no batch" in retried.text
    assert "1 task stopped" in stopped.text and "there is no task" in stopped.text
    assert "has ended already" in again.text


def test_six_hundred_shards_are_a_light_page_of_which_little_changes():
    root, trace = new_task_id(), new_trace_id()
    session = Session.of(root, trace, agent="batch", title="many")

    def tell(number: int, *events) -> None:
        message = TaskProgress(
            trace_id=trace, task_id=root, attempt=1, seq=number, at_ms=number, status=State.RUNNING, events=events
        )
        apply(session, Entry(f"{number}-0", message))

    for number in range(1, 601):
        child = ChildSpawned(
            child_task_id=new_task_id(),
            agent="recipe",
            title=f"src/package/module_{number}.py",
            trace_id=new_trace_id(),
        )
        tell(number, child)
    record = TaskRecord(
        task_id=root,
        trace_id=trace,
        pool="orchestrator",
        agent="batch",
        state=State.RUNNING,
        attempt=1,
        tenant="default",
        accepted_at_ms=0,
        expires_at_ms=0,
    )
    before = parts_of(record, board_of(session))
    tell(601, MergeStep(key="src/package/module_1.py", outcome="applied"))
    after = parts_of(record, board_of(session))

    assert sum(map(len, before.values())) < 40_000
    assert before["column-in-line"].count("<li>") == MAX_CARDS and "all 600" in before["column-in-line"]
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"batch-head", "batch-merges", "column-in-line", "column-merged"}


async def test_who_publishes_is_shown_what_the_batchs_document_decides_and_no_commands(console, batch_text):
    document = 'branch = "b"\nto = "push"\ninto = "production"\ndraft = false\ntitle = "Be <b>modern</b>"\n'
    running = await console.stage.muster.submit(
        console.stage.batch_request(await console.stage.repository(FILES), text=batch_text)
    )
    early = await console.get(f"/console/batches/{running.task_id}/publish", who="approver")
    await console.stage.muster.cancel(running.task_id)
    task_id = await ended(console, f"{batch_text}\n[publish]\n{document}")
    asked = await console.get(f"/console/batches/{task_id}/publish", who="approver")
    told = await console.post(f"/console/batches/{task_id}/publish", {"to": "request"}, who="approver")

    assert (early.status, "has not ended yet" in early.text, "muster attach" in early.text) == (422, True, False)
    assert "into <code>production</code>" in asked.text and "not a draft" in asked.text
    assert "titled “Be &lt;b&gt;modern&lt;/b&gt;”" in asked.text
    assert 'value="push" checked' in asked.text and 'value="request" checked' not in asked.text
    assert "nobody knows where this repository is" in told.text and "say its address" not in told.text
