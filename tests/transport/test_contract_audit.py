"""The audit log: what is recorded, that it holds together, and that what was done to it shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis.asyncio

from envelope.errors import ErrorCode
from envelope.ids import new_task_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskResult
from transport.audit import AuditEntry, Chain, Decision, chained, first_break, missing_end, missing_from
from transport.base import Allotment, Wait
from transport.keyring import fresh
from transport.keys import CellKeys
from transport.limits import Limits


async def deeds(fleet) -> list[tuple[str, str, str]]:
    """Who did what to what, in the order in which it was done in each cell."""
    entries = [entry.fields for chain in await fleet.transport.audit.chains() for entry in chain.entries]
    return [(fields["actor"], fields["action"], fields["subject"]) for fields in entries]


async def noted(fleet, count: int) -> Chain:
    for number in range(count):
        await fleet.transport.audit.note(Decision("ann", "token", f"t{number}", details={"role": "viewer"}))
    return (await fleet.transport.audit.chains())[0]


async def test_the_first_answer_is_recorded_and_no_other(fleet):
    request = await fleet.submit(tenant="acme")
    await fleet.transport.answer(request.task_id, "ask_1", "once", by="ann")
    await fleet.transport.answer(request.task_id, "ask_1", "reject", by="bob")

    assert await deeds(fleet) == [("ann", "answer", request.task_id)]
    [entry] = await fleet.transport.audit.latest(10)
    details = entry.fields["details"]
    assert {name: details[name] for name in ("ask", "answer", "key_id")} == {
        "ask": "ask_1",
        "answer": "once",
        "key_id": "a1",
    }
    assert (entry.fields["tenant"], entry.seq, entry.fields["prev_hash"]) == ("acme", 1, "")
    assert abs(entry.time_ms - await fleet.transport.now_ms()) < 60_000


async def test_a_persons_cancel_is_recorded_once_and_what_follows_from_it_is_not(fleet):
    request = await fleet.submit()
    child = fleet.child(request)
    await fleet.transport.submit([child])
    await fleet.transport.cancel(child.task_id, by=request.task_id, reason="enough")
    await fleet.transport.cancel(request.task_id, by="ann", reason="no more")
    await fleet.transport.cancel(request.task_id, by="bob", reason="no more")

    assert await deeds(fleet) == [("ann", "cancel", request.task_id)]


async def test_a_cap_is_recorded_when_it_is_raised(fleet):
    request = await fleet.submit(budget={"max_cost_microusd": 5})
    await fleet.transport.raise_cap(request.trace_id, 9, by="ann")
    await fleet.transport.raise_cap(request.trace_id, 7, by="bob")

    assert await deeds(fleet) == [("ann", "raise", request.trace_id)]
    [entry] = await fleet.transport.audit.latest(10)
    assert entry.fields["details"] == {"from_microusd": 5, "to_microusd": 9}


async def test_a_tenants_cap_is_recorded_when_it_changes(make_redis_fleet):
    fleet = await make_redis_fleet()
    for cap in (9, 9, None):
        await fleet.transport.fund("acme", cap, by="ann")

    assert await deeds(fleet) == [("ann", "fund", "acme")] * 2
    told = [entry.fields["details"] for entry in await fleet.transport.audit.latest(10)]
    assert {"from_microusd": "no cap", "to_microusd": 9} in told
    assert {"from_microusd": 9, "to_microusd": "no cap"} in told


async def test_an_operators_deeds_are_recorded(make_redis_fleet):
    fleet = await make_redis_fleet()
    request = await fleet.submit()
    claim = await fleet.claim_one()
    error = ErrorInfo.of(ErrorCode.BAD_INPUT, "it is nothing")
    said = {"trace_id": request.trace_id, "task_id": request.task_id, "attempt": 1}
    await fleet.transport.finish(claim.lease, TaskResult(**said, status=State.ERROR, errors=(error,)), dead="nothing")
    for _ in range(2):
        await fleet.transport.purge([request.task_id, new_task_id()], by="ann")
        await fleet.transport.allot("acme", Allotment(2.0, 5), by="bob")

    assert await deeds(fleet) == [("ann", "purge", request.task_id), ("bob", "allot", "acme")]


async def test_a_task_that_waits_hears_an_answer_that_was_recorded(fleet):
    """Recorded before it is done, in one step with it."""
    await fleet.submit()
    claim = await fleet.claim_one()
    assert await fleet.transport.park(claim.lease, Wait(asks=frozenset({"ask_1"})))
    await fleet.transport.answer(claim.lease.task_id, "ask_1", "once", by="ann")

    assert (await fleet.claim_one()).lease.attempt == 2
    assert len(await deeds(fleet)) == 1


async def test_what_somebody_says_is_recorded_without_keys(fleet):
    request = await fleet.submit()
    await fleet.transport.answer(request.task_id, "ask_1", "use sk-abcdefghijklmnop1234", by="ann")
    await fleet.transport.audit.note(Decision("ann", "token", "ci", details={"text": "x" * 5_000}))

    entries = await fleet.transport.audit.latest(10)
    assert {entry.fields["action"] for entry in entries} == {"answer", "token"}
    assert not [entry for entry in entries if b"sk-abc" in entry.body or len(entry.body) > 2_000]


async def test_a_chain_is_whole_and_its_end_sealed_once(fleet):
    chain = await noted(fleet, 3)
    ends = [await fleet.transport.audit.seal({}), await fleet.transport.audit.seal({0: chain.head})]
    [sealed, *_] = await fleet.transport.audit.chains()

    assert first_break(chain, fleet.transport.approvals) is None
    assert ends == [{0: chain.head}, {0: chain.head}]
    assert sealed.seal and (sealed.seal.seq, sealed.seal.hash) == chain.head
    assert first_break(sealed, fleet.transport.approvals) is None
    assert [entry.seq for entry in await fleet.transport.audit.latest(2)] == [3, 2]


@pytest.mark.redis
async def test_the_servers_hash_is_sha_256_for_texts_of_any_length(redis_fleet):
    for length in (*range(130), 500, 999):
        await redis_fleet.transport.audit.note(Decision("ünı", "nöte", "s" * length, details={"n": length}))
    [chain] = await redis_fleet.transport.audit.chains()

    assert len(chain.entries) == 132
    assert first_break(chain, redis_fleet.transport.approvals) is None


@pytest.mark.redis
@pytest.mark.parametrize(
    ("spoil", "seq", "why"),
    [
        (lambda raw, keys: raw.xdel(keys.name("audit"), "2-0"), 2, "in its place stands #3"),
        (lambda raw, keys: raw.xtrim(keys.name("audit"), minid="2-0", approximate=False), 1, "stands #2"),
        (lambda raw, keys: raw.xdel(keys.name("audit"), "4-0"), 4, "its head is #4"),
        (lambda raw, keys: raw.delete(keys.name("audit")), 1, "its head is #4"),
        (lambda raw, keys: raw.hset(keys.name("auditseal"), "at_ms", 5), 4, "cannot be trusted"),
        (lambda raw, keys: raw.hset(keys.name("audithead"), "hash", "0" * 64), 5, "its head is #4"),
    ],
    ids=["one gone", "first gone", "last gone", "all gone", "seal moved", "head changed"],
)
async def test_what_is_done_to_the_log_past_the_scripts_shows(redis_fleet, spoil, seq, why):
    await noted(redis_fleet, 4)
    await redis_fleet.transport.audit.seal({})
    async with redis.asyncio.Redis.from_url(redis_fleet.url) as raw:
        await spoil(raw, CellKeys(redis_fleet.name))
    [chain] = await redis_fleet.transport.audit.chains()
    found = first_break(chain, redis_fleet.transport.approvals)

    assert found and (found.seq, why in found.why) == (seq, True), found


@pytest.mark.redis
async def test_a_seal_covers_up_nothing(redis_fleet):
    """Cut the log, put its head back and wait for the next seal: nobody signs that, with or without the old seal."""
    before = await noted(redis_fleet, 1)
    seen = await redis_fleet.transport.audit.seal({})
    await noted(redis_fleet, 2)
    later = await redis_fleet.transport.audit.seal(seen)
    keys = CellKeys(redis_fleet.name)
    async with redis.asyncio.Redis.from_url(redis_fleet.url) as raw:
        await raw.xtrim(keys.name("audit"), maxlen=0)
        await raw.delete(keys.name("audit"))
        entry = before.entries[0]
        await raw.xadd(keys.name("audit"), {"body": entry.body, "hash": entry.hash}, id="1-0")
        await raw.execute_command("HSET", keys.name("audithead"), "seq", 1, "hash", entry.hash)
        with_seal = await redis_fleet.transport.audit.seal({})
        await raw.delete(keys.name("auditseal"))
        seen_later = await redis_fleet.transport.audit.seal(later)
        of_a_newcomer = await redis_fleet.transport.audit.seal({})

    assert [end[0] for end in (seen[0], later[0])] == [1, 3]
    assert (with_seal, seen_later) == ({}, {})
    assert of_a_newcomer == seen  # who has seen nothing, and finds no seal, cannot know
    [chain] = await redis_fleet.transport.audit.chains()
    found = missing_end(chain, later[0])
    assert found and found.seq == 3


async def test_a_log_that_was_made_anew_is_betrayed_by_its_seal_and_by_an_export(fleet):
    await noted(fleet, 3)
    await fleet.transport.audit.seal({})
    before, *_ = await fleet.transport.audit.chains()
    forged = forge(before, actor="eve")

    assert first_break(replace(forged, seal=None), fleet.transport.approvals) is None  # a chain like another
    found = first_break(forged, fleet.transport.approvals)
    assert found and (found.seq, found.why) == (3, "it was sealed otherwise")
    missing = missing_from(forged, before.entries)
    assert missing and (missing.seq, missing.why) == (1, "was exported otherwise")
    cut = missing_from(replace(before, entries=before.entries[:2]), before.entries)
    assert cut and (cut.seq, cut.why) == (3, "was exported, and is gone")
    assert missing_from(before, before.entries[:2]) is None


async def test_a_seal_under_another_fleets_key_counts_for_nothing(fleet):
    await noted(fleet, 1)
    await fleet.transport.audit.seal({})
    chain, *_ = await fleet.transport.audit.chains()
    found = first_break(chain, fresh())

    assert found and "cannot be trusted" in found.why


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"seq": "x", "time_ms": 1e400}', b'{"time_ms": 9999999999999999}', b"\xff", b"[" * 9_000],
)
def test_an_entry_of_any_bytes_can_be_looked_at(body):
    entry = AuditEntry(0, body, "h")

    assert (entry.seq, entry.time_ms) == (0, 0)
    found = first_break(Chain(0, (entry,), (1, "h"), None), fresh())
    assert found and found.seq == 1


def forge(chain: Chain, *, actor: str) -> Chain:
    """The same log with another actor, all hashes made anew."""
    entries: list[AuditEntry] = []
    prev_hash = "" if chain.first == 1 else chain.entries[0].fields["prev_hash"]
    for entry in chain.entries:
        fields = entry.fields
        deed = Decision(actor, fields["action"], fields["subject"], details=fields["details"])
        body, prev_hash = chained(deed, seq=entry.seq, time_ms=entry.time_ms, prev_hash=prev_hash)
        entries.append(AuditEntry(0, body, prev_hash))
    return replace(chain, entries=tuple(entries), head=(chain.head[0], prev_hash))


KEPT = 20


@pytest.fixture
async def full(make_fleet):
    """A fleet that keeps few entries and has dropped older ones; what was exported, and sealed, meanwhile."""
    fleet = await make_fleet(Limits(audit_entries=KEPT))
    early = await noted(fleet, 60)
    await fleet.transport.audit.seal({})
    return fleet, early


async def test_the_oldest_entries_are_dropped_and_the_rest_is_whole(full):
    fleet, early = full
    seen = await fleet.transport.audit.seal({})
    chain = await noted(fleet, 15)
    ends = await fleet.transport.audit.seal(seen)
    long_ago = {0: (early.entries[0].seq, early.entries[0].hash)}
    [again, *_] = await fleet.transport.audit.chains()

    assert KEPT <= len(chain.entries) < 40  # a server drops blocks of entries
    assert (chain.head[0], seen) == (75, {0: early.head})
    assert first_break(chain, fleet.transport.approvals) is None
    assert ends == {0: chain.head}
    assert again.seal and again.seal.first == again.first
    assert first_break(again, fleet.transport.approvals) is None
    assert missing_from(again, early.entries) is None  # the last of these is kept, and links the export to the log
    gone = [entry for entry in early.entries if entry.seq < again.first]
    assert gone and missing_from(again, gone)  # nothing links these
    # what an orchestrator saw long ago was dropped: the seal that came after it stands for it
    assert missing_end(again, long_ago[0]) is None
    assert missing_end(replace(again, seal=None), long_ago[0])
    assert await fleet.transport.audit.seal(long_ago) == {0: chain.head}


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda chain: replace(chain, entries=chain.entries[9:], is_full=False), "too few are kept"),
        (lambda chain: replace(chain, entries=chain.entries[:4] + chain.entries[5:]), "in its place stands"),
        (lambda chain: replace(chain, entries=chain.entries[:-1]), "its head is"),
        (lambda chain: replace(chain, entries=()), "its head is"),
        (lambda chain: forge(chain, actor="eve"), "it was sealed otherwise"),
        (lambda chain: replace(chain, seal=replace(chain.seal, first=chain.first + 9)), "cannot be trusted"),
        (lambda chain: replace(chain, entries=chain.entries[-1:], seal=None, is_full=False), "too few are kept"),
    ],
    ids=["head gone", "middle gone", "tail gone", "all gone", "replaced", "seal moved", "head and seal gone"],
)
async def test_what_is_done_to_a_log_that_has_dropped_entries_shows(full, spoil, why):
    fleet, _ = full
    [chain, *_] = await fleet.transport.audit.chains()

    found = first_break(spoil(chain), fleet.transport.approvals)

    assert chain.first > 1
    assert found and why in found.why, found


async def test_a_log_that_was_full_under_a_smaller_limit_is_whole_by_its_seal(full):
    fleet, _ = full
    [chain, *_] = await fleet.transport.audit.chains()

    assert first_break(replace(chain, is_full=False), fleet.transport.approvals) is None
    assert first_break(replace(chain, is_full=False, seal=None), fleet.transport.approvals)


async def test_a_flood_that_pushes_the_last_seal_out_shows(full):
    fleet, _ = full
    chain = await noted(fleet, KEPT * 3)

    found = first_break(chain, fleet.transport.approvals)

    assert found and (found.seq, found.why) == (60, "it was sealed, and is gone")


@pytest.mark.redis
async def test_a_short_log_whose_oldest_entries_are_gone_is_neither_whole_nor_sealed(redis_fleet):
    await noted(redis_fleet, 30)
    async with redis.asyncio.Redis.from_url(redis_fleet.url) as raw:
        await raw.xtrim(CellKeys(redis_fleet.name).name("audit"), minid="10-0", approximate=False)
    ends = await redis_fleet.transport.audit.seal({})
    [chain] = await redis_fleet.transport.audit.chains()

    found = first_break(chain, redis_fleet.transport.approvals)
    assert ends == {}
    assert found and (found.seq, "stands #10" in found.why) == (1, True)
