"""Dead letters as a tenant may see them."""

from __future__ import annotations

import asyncio

from transport.base import DeadLetter, Transport
from transport.errors import NotFound

# Of the fleet: so many of the latest are looked through for a tenant's own.
MAX_LISTED = 1000


async def letters_of(transport: Transport, tenant: str | None, *, limit: int) -> list[DeadLetter]:
    """The latest first; of a tenant those among the fleet's latest 1,000, of all (None) any."""
    if tenant is None:
        return await transport.dead_letters(limit=limit)
    letters = await transport.dead_letters(limit=MAX_LISTED)
    theirs = await asyncio.gather(*(_is_of(transport, letter, tenant) for letter in letters))
    return [letter for letter, is_theirs in zip(letters, theirs, strict=True) if is_theirs][:limit]


async def _is_of(transport: Transport, letter: DeadLetter, tenant: str) -> bool:
    """The list outlives what is known of its tasks; whose those were only who sees all may guess."""
    try:
        return (await transport.record(letter.task_id)).tenant == tenant
    except NotFound:
        return False
