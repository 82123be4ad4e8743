"""Whoever has a worker's Redis password, and no key file: what they write is no answer, and hides none."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from envelope.asks import Reply
from envelope.events import AskOpened, Event, WarningRaised
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator.asks import OpenAsk, give, open_asks
from orchestrator.audit import verified
from transport import approvals, keyring
from transport.audit import TIMEOUT
from transport.base import Claim, Wait
from transport.keys import CellKeys
from transport.redis import connect_redis
from workers.delivery.people import QueuedPeople
from workers.permissions.guard import Guard
from workers.tools.people import Asked

pytestmark = pytest.mark.redis

SHOWN = AskOpened(ask_id="", permission="bash", patterns=("rm -rf build",), detail="rm -rf build")
YES = Reply(choice="once")


@dataclass
class Scene:
    """A task that waits for a person's word, and somebody with its worker's password."""

    owner: Any
    worker: Any
    thief: Any  # a fleet over the worker's user, with a keyring of its own
    raw: Any  # the same as a bare connection
    claim: Claim
    people: QueuedPeople
    asked: Asked
    told: list[Event] = field(default_factory=list[Event])

    @property
    def task_id(self) -> str:
        return self.claim.lease.task_id

    @property
    def ask(self) -> AskOpened:
        return self.asked.asks[0]

    @property
    def answers(self) -> str:
        return CellKeys("main", 0).name("answers", self.task_id)

    def forge(self, ask_id: str, **fields: Any) -> None:
        answer = {"text": "once", "by": "alice", "at_ms": 1, **fields}
        self.raw.hset(self.answers, ask_id, json.dumps(answer))

    async def waits(self) -> None:
        """The ask is told, and its task parked, as by a worker."""
        lease = self.claim.lease
        progress = TaskProgress(
            trace_id=lease.trace_id,
            task_id=lease.task_id,
            attempt=lease.attempt,
            seq=0,
            at_ms=0,
            status=State.RUNNING,
            events=(self.ask,),
        )
        await self.worker.transport.emit(lease, progress)
        assert await self.worker.transport.park(lease, Wait(asks=frozenset({self.ask.ask_id})))

    async def open(self) -> OpenAsk:
        [one] = await open_asks(self.owner.transport)
        return one

    async def said(self) -> Any:
        return (await self.people.said(self.asked.asks)).get(self.ask.ask_id)


@pytest.fixture
async def scene(as_role: Any, acl_server: Any) -> AsyncIterator[Scene]:
    owner, worker = [await as_role(role) for role in ("orchestrator", "worker")]
    stolen = await connect_redis(acl_server.url("worker"), keyring=keyring.fresh())
    await owner.submit()
    claim = await worker.claim_one()
    told: list[Event] = []
    people = QueuedPeople(worker.transport, claim, Guard.__new__(Guard), 60_000, told.append)
    asked = await people.asked("call-1", [SHOWN], title="bash")
    with acl_server.connect("worker") as raw:
        yield Scene(owner, worker, stolen, raw, claim, people, asked, told)
    await stolen.close()


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
