"""Sessions in the blob store."""

from __future__ import annotations

from pathlib import Path

import pytest

from envelope.budget import Budget
from envelope.messages import ToolCallSummary
from envelope.redaction import register_secret
from transport.blobs import DirectoryBlobs
from workers.agent.calls import Answered
from workers.agent.history import say
from workers.agent.session import Session
from workers.llm.base import ChatMessage, ToolCall
from workers.sessions.checkpoints import Checkpoints
from workers.tools.base import Delegated, ToolResult


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def blobs(folder: Path) -> DirectoryBlobs:
    return DirectoryBlobs(folder)


def stored_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def opened() -> Session:
    return Session(agent="build", model="openai/scripted", messages=(ChatMessage(role="system", content="You work."),))


def grown(session: Session, text: str) -> Session:
    call = ToolCallSummary(tool="bash", title=text[:20])
    return say(session, text).model_copy(update={"turn": session.turn + 1, "tool_calls": (*session.tool_calls, call)})


async def saved(checkpoints: Checkpoints, session: Session, turns: int) -> tuple[Session, str]:
    ref = ""
    for turn in range(turns):
        session = grown(session, f"turn {turn} " + "x" * 1000)
        ref = await checkpoints.save(session)
    return session, ref


async def test_a_session_comes_back_as_it_was(blobs):
    session, ref = await saved(Checkpoints(blobs), opened(), 7)

    assert await Checkpoints(blobs).load(ref) == session


async def test_an_open_turn_comes_back_as_it_was(blobs):
    calls = [ToolCall(id=name, name="task", arguments="{}", input={}) for name in ("a", "b")]
    answers = (Answered(calls[0], ToolResult("done", title="t")), Answered(calls[1], Delegated("child", "t", 5)))
    session = opened().model_copy(update={"open_turn": answers, "budget": Budget(max_turns=3)})

    loaded = await Checkpoints(blobs).load(await Checkpoints(blobs).save(session))

    assert loaded == session
    assert [answer.child for answer in loaded.open_turn] == ["", "child"]


async def test_every_checkpoint_stays_readable_while_the_session_grows(blobs):
    checkpoints = Checkpoints(blobs)
    early, early_ref = await saved(checkpoints, opened(), 3)
    await saved(checkpoints, early, 3)

    assert await Checkpoints(blobs).load(early_ref) == early


async def test_a_turn_costs_what_it_added_however_long_the_session_is(blobs, folder):
    checkpoints = Checkpoints(blobs)
    session, _ = await saved(checkpoints, opened(), 100)
    before = stored_bytes(folder)
    await saved(checkpoints, session, 1)

    assert stored_bytes(folder) - before < 3 * 1000


async def test_who_goes_on_with_a_session_stores_what_is_new_alone(blobs, folder):
    _, ref = await saved(Checkpoints(blobs), opened(), 100)
    before = stored_bytes(folder)
    checkpoints = Checkpoints(blobs)
    session, ref = await saved(checkpoints, await checkpoints.load(ref), 1)

    assert stored_bytes(folder) - before < 3 * 1000
    assert await Checkpoints(blobs).load(ref) == session


async def test_a_session_that_an_earlier_version_stored_whole_is_read_and_gone_on_with(blobs):
    old = grown(opened(), "said before")
    checkpoints = Checkpoints(blobs)
    session, ref = await saved(checkpoints, await checkpoints.load(await blobs.put(old.dump())), 2)

    assert await Checkpoints(blobs).load(ref) == session
    assert session.messages[:2] == old.messages


async def test_a_key_of_ours_is_blanked_in_everything_that_is_stored(blobs, folder):
    register_secret(secret := "sk-a-key-that-a-tool-came-to-say-4711")
    call = ToolCall(id="a", name="bash", arguments=f'{{"command": "echo {secret}"}}', input={"command": secret})
    session = grown(opened(), f"the key is {secret}").model_copy(
        update={"open_turn": (Answered(call, ToolResult(f"out: {secret}")),)}
    )

    loaded = await Checkpoints(blobs).load(await Checkpoints(blobs).save(session))

    assert "the key is [redacted]" in loaded.messages[-1].content
    assert "[redacted]" in str(loaded.open_turn)
    assert [file for file in folder.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()] == []
