"""An orchestrator seals the audit log, and remembers what it has seen of it."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from orchestrator.audit import verified
from orchestrator.sealing import read_ends, seal
from transport.audit import Decision
from transport.keys import CellKeys

pytestmark = pytest.mark.redis


async def test_what_an_orchestrator_has_seen_is_missed_although_redis_knows_nothing_of_it(served_stage):
    stage, settings = served_stage, served_stage.muster.settings
    before = await seal(stage.transport, settings)
    await stage.transport.audit.note(Decision("ann", "token", "ci"))
    ends = await seal(stage.transport, settings)
    seen = await read_ends(stage.transport, settings)
    whole = await verified(stage.transport, ends=seen)
    keys = CellKeys(settings.fleet)
    async with Redis.from_url(settings.redis_url) as raw:
        await raw.delete(*(keys.name(name) for name in ("audit", "audithead", "auditseal")))
    await stage.transport.audit.note(Decision("eve", "token", "ci"))
    after = await seal(stage.transport, settings)
    broken = await verified(stage.transport, ends=await read_ends(stage.transport, settings))

    assert (before, len(ends)) == ({}, 1)
    assert seen == ends
    assert (whole.breaks, whole.sealed) == ((), 1)
    assert after == {} and await read_ends(stage.transport, settings) == ends
    assert [(one.seq, one.why) for one in broken.breaks] == [(1, "an orchestrator has seen it otherwise")]
