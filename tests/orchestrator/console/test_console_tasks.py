"""A task's page: what it said and did, its change, its attempts, its past; all of it as text, for its tenant only."""

from __future__ import annotations

import re

import pytest

from envelope.budget import Usage
from envelope.errors import ErrorCode
from envelope.events import (
    CallState,
    GateVerdict,
    MessageAdded,
    ReasoningDelta,
    TextDelta,
    TitleSet,
    ToolCallChanged,
    TurnFinished,
    TurnStarted,
    WarningRaised,
)
from envelope.lifecycle import State
from envelope.messages import Attachment, ErrorInfo, FileStat, Output, PatchRef

DIFF = b"""diff --git a/src/old.py b/src/old.py
index 111..222 100644
--- a/src/old.py
+++ b/src/old.py
@@ -1,3 +1,3 @@ def f():
 same
-was <b>
+is <b>
 end
"""


async def one_turn(work) -> None:
    call = {"call_id": "c1", "tool": "bash"}
    await work.tell(
        TitleSet(title="Tidy up"),
        MessageAdded(role="user", text="please tidy"),
        TurnStarted(turn=1, model="openai/gpt-5"),
        ReasoningDelta(text="hm"),
        TextDelta(text="I will "),
        TextDelta(text="do it."),
        ToolCallChanged(**call, state=CallState.RUNNING, title="make test", input={"command": "make test"}),
    )
    await work.tell(
        ToolCallChanged(**call, state=CallState.COMPLETED, title="make test", output="3 passed"),
        TurnFinished(turn=1, finish_reason="stop", usage=Usage(input_tokens=900, output_tokens=50)),
        GateVerdict(phase="after", passed=False, tests=3, failed=1, detail="one failed"),
    )


async def test_a_task_shows_what_it_said_and_did_and_how_it_went(console):
    work = await console.work("tidy up")
    await one_turn(work)
    page = (await console.get(f"/console{work.task}")).text

    for words in ("please tidy", "I will do it.", "bash make test", "3 passed", "openai/gpt-5", "attempt 1", "hm"):
        assert words in page, words
    assert "gate after: failed, 3 tests (1 failed)" in page
    assert page.count('<details class="tool completed"') == 1


async def test_any_moment_is_shown_again(console):
    work = await console.work("tidy up")
    await one_turn(work)
    await work.end(output=Output(text="I will do it."))

    steps = [(await console.get(f"/console{work.task}?step={step}")).text for step in range(5)]
    now = (await console.get(f"/console{work.task}")).text
    running = next(page for page in steps if "tool running" in page)
    assert "please tidy" not in steps[0] and "3 passed" not in running and "tool completed" in steps[4]
    assert "data-live" not in running and "data-live" in now
    assert now.count("I will do it.") == 1, "an answer that the model has just said is not said twice"
    assert (await console.get(f"/console{work.task}?step=99999")).status == 200
    assert (await console.get(f"/console{work.task}?step=-1")).status == 422


async def test_blocks_come_as_they_are_told(console):
    work = await console.work("talk")
    stream = console.news(f"{work.task}/live")
    await anext(stream)
    await work.tell(TurnStarted(turn=1), TextDelta(text="Hel"))
    _, parts = await anext(stream)
    assert any("Hel" in part for part in parts.values())
    await work.tell(TextDelta(text="lo"))
    _, parts = await anext(stream)
    assert [name for name, part in parts.items() if part and "Hello" in part] != []
    assert len([name for name in parts if name.startswith("block-")]) == 1
    await work.end()
    assert "completed" in [parts async for _, parts in stream][-1]["task-head"]


async def test_ten_megabytes_of_output_are_a_link(console):
    work = await console.work("shout")
    blob = await console.stage.transport.blobs.put(b"x" * 10_000_000)
    call = ToolCallChanged(
        call_id="a/../b", tool="bash", state=CallState.COMPLETED, output="x" * 200_000, output_blob=blob
    )
    await work.tell(TurnStarted(turn=1), *[TextDelta(text="y" * 100_000)] * 3, call)
    page = (await console.get(f"/console{work.task}")).text
    assert len(page) < 150_000
    [link] = re.findall(r'href="([^"]+/output[^"]+)"', page)
    assert (await console.get(link)).text == "x" * 10_000_000
    assert (await console.get(f"/console{work.task}/output?call=nothing")).status == 404


async def test_a_task_that_says_and_does_much_is_a_light_page_with_a_link_to_each_output(console):
    work = await console.work("shout")
    done = {"tool": "bash", "state": CallState.COMPLETED, "input": {"x": "i" * 9_000}, "output": "o" * 9_000}
    for start in range(0, 400, 20):
        await work.tell(*(ToolCallChanged(call_id=f"c{n}", **done) for n in range(start, start + 20)))
    page = (await console.get(f"/console{work.task}")).text
    assert len(page) < 130_000, "and its style and script are less than 21,000"
    assert "c399" in page and "earlier parts are left out" in page and "The rest is left out" in page
    [*links] = re.findall(r'href="([^"]+/output[^"]+)"', page)
    assert (await console.get(links[-1])).text == "o" * 9_000
    lines = "x" * 100
    await work.tell(TurnStarted(turn=1), *[ToolCallChanged(call_id="s", tool=lines, state=CallState.RUNNING)] * 3)
    assert len((await console.get(f"/console{work.task}?step=10")).text) < 130_000


async def test_a_change_is_shown_side_by_side_and_downloaded(console):
    hostile = console.hostile
    work = await console.work("change")
    assert (await console.get(f"/console{work.task}/diff")).status == 404
    evil = 'diff --git "a/\\033[2J<b>" "b/\\033[2J<b>"\n--- /dev/null\n+++ "b/\\033[2J<b>"\n@@ -0,0 +1 @@\n+'
    blobs = console.stage.transport.blobs
    diff = await blobs.put(DIFF + evil.encode() + hostile.replace("\n", "").encode() + b"\n")
    patch = PatchRef(base="0" * 40, diff=diff, files=(FileStat(path=hostile, status="M"),), added=2, tree="1" * 40)
    log = Attachment(blob=await blobs.put(b"<b>log</b>"), name="logs/run.log", media_type="text/html")
    await work.end(patch=patch, attachments=(log,))

    shown = (await console.get(f"/console{work.task}/diff")).text
    assert "src/old.py" in shown and '<td class="out"><code>was &lt;b&gt;</code>' in shown
    assert "def f():" in shown and "\ufffd[2J&lt;b&gt;" in shown
    for page in (shown, (await console.get(f"/console{work.task}")).text):
        assert not re.search(r"<script>|<img|<b>l|[\x1b\x07\u202e\u2066]", page)
    headers = {"Authorization": f"Bearer {console.secrets['viewer']}"}
    for path in ("/console{}/change.diff", "/console{}/attachments/logs/run.log", "/v1{}/attachments/logs/run.log"):
        got = await console.get(path.format(work.task), headers=headers)
        assert got.headers["Content-Disposition"] == "attachment", got.text
        assert got.headers["Content-Type"] == "application/octet-stream"


async def test_what_models_and_repositories_wrote_is_text_in_a_task_too(console):
    evil = console.hostile
    work = await console.work(evil)
    call = {
        "call_id": "1",
        "tool": evil,
        "title": evil,
        "input": {evil: evil},
        "output": evil,
    }
    await work.tell(
        TitleSet(title=evil),
        TurnStarted(turn=1, model=evil),
        *(
            TextDelta(text=evil),
            ReasoningDelta(text=evil),
            MessageAdded(role="user", text=evil),
        ),
        *(
            ToolCallChanged(**call, state=CallState.COMPLETED),
            WarningRaised(message=evil, hint=evil),
        ),
    )
    pages = [(await console.get(f"/console{work.task}")).text]
    async for _, parts in console.news(f"{work.task}/live"):
        pages.append("".join(filter(None, parts.values())))
        break
    await work.end(State.ERROR, errors=(ErrorInfo.of(ErrorCode.RECIPE_FAILED, evil, hint=evil),))
    pages.append((await console.get(f"/console{work.task}")).text)
    for page in pages:
        assert page.count("&lt;script&gt;") > 5
        assert not re.search(r"<script>|<img|[\x1b\x07\u202e\u2066]", page)


@pytest.mark.parametrize("path", ["", "/live", "/diff", "/change.diff", "/attachments/x", "/output?call=x"])
async def test_a_task_of_another_tenant_is_not_there(console, path: str):
    work = await console.work("secret")
    theirs = await console.get(f"/console{work.task}{path}", who="stranger")
    assert theirs.status == 404
    assert "secret" not in theirs.text and "there is no task" in theirs.text


async def test_a_goals_session_goes_on_with_its_gate(console):
    goal = await console.stage.ended_goal()

    for form, fields in (("prompt", {"text": "more"}), ("resume", {"prompt": "more"})):
        answer = await console.post(f"/console/tasks/{goal}/{form}", fields)
        request = await console.stage.muster.request(answer.headers["Location"].rpartition("/")[2])
        assert (answer.status, request.agent, request.input.params["gate"]) == (303, "run", ["run-tests"])
