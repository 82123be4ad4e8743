"""What a batch has made, on its way out: what would go where, and then what became of it. As over the API."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from ...publication.address import is_remote_name
from ...publication.changes import Change
from ...publication.terms import Terms
from ..publications import NewPublication, publish_task, to_publish
from .batches import batch_of
from .forms import form_of, in_words_of_pages, text_of
from .rendering import page
from .visitor import Publisher

router = APIRouter(prefix="/batches")


@dataclass(frozen=True, slots=True)
class Leaving:
    """One repository's change, and how its batch's document has it published."""

    change: Change
    terms: Terms

    @property
    def goes_to(self) -> str:
        """Empty where nobody knows yet: its repository came in a bundle."""
        told = self.terms.remote
        return self.change.url or ("" if is_remote_name(told) else told)


@router.get("/{task_id}/publish")
async def review_publication(request: Request, task_id: str, caller: Publisher) -> Response:
    """What would leave, and where to. Nothing has left."""
    record = await batch_of(caller, task_id)
    async with in_words_of_pages():
        leaving = [Leaving(change, terms) for change, terms in await to_publish(task_id, caller)]
    return page(
        request,
        "batches/publish.html",
        record=record,
        leaving=leaving,
        asks_where=len(leaving) == 1 and not leaving[0].goes_to,  # one address is of one repository
        is_verified=all(each.change.facts.verified for each in leaving),
        terms=leaving[0].terms,  # but for where they go, those of all: a batch has one document
    )


@router.post("/{task_id}/publish")
async def publish(request: Request, task_id: str, caller: Publisher) -> Response:
    """Sent twice it is brought up to date, and nothing is there twice."""
    record = await batch_of(caller, task_id)
    form = await form_of(request)
    said = {
        "to": text_of(form, "to") or None,
        "remote": text_of(form, "remote"),
        "unverified": text_of(form, "unverified") == "yes",
    }
    async with in_words_of_pages():
        told = await publish_task(task_id, NewPublication.model_validate(said), caller)
    return page(request, "batches/published.html", record=record, told=told)
