"""The audit log and the notices for those outside, each step by the roles that take it; nothing is refused."""

from __future__ import annotations

from typing import Any

import pytest

from transport.audit import TIMEOUT, Decision, first_break
from transport.base import Wait
from transport.notices import Notice

pytestmark = pytest.mark.redis


async def test_an_orchestrator_tells_what_a_worker_did_and_a_reader_sees_who_decided(as_role: Any, emptied: Any):
    people, worker, reader = [await as_role(role) for role in ("orchestrator", "worker", "reader")]
    [notices] = people.transport.notices
    await notices.read(wait_s=0.001)
    await people.submit()
    claim = await worker.claim_one()
    await worker.transport.park(claim.lease, Wait(asks=frozenset({"ask_1"})))
    await worker.transport.answer(claim.lease.task_id, "ask_1", "reject", by=TIMEOUT)
    await worker.finish(await worker.claim_one())
    news = await notices.read(wait_s=10)
    await notices.take(news, [Notice(f"msg_{number}", "chat", "task.ended", "{}", 0) for number in range(2)])
    first, second = (await notices.due(limit=2, sending_ms=60_000)).notices
    await notices.sent(first)
    await notices.failed(second, "410", again_in_ms=None)
    again = await notices.retry([second.id])
    await people.transport.audit.note(Decision("cli:ann@desk", "token", "ci"))
    await people.transport.audit.seal({})

    assert {happening.kind for happening in news.happenings} == {"asked", "done"}
    assert again == 1
    assert [entry.fields["actor"] for entry in await reader.transport.audit.latest(5)] == ["cli:ann@desk", TIMEOUT]
    [chain] = await reader.transport.audit.chains()
    assert chain.seal and first_break(chain, reader.transport.approvals) is None
    assert [one.id for one in await reader.transport.notices[0].waiting(5)] == [second.id]
    assert emptied.acl_log() == []
