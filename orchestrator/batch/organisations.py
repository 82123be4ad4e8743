"""The repositories of an organisation, as its forge lists them to the submitter, who has a token for it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from ..errors import BadInput
from ..globs import matching
from ..publication.address import read_address
from ..publication.forges.http import Api, Pace, reads
from ..publication.settings import ForgeSettings, Kind
from .spec import Repository

MAX_NAME_CHARS = 80  # of a repository's name


@dataclass(frozen=True, slots=True)
class _Listing:
    """`path` has the organisation's name in it. `url` and `is_left_out` read one entry of the list."""

    path: str
    url: Callable[[Mapping[str, Any]], str]
    is_left_out: Callable[[Mapping[str, Any]], bool]
    name: str = "name"
    query: Mapping[str, str] | None = None
    size_name: str = "per_page"


# An archived repository takes no change, and an empty one has none to start from.
_LISTINGS: Mapping[Kind, _Listing] = {
    Kind.GITHUB: _Listing(
        "/orgs/{}/repos",
        lambda one: one["clone_url"],
        lambda one: bool(one.get("archived")),
        query={"sort": "full_name"},
    ),
    Kind.GITLAB: _Listing(
        "/groups/{}/projects",
        lambda one: one["http_url_to_repo"],
        lambda one: bool(one.get("archived") or one.get("empty_repo")),
        name="path",
        query={"include_subgroups": "true", "archived": "false", "order_by": "id"},
    ),
    Kind.GITEA: _Listing(
        "/orgs/{}/repos",
        lambda one: one["clone_url"],
        lambda one: bool(one.get("archived") or one.get("empty")),
        size_name="limit",
    ),
}


async def repositories_in(asked: Repository, name: str, forge: ForgeSettings) -> list[Repository]:
    """`BadInput` when there is none that the batch file means; `ForgeDown` and its kin when nobody answers."""
    if forge.kind not in _LISTINGS:
        raise BadInput(f"the forge {name!r} is a git server, and lists nothing", hint="name its repositories by `url`")
    listing = _LISTINGS[forge.kind]
    path = listing.path.format(quote(asked.organisation or "", safe=""))
    found: dict[str, str] = {}
    read = reads(partial(_read, listing))
    async with Api(forge.api, forge.api_headers(), Pace(), name=name, ca_file=forge.ca_file) as api:
        async for one in api.pages(path, size_name=listing.size_name, **(listing.query or {})):
            if (entry := read(one)) is not None:
                url, called = entry
                found[url] = called
    chosen = set(matching(asked.only, found.values()))
    if not chosen:
        hint = "see `only`, and what the token may read"
        raise BadInput(f"{name} lists no repository of {asked.organisation} that {asked.only!r} matches", hint=hint)
    wanted = sorted((called, url) for url, called in found.items() if called in chosen)
    times = Counter(called for called, _ in wanted)
    return [
        Repository(url=url, base=asked.base, forge=name, name=_whole_name(url) if times[called] > 1 else None)
        for called, url in wanted
    ]


def _read(listing: _Listing, one: Mapping[str, Any]) -> tuple[str, str] | None:
    """Its address, which is its own, and what it is called, as others may be in other groups. None: left out."""
    if listing.is_left_out(one):
        return None
    return read_address(listing.url(one)).url, str(one[listing.name])


def _whole_name(url: str) -> str:
    """With the groups that it is in, as reports may say it.

    >>> _whole_name("https://git.example.com/acme/web/api.git")
    'acme-web-api'
    """
    return re.sub(r"[^A-Za-z0-9_.-]", "-", read_address(url).path)[-MAX_NAME_CHARS:].lstrip(".-")
