"""Turns found again in a session's log, and the diffs between them."""

from __future__ import annotations

import pytest

from transport.blobs import DirectoryBlobs
from workers.agent.history import reopen_session, say
from workers.agent.session import Session
from workers.agents.registry import builtin
from workers.delivery.diff_files import changed_files, sections
from workers.errors import BadInput
from workers.llm.base import ChatMessage, ToolCall
from workers.sessions.checkpoints import Checkpoints
from workers.sessions.turn_log import files_changed, reverted, turns_of, unreverted

A = b"diff --git a/src/a b/src/a\nindex 1..2\n--- a/src/a\n+++ b/src/a\n@@ -1 +1 @@\n-1\n+2\n"
B = b"diff --git a/b c b/b c\nnew file mode 100644\n--- /dev/null\n+++ b/b c\n@@ -0,0 +1 @@\n+diff --git a/x b/x\n"
ODD = b'diff --git "a/\\303\\244" "b/\\303\\244"\nindex 1..2\n'
MOVED = b"diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n"


@pytest.fixture
def blobs(tmp_path):
    return DirectoryBlobs(tmp_path / "blobs")


def test_a_diff_is_taken_apart_by_the_names_that_files_have_after_it():
    assert list(sections(A + B + ODD + MOVED)) == ["src/a", "b c", "ä", "new"]


@pytest.mark.parametrize(
    ("before", "after", "files"),
    [
        (b"", A, ["src/a"]),
        (A, A + B, ["b c"]),
        (A, A.replace(b"+2", b"+3"), ["src/a"]),
        (A + B, B, ["src/a"]),
        (A, A, []),
    ],
)
def test_what_a_turn_changed_is_what_its_diff_says_otherwise(before, after, files):
    assert changed_files(before, after) == files


def answered(session: Session, number: int, **changed) -> Session:
    call = ToolCall(id=str(number), name="write", arguments="{}", input={})
    messages = (
        ChatMessage(role="assistant", tool_calls=(call,)),
        ChatMessage(role="tool", tool_call_id=str(number), name="write", content=f"wrote {number}"),
    )
    return session.model_copy(update={"messages": (*session.messages, *messages), **changed})


async def three_turns(blobs) -> tuple[Checkpoints, Session, str]:
    checkpoints, session, ref = Checkpoints(blobs), Session(agent="build", model="m"), ""
    session = say(session, "go")
    for number, diff in enumerate((b"", A, A + B), 1):
        session = answered(session, number, changes=await blobs.put(diff) if diff else None)
        ref = await checkpoints.save(session)
    return checkpoints, session, ref


async def test_each_turn_knows_the_files_that_it_changed(blobs):
    _, _, ref = await three_turns(blobs)

    turns = await turns_of(blobs, ref)

    assert [turn.number for turn in turns] == [1, 2, 3]
    assert await files_changed(blobs, turns) == [[], ["src/a"], ["b c"]]


async def test_a_revert_is_a_session_as_it_stood_then_and_can_be_taken_back(blobs):
    _, session, ref = await three_turns(blobs)

    back = await reverted(blobs, ref, 2)
    then = await Checkpoints(blobs).load(back)
    again = await Checkpoints(blobs).load(await unreverted(blobs, back))

    assert then.messages == session.messages[:5]
    assert await blobs.get(then.changes) == A
    assert (again.messages, again.changes) == (session.messages, session.changes)


async def test_turns_of_a_task_that_goes_on_join_the_log_and_count_their_calls_anew(blobs):
    _, _, ref = await three_turns(blobs)
    checkpoints = Checkpoints(blobs)
    earlier = await checkpoints.load_to_go_on(await reverted(blobs, ref, 1))
    session = reopen_session(earlier, builtin()["build"], model="m", prompt="on", budget=earlier.budget)
    ref = await checkpoints.save(answered(session, 9))

    assert [turn.prompts for turn in await turns_of(blobs, ref)] == [[], ["on"]]
    assert (await Checkpoints(blobs).load(ref)).tool_calls == ()
    with pytest.raises(BadInput, match="no revert to take back"):
        await unreverted(blobs, ref)


async def test_a_turn_that_is_not_there_says_which_are(blobs):
    _, _, ref = await three_turns(blobs)

    with pytest.raises(BadInput, match="no turn 4") as refused:
        await reverted(blobs, ref, 4)
    assert "1 to 3" in refused.value.hint


async def talked(blobs) -> str:
    """Three turns of one prompt, and one of a second; both by people."""
    checkpoints = Checkpoints(blobs)
    system, go = ChatMessage(role="system", content="be brief"), ChatMessage(role="user", content="go")
    session = Session(agent="build", model="m", messages=(system, go))
    for number in (1, 2, 3):
        session = answered(session, number, changes=await blobs.put(A))
        await checkpoints.save(session)
    on = ChatMessage(role="user", content="and on")
    session = session.model_copy(update={"messages": (*session.messages, on)})
    return await checkpoints.save(answered(session, 4, changes=await blobs.put(A + B)))


async def test_prompts_are_taken_back_one_after_the_other_and_forth_again(blobs):
    ref = await talked(blobs)
    load = Checkpoints(blobs).load

    one = await reverted(blobs, ref, None)
    two = await reverted(blobs, one, None)
    forth = await unreverted(blobs, two)
    first, second = await load(one), await load(two)

    assert first.outcome and first.outcome.text.startswith("Taken back: and on\n\nThe session stands where turn 3 of 4")
    assert ([m.content for m in first.messages[:2]], len(first.messages)) == (["be brief", "go"], 8)
    assert first.changes and await blobs.get(first.changes) == A
    assert ([m.content for m in second.messages], second.changes) == (["be brief"], None)
    assert second.outcome and second.outcome.text == "Taken back: go\n\nThe session stands before its first prompt."
    assert (await load(forth)).messages == first.messages
    assert len((await load(await unreverted(blobs, forth))).messages) == 11
    with pytest.raises(BadInput, match="no prompt to take back"):
        await reverted(blobs, two, None)


async def test_a_session_whose_only_prompt_was_taken_back_is_a_new_one_to_who_goes_on(blobs):
    checkpoints = Checkpoints(blobs)
    earlier = await checkpoints.load_to_go_on(await reverted(blobs, await talked(blobs), 0))
    session = reopen_session(earlier, builtin()["build"], model="m", prompt="else", budget=earlier.budget)

    turns = await turns_of(blobs, await checkpoints.save(answered(session, 1)))

    assert [(turn.number, turn.prompts) for turn in turns] == [(1, ["else"])]
    assert [m.content for m in turns[0].messages[:2]] == ["be brief", "else"]


async def test_a_prompt_that_had_no_reply_is_the_last_one(blobs):
    ref = await talked(blobs)
    checkpoints = Checkpoints(blobs)
    earlier = await checkpoints.load_to_go_on(ref)
    unheard = reopen_session(earlier, builtin()["build"], model="m", prompt="lost", budget=earlier.budget)

    back = await Checkpoints(blobs).load(await reverted(blobs, await checkpoints.save(unheard), None))

    assert back.messages == earlier.messages
