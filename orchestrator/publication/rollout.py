"""Why a change does not go out yet: the hour, or too many of ours that are open."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from .body import is_ours
from .book import WAITS_FOR_PEOPLE, Publication
from .forges.base import Forge
from .terms import Terms
from .windows import is_open, next_opening


def window_reason(terms: Terms, now_s: float) -> str:
    """Empty when the change may go out."""
    now = datetime.fromtimestamp(now_s, UTC)
    if is_open(terms.windows, now):
        return ""
    opens = next_opening(terms.windows, now)
    return f"outside of its window; the next one opens at {opens:%Y-%m-%d %H:%M} {opens.tzname()}"


async def cap_reason(doing: Publication, forge: Forge, known: Iterable[Publication]) -> str:
    """Of the repository the forge is asked; of its owner's other repositories we know what we have made ourselves."""
    terms = doing.terms
    if terms.max_open is None and terms.max_open_per_owner is None:
        return ""
    here = sum([is_ours(each.body) async for each in forge.alive()])
    if terms.max_open is not None and here >= terms.max_open:
        return f"{here} requests of ours are open in {doing.path}, which is its cap"
    owner = doing.path.rpartition("/")[0]
    elsewhere = sum(
        each.stage in WAITS_FOR_PEOPLE and each.forge == doing.forge and each.path != doing.path
        for each in known
        if each.path.rpartition("/")[0] == owner
    )
    if terms.max_open_per_owner is not None and here + elsewhere >= terms.max_open_per_owner:
        return f"{here + elsewhere} requests of ours are open in repositories of {owner}, which is its cap"
    return ""
