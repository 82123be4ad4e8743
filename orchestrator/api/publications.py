"""Publication over HTTP: pushes and requests, by this process, which has the forges' tokens and the book."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from ..errors import BadInput
from ..looking import PUBLISHES, require_writing
from ..publication.address import is_remote_name, read_address
from ..publication.book import UNFINISHED, Publication
from ..publication.changes import Change
from ..publication.client import Publications, Published, refused, terms_of
from ..publication.forges.http import Pace
from ..publication.place import forge_at
from ..publication.settings import ForgeSettings
from ..publication.terms import DEFAULT_REMOTE, OUTSIDE, Form, Terms
from ..publication.told import Told, told_of
from .access import Caller, Publisher, Viewer
from .reach import Reach
from .reading import BodyRoute
from .tasks import Body

router = APIRouter(route_class=BodyRoute, prefix="/v1", tags=["publications"])

# What a forge wants to be waited for longer is held: who calls has a proxy that gives up after about a minute.
MAX_WAIT_S = 20.0
Short = Annotated[str, Field(max_length=200)]


class NewPublication(Body):
    """What is left out is as the batch's document says. `unverified` and `default_branch`, which lets a push go to the
    remote's default branch, are for the caller alone to say.

    `remote`: the address of what was sent as a bundle; what was fetched goes back to where it came from.
    """

    to: Form | None = None
    branch: Short = ""
    remote: Annotated[str, Field(max_length=2_000)] = ""
    forge: Short = ""
    into: Short = ""
    title: Short = ""
    draft: bool | None = None
    unverified: bool = False
    default_branch: bool = False


class Comment(Body):
    text: Annotated[str, Field(min_length=1, max_length=10_000)]


class Said(BaseModel):
    """On how many requests it is new; the others had it."""

    said: int


@router.post("/tasks/{task_id}/publications")
async def publish_task(task_id: str, wanted: NewPublication, caller: Publisher) -> list[Told]:
    """Push what a goal or batch has made, or make requests for it, one for each repository; again: bring up to date.

    Who stops waiting stops nothing. What cannot go now is held: `POST /v1/publications/sync` goes on with it.
    """
    record = await caller.record(task_id)
    publications = _publications(caller, record.tenant)
    told: list[Told] = []
    for change in await publications.changes(task_id):
        branch = wanted.branch or change.branch
        terms = _terms(change, wanted)
        try:
            _require_bound(change, terms, publications)
        except BadInput as e:
            told.append(refused(change, terms, branch, e))
            continue
        told.append(await publications.publish_change(change, terms, branch, by=caller.name))
    return told


@router.get("/tasks/{task_id}/publications")
async def show_publications(task_id: str, caller: Viewer) -> list[Told]:
    """What was published of a task, as it was seen last."""
    await caller.record(task_id)
    return [told_of(each) for each in _own(caller, task_id)]


@router.get("/publications")
async def list_publications(caller: Viewer) -> list[Told]:
    """All that the caller's tenant has published, as it was seen last, the latest change first."""
    return [told_of(each) for each in _own(caller)]


@router.post("/publications/sync")
async def sync_publications(caller: Publisher) -> list[Told]:
    """Go on with what is held or was interrupted, the oldest first; see what people have done with the rest."""
    publications = _publications(caller)
    found = _reached(caller)
    gone_on = await publications.go_on(found)
    looked_at = await publications.published.look(each for each in found if each.stage not in UNFINISHED)
    return [told_of(each) for each in (*gone_on, *looked_at)]


@router.post("/tasks/{task_id}/publications/comment")
async def comment_on(task_id: str, comment: Comment, caller: Publisher) -> Said:
    """Say something on a task's open requests; the same text is said once on each."""
    await caller.record(task_id)
    publications = _publications(caller)
    waiting = await publications.published.waiting(_reached(caller, task_id))
    return Said(said=await publications.published.comment(waiting, comment.text))


@router.post("/tasks/{task_id}/publications/close")
async def close_requests(task_id: str, caller: Publisher) -> list[Told]:
    """Close a task's open requests, whose branches stay; give up what is held or refused before there was one."""
    await caller.record(task_id)
    publications = _publications(caller)
    waiting = await publications.published.closable(_reached(caller, task_id))
    return [told_of(each) for each in await publications.published.close(waiting)]


async def to_publish(task_id: str, caller: Caller) -> list[tuple[Change, Terms]]:
    """What of theirs there is to publish, and how it would be if they said nothing of that. `BadInput` when it is
    nothing, or not yet."""
    record = await caller.record(task_id)
    changes = await _publications(caller, record.tenant).changes(task_id)
    return [(change, _terms(change, NewPublication())) for change in changes]


def _publications(caller: Caller, tenant: str | None = None) -> Publications:
    """With the forges that this tenant's work, else the caller, may use. `WouldWrite` for who only looks."""
    settings = caller.muster.settings
    require_writing(settings, PUBLISHES)
    allowed = Reach(settings.forges, caller.seen_tenant).allowed if tenant is None else _allowed(caller, tenant)
    return Publications(caller.muster, Published.of(settings, allowed, Pace(max_wait_s=MAX_WAIT_S)).publisher)


def _allowed(caller: Caller, tenant: str) -> dict[str, ForgeSettings]:
    """The forges for this tenant's work: who sees all tenants lends it no other's."""
    settings = caller.muster.settings
    return Reach(settings.forges, tenant if tenant != settings.tenant else caller.seen_tenant).allowed


def _own(caller: Caller, task_id: str = "") -> list[Publication]:
    known = Published.of(caller.muster.settings).known([task_id] if task_id else [])
    return [each for each in known if caller.token.sees(each.tenant)]


def _reached(caller: Caller, task_id: str = "") -> list[Publication]:
    """Of the caller's own those at forges that their tenants may use: what a command of this machine holds elsewhere
    stays so."""
    return [each for each in _own(caller, task_id) if each.forge in _allowed(caller, each.tenant)]


def _terms(change: Change, wanted: NewPublication) -> Terms:
    """That something may go unproved, or unreviewed to the default branch, is no matter of the document's, which who
    submits has written."""
    given: dict[str, Any] = wanted.model_dump(exclude={"branch"}, exclude_none=True)
    said = {name: value for name, value in given.items() if value != ""}
    to = wanted.to or (change.asked.to if change.asked else None)
    return terms_of(change, {**said, "to": to if to in OUTSIDE or wanted.to else Form.REQUEST})


def _require_bound(change: Change, terms: Terms, publications: Publications) -> None:
    """The change goes where it came from, or to a forge that this tenant may use: nowhere by the server's own keys,
    and to none of its folders. `BadInput` says so."""
    remote = terms.remote
    if change.url and remote not in (DEFAULT_REMOTE, change.url):
        raise BadInput("what was fetched goes back to where it came from", hint="leave `remote` out")
    if remote == DEFAULT_REMOTE:
        remote = change.url
    if not remote or is_remote_name(remote):
        raise BadInput("nobody knows where this repository is", hint="say its address as `remote`: https://…")
    address = read_address(remote)
    if address.scheme not in ("https", "http"):
        raise BadInput(f"{remote} is not an https address", hint="a change leaves the server by https alone")
    if not forge_at(address, publications.publisher.forges):
        hint = "whoever runs the server names it in its settings, as [forges.NAME] with your tenant in `tenants`"
        raise BadInput(f"this tenant may use no forge at {address.host}", hint=hint)
