"""Whether a batch's branch can be set where its file says, before anything is paid for."""

from __future__ import annotations

from repo.errors import BranchRefused, RepoError
from repo.publish import require_settable
from repo.remotes import require_own_branch

from ..batch.plan import Planned
from ..batch.spec import Publish
from ..batch.starts import Start
from ..errors import BadInput
from ..publication.place import place_of, remote_of
from ..publication.terms import Form
from ..settings import Settings


async def refusals(plan: Planned, settings: Settings) -> list[BranchRefused]:
    """Of each repository whose branch would be refused at the end, whatever is made of it.

    A remote that does not answer now may do so then: nothing is known of it.
    """
    found: list[BranchRefused] = []
    for name, start in plan.starts.items():
        try:
            await _look(plan.spec.publish, start, settings)
        except BranchRefused as e:
            found.append(BranchRefused(f"{name}: {e}", hint=e.hint))
    return found


async def _look(terms: Publish | None, start: Start, settings: Settings) -> None:
    if terms is None:
        return
    if terms.to is Form.BRANCH and start.folder is not None:
        await require_settable(start.folder, terms.branch, onto_default=terms.default_branch)
    if terms.to is Form.REQUEST or (terms.to is Form.PUSH and not terms.default_branch):
        await _look_there(terms, start, settings)


async def _look_there(terms: Publish, start: Start, settings: Settings) -> None:
    asked = terms.model_copy(update={"forge": terms.forge or start.forge})
    try:
        place = await place_of(asked, settings.forges, start.folder, fetched_from=start.url)
        await require_own_branch(remote_of(place, settings.forges), terms.branch)
    except BranchRefused:
        raise
    except (BadInput, RepoError):
        return
