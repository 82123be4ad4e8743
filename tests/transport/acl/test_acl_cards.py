"""Whoever has a worker's Redis password, and no key file: no card of theirs decides what an agent is, or may do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envelope.agents import AgentCard, ModelPrice, ProjectCards, WorkerCard
from orchestrator.client import Muster
from orchestrator.doctor import Health, check_all
from orchestrator.errors import UnknownName
from orchestrator.settings import Settings
from orchestrator.submit import DRIVERS
from transport import keyring
from transport.keys import CellKeys
from transport.redis import connect_redis

pytestmark = pytest.mark.redis

BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**",))
CARD = WorkerCard(worker="w1", pool="build", slots=4, agents=(BUILD,), version="1.0", model="scripted/one")
WIDER = BUILD.model_copy(update={"auth_scope": ("bash:**", "network:evil.example", "credential:forge")})
FORGED = CARD.model_copy(
    update={
        "worker": "w0",
        "agents": (WIDER, AgentCard(name="mole", mode="primary", pool="build")),
        "projects": (ProjectCards(commit="0" * 40, agents=(WIDER,)),),
        "version": "999",
        "model": "dear/one",
        "price": ModelPrice(input_microusd=0, output_microusd=0),
    }
)
CARDS = CellKeys("main", 0).name("cards")


@dataclass
class Scene:
    owner: Any
    worker: Any
    thief: Any  # a transport over the worker's user, with a keyring of its own
    raw: Any  # the same as a bare connection

    async def scope(self) -> tuple[str, ...]:
        """What a task is signed with whose caller names no grants."""
        handle = await Muster(self.owner.transport, Settings()).submit(agent="build", prompt="x", deadline_ms=60_000)
        return (await self.owner.transport.request(handle.task_id)).auth_scope

    async def cards(self) -> dict[str, WorkerCard]:
        return {card.worker: card for card in await self.owner.transport.workers()}


@pytest.fixture
async def scene(as_role: Any, acl_server: Any) -> AsyncIterator[Scene]:
    owner, worker = [await as_role(role) for role in ("orchestrator", "worker")]
    thief = await connect_redis(acl_server.url("worker"), keyring=keyring.fresh())
    with acl_server.connect("worker") as raw:
        yield Scene(owner, worker, thief, raw)
    await thief.close()


async def test_a_forged_card_widens_nothing_that_others_sign(scene: Scene):
    await scene.worker.transport.announce(CARD, ttl_s=60)
    await scene.thief.announce(FORGED, ttl_s=60)
    await scene.thief.announce(FORGED.model_copy(update={"worker": "w1"}), ttl_s=60)
    with pytest.raises(UnknownName):
        await scene.scope()  # the worker's own card is overwritten, until it announces itself again

    await scene.worker.transport.announce(CARD, ttl_s=60)

    assert await scene.scope() == BUILD.auth_scope
    assert await Muster(scene.owner.transport, Settings()).agents(commit="0" * 40) == [BUILD]


async def test_it_tells_of_a_process_and_of_nothing_that_it_offers(scene: Scene):
    await scene.thief.announce(FORGED, ttl_s=60)

    assert await scene.cards() == {"w0": WorkerCard(worker="w0", pool="build", slots=4, version="999", is_signed=False)}
    with pytest.raises(UnknownName) as refusal:
        await scene.scope()
    assert "w0" in refusal.value.hint and "keyring" in refusal.value.hint


async def test_doctor_tells_whose_cards_do_not_count(
    scene: Scene, acl_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for pool in (DRIVERS, *Settings().pools):
        card = CARD.model_copy(update={"worker": f"{pool}-1", "pool": pool})
        await (scene.thief if pool == "build" else scene.worker.transport).announce(card, ttl_s=60)
    monkeypatch.setenv("MUSTER_REDIS_URL", acl_server.url("orchestrator"))
    monkeypatch.setenv("MUSTER_KEYRING", str(tmp_path / "keyring.json"))
    monkeypatch.setenv("MUSTER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("MUSTER_CONFIG", str(tmp_path / "none.toml"))
    keyring.create(tmp_path / "keyring.json", scene.owner.transport.keyring)

    [told] = [check for check in await check_all() if check.part == "fleet"]

    assert told.health is Health.FAILS
    assert "nobody has signed" in told.found
    assert "give build-1 this fleet's keyring" in told.mend


@pytest.mark.parametrize(
    "change",
    [
        {"signature": None},
        {"signature": {}},
        {"signature": "x"},
        {"signature": {"key_id": "k1", "mac": "zz", "until_ms": 9e12}},
        {"signature": {"key_id": "k1", "mac": "00" * 32, "until_ms": "x"}},
        {"agents": [WIDER.model_dump(mode="json")]},
        {"worker": "w0"},
        {"is_signed": True, "signature": None},
    ],
)
async def test_a_card_that_was_signed_says_what_was_signed(scene: Scene, change: dict[str, Any]):
    await scene.worker.transport.announce(CARD, ttl_s=60)
    card = json.loads(scene.raw.hget(CARDS, "w1"))

    scene.raw.hset(CARDS, "w1", json.dumps(card | change))

    [found] = (await scene.cards()).values()
    assert (found.is_signed, found.agents, found.model) == (False, (), "")


async def test_a_card_that_is_kept_and_announced_again_is_nobodys(scene: Scene):
    """An agent of last year's may have had more grants than this year's."""
    await scene.worker.transport.announce(CARD.model_copy(update={"agents": (WIDER,)}), ttl_s=0.001)
    kept = scene.raw.hget(CARDS, "w1")
    gone_at_ms = await scene.owner.transport.now_ms() + 2
    while await scene.owner.transport.now_ms() <= gone_at_ms:
        pass

    await scene.thief.announce(FORGED.model_copy(update={"worker": "w1"}), ttl_s=60)
    scene.raw.hset(CARDS, "w1", kept)

    assert await scene.cards() == {}


async def test_what_a_newer_worker_says_beside_is_signed_too_and_hides_nothing(scene: Scene):
    await scene.worker.transport.announce(CARD, ttl_s=60)
    card = json.loads(scene.raw.hget(CARDS, "w1"))

    class Newer(WorkerCard):
        colour: str = "red"

    await scene.worker.transport.announce(Newer(**CARD.model_dump()), ttl_s=60)

    assert "colour" not in card and json.loads(scene.raw.hget(CARDS, "w1"))["colour"] == "red"
    assert await scene.cards() == {"w1": CARD}
