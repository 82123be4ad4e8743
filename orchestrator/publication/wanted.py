"""What is to be published, from a change and the terms for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .body import block_of
from .book import Publication, key_of
from .changes import Change
from .place import place_of
from .settings import ForgeSettings
from .terms import Terms


async def wanted_of(
    change: Change,
    terms: Terms,
    branch: str,
    forges: Mapping[str, ForgeSettings],
    *,
    repository: Path | None,
    tenant: str,
) -> Publication:
    """`repository`: the local one, if there is any. `BadInput` and `RepoError` say what does not fit.

    The forge is the one that the terms name, else the one that the batch file names for the repository.
    """
    asked = terms.model_copy(update={"forge": terms.forge or change.forge})
    place = await place_of(asked, forges, repository, fetched_from=change.url)
    key = key_of(place.address.repository, branch)
    return Publication(
        key=key,
        remote=place.address.url,
        forge=place.forge,
        path=place.address.path,
        branch=branch,
        into=terms.into,
        terms=asked,
        task_id=change.task_id,
        tenant=tenant,
        batch=change.batch,
        repository=change.repository,
        bundle=change.bundle,
        base=change.base,
        commit=change.commit,
        title=terms.title or change.title,
        body=block_of(key, change.facts),
    )
