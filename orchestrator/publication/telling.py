"""Comments on requests and their closing, each done once however often it is asked for."""

from __future__ import annotations

from envelope.ids import digest_of

from .book import Publication
from .errors import ForgeUnsure
from .forges.base import ALIVE, Forge
from .patience import pause_s
from .publisher import CREATE_TRIES, Publisher


async def comment(publisher: Publisher, publication: Publication, text: str) -> bool:
    """Say it on the publication's request; False when this was said there before.

    What was said is found by a mark in the comment itself, which nobody sees: there it outlives our memory of it.
    """
    mark = f"<!-- muster:comment {digest_of(publication.key, text)[:32]} -->"
    async with publisher.book.at_work(publication), publisher.forge(publication) as forge:
        for tries in range(1, CREATE_TRIES + 1):
            if await _is_said(forge, publication.number, mark):
                return tries > 1
            try:
                await forge.comment(publication.number, f"{text}\n\n{mark}")
                return True
            except ForgeUnsure as e:
                if tries == CREATE_TRIES:
                    raise
                await publisher.pace.wait(pause_s(tries, publisher.pace.chance()), str(e))
    raise AssertionError("the last try returns or raises")


async def close(publisher: Publisher, publication: Publication) -> Publication:
    """With the state that its request has then: one that was merged meanwhile stays merged."""
    async with publisher.book.at_work(publication), publisher.forge(publication) as forge:
        found = await forge.get(publication.number)
        if found.state in ALIVE:
            await forge.close(publication.number)
            found = await forge.get(publication.number)
        return publisher.note_state(publication, found)


async def _is_said(forge: Forge, number: int, mark: str) -> bool:
    async for each in forge.comments(number):
        if mark in each.body:
            return True
    return False
