"""Whoever has a worker's Redis password, and no key file: what they write is no answer, and hides none."""

from __future__ import annotations

from typing import Any

import pytest

from envelope.asks import Reply
from envelope.events import WarningRaised
from orchestrator.asks import give
from orchestrator.audit import verified
from transport import approvals
from transport.audit import TIMEOUT
from transport.base import Wait
from transport.keys import CellKeys

from .conftest import SHOWN, Scene

pytestmark = pytest.mark.redis
YES = Reply(choice="once")


async def test_a_forged_answer_lets_nothing_run_and_hides_no_persons(scene: Scene):
    await scene.waits()
    scene.forge(scene.ask.ask_id)

    standing = await give(scene.owner.transport, await scene.open(), YES, by="cli:ann@desk")
    again = await scene.worker.claim_one()

    assert standing.by == "cli:ann@desk"
    assert again.lease.task_id == scene.task_id
    said = await scene.said()
    assert (said.by, said.reply) == ("cli:ann@desk", YES)
    assert scene.told == []


async def test_an_answer_through_the_script_is_struck_and_told_and_the_ask_waits_on(scene: Scene):
    await scene.waits()
    with pytest.raises(approvals.BadSignature):  # a record that a stranger's keyring cannot read
        await scene.thief.request(scene.task_id)
    await scene.thief.answer(scene.task_id, scene.ask.ask_id, "once", by="alice")
    again = await scene.worker.claim_one()

    assert await scene.said() is None
    assert await scene.said() is None
    [warning] = scene.told
    assert isinstance(warning, WarningRaised) and "'alice' is not taken: nobody has signed it" in warning.message

    parked = await scene.worker.transport.park(again.lease, Wait(asks=frozenset({scene.ask.ask_id})))
    assert parked  # it waits, and does not come round at once
    await give(scene.owner.transport, await scene.open(), YES, by="cli:ann@desk")
    await scene.worker.claim_one()
    assert (await scene.said()).by == "cli:ann@desk"

    found = await verified(scene.owner.transport)
    assert [(entry.fields["actor"], why) for entry, why in found.unsigned] == [("alice", "nobody has signed it")]


@pytest.mark.parametrize(
    "fields",
    [
        {"key_id": "a1", "mac": "00" * 64, "asked": SHOWN.digest()},
        {"key_id": "k9", "mac": "zz"},
        {"text": Reply(choice="always", rules=("bash:**",)).text()},
        {"by": TIMEOUT, "text": "reject"},
        {"text": "raised"},
    ],
)
async def test_no_other_word_counts_either(scene: Scene, fields: dict[str, Any]):
    scene.forge(scene.ask.ask_id, **fields)
    scene.forge("budget:1", **fields)
    scene.raw.hset(scene.answers, "ask_other", b"\xff not an answer")

    assert await scene.said() is None
    await scene.people.learn()
    assert scene.people.approved == ()
    assert len(scene.told) == 1


async def test_a_yes_to_what_the_person_saw_is_none_to_what_was_asked(scene: Scene):
    """Somebody has changed the question in the stream: the person says yes to a harmless one."""
    shown = SHOWN.model_copy(update={"ask_id": scene.ask.ask_id, "detail": "ls"})
    await scene.owner.transport.answer(scene.task_id, shown.ask_id, "once", by="ann", asked=shown.digest())

    assert await scene.said() is None
    assert "was shown another question" in scene.told[0].message


async def test_a_persons_yes_counts_for_its_own_ask_alone(scene: Scene):
    other = await scene.owner.submit()
    for ask_id in (scene.ask.ask_id, "ask_b"):
        asked = scene.ask.digest()
        await scene.owner.transport.answer(other.task_id, ask_id, "once", by="ann", asked=asked)
        signed = scene.raw.hget(CellKeys("main", 0).name("answers", other.task_id), ask_id)
        scene.raw.hset(scene.answers, scene.ask.ask_id, signed)
        assert await scene.said() is None
