"""A batch's document from outside, with its repositories as far as whoever sent it may reach them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

from transport.errors import NotFound

from ..batch.document import NAME, read_document
from ..batch.plan import Planned, Sources
from ..errors import BadInput
from .caller import Caller
from .reach import Reach, require_reachable_batch

# Of one tenant: documents that are read, with the repositories that are fetched for them; a first fetch may take
# minutes, and more where the host that a tenant names is slow.
BATCHES_AT_ONCE = 2

Places = defaultdict[str, asyncio.Semaphore]  # by tenant


def places() -> Places:
    return defaultdict(lambda: asyncio.Semaphore(BATCHES_AT_ONCE))


async def planned_for(caller: Caller, content: bytes, language: str, at_once: Places) -> Planned:
    """`language`: TOML, YAML or JSON. `BadInput` and `RepoError` say what cannot be run."""
    muster = caller.muster
    reach = Reach(muster.settings.forges, caller.seen_tenant)
    async with at_once[caller.tenant]:
        spec = await read_document(content, language)
        require_reachable_batch(spec)
        if (earlier := spec.shards.failures_of) is not None:
            await _require_own(earlier, caller)
        sources = Sources(blobs=muster.transport.blobs, reach=reach, forges=reach.allowed, tenant=caller.tenant)
        return await muster.batches.plan(spec, sources, file=Path(NAME))


async def _require_own(earlier: str, caller: Caller) -> None:
    try:
        await caller.record(earlier)
    except NotFound as e:
        hint = "shards.failures_of is the whole id of a batch of yours"
        raise BadInput(f"shards.failures_of: {e.message}", hint=hint) from e
