"""Why a change does not go out yet: the hour, or too many of ours that are open. Whoever set a limit, each holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from .body import is_ours
from .book import WAITS_FOR_PEOPLE, Publication
from .forges.base import Forge
from .limits import Limits
from .windows import is_open, next_opening


def window_reason(limits: Iterable[Limits], now_s: float) -> str:
    """Empty when the change may go out."""
    now = datetime.fromtimestamp(now_s, UTC)
    for each in limits:
        if not is_open(each.windows, now):
            opens = next_opening(each.windows, now)
            return f"outside of its window; the next one opens at {opens:%Y-%m-%d %H:%M} {opens.tzname()}"
    return ""


async def cap_reason(limits: Sequence[Limits], doing: Publication, forge: Forge, known: Iterable[Publication]) -> str:
    """Of the repository the forge is asked; of its owner's other repositories we know what we have made ourselves."""
    here_caps = [each.max_open for each in limits if each.max_open is not None]
    owner_caps = [each.max_open_per_owner for each in limits if each.max_open_per_owner is not None]
    if not here_caps and not owner_caps:
        return ""
    here = sum([is_ours(each.body) async for each in forge.alive()])
    if here_caps and here >= min(here_caps):
        return f"{here} of our requests are open in {doing.path}, and its cap is {min(here_caps)}"
    owner = _owner(doing)
    elsewhere = sum(_owner(each) == owner and each.path != doing.path and _is_open(each) for each in known)
    if owner_caps and here + elsewhere >= min(owner_caps):
        where = f"repositories of {owner[1]}, and its cap is {min(owner_caps)}"
        return f"{here + elsewhere} of our requests are open in {where}"
    return ""


def _owner(publication: Publication) -> tuple[str, str]:
    return publication.forge, publication.path.rpartition("/")[0]


def _is_open(publication: Publication) -> bool:
    return publication.stage in WAITS_FOR_PEOPLE
