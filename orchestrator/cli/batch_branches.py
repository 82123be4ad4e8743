"""Whether a batch's branch can be set where its file says, before anything is paid for."""

from __future__ import annotations

import asyncio

from repo.errors import BranchRefused, RepoError
from repo.remotes import require_own_branch

from ..batch.plan import Planned
from ..batch.spec import Publish
from ..batch.starts import Start
from ..errors import BadInput
from ..publication.place import place_of, remote_of
from ..publication.terms import Form
from ..settings import Settings
from .publish import Target, require_free

# A person waits for this: a forge that is well answers within a second, and one that is down may be that of all.
LOOK_TIMEOUT_S, AT_ONCE = 10.0, 16


async def refusals(plan: Planned, settings: Settings) -> dict[str, BranchRefused]:
    """Of each repository whose branch would be refused at the end, whatever is made of it, by its name.

    A remote that does not answer now may do so then: nothing is known of it.
    """
    terms, places = plan.spec.publish, asyncio.Semaphore(AT_ONCE)
    if terms is None:
        return {}

    async def look(start: Start) -> BranchRefused | None:
        async with places:
            try:
                await _look(terms, start, settings)
            except BranchRefused as e:
                return e

    found = await asyncio.gather(*map(look, plan.starts.values()))
    return {name: refusal for name, refusal in zip(plan.starts, found, strict=True) if refusal}


async def _look(terms: Publish, start: Start, settings: Settings) -> None:
    if terms.to is Form.BRANCH and start.folder is not None:
        target = Target(start.folder, terms.branch, onto_default=terms.default_branch)
        await require_free(settings, target, start.base)
    if terms.to is Form.REQUEST or (terms.to is Form.PUSH and not terms.default_branch):
        await _look_there(terms, start, settings)


async def _look_there(terms: Publish, start: Start, settings: Settings) -> None:
    asked = terms.model_copy(update={"forge": terms.forge or start.forge})
    try:
        place = await place_of(asked, settings.forges, start.folder, fetched_from=start.url)
        await require_own_branch(remote_of(place, settings.forges), terms.branch, timeout_s=LOOK_TIMEOUT_S)
    except BranchRefused:
        raise
    except (BadInput, RepoError):
        return
