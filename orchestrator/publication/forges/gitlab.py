"""GitLab's API, version 4. A title that begins with `Draft:` makes a draft."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from .base import Comment, Found, RequestState, Wanted
from .http import Api, default_branch, reads
from .pulls import comment

DRAFT = "Draft: "
_OVER = {"merged": RequestState.MERGED, "closed": RequestState.CLOSED}


class GitLab:
    def __init__(self, api: Api, path: str) -> None:
        self._api = api
        self._at = f"/projects/{quote(path, safe='')}"
        self._requests = f"{self._at}/merge_requests"

    async def default_branch(self) -> str:
        return default_branch(await self._api.get(self._at))

    async def of_branch(self, branch: str) -> AsyncIterator[Found]:
        asked = {"source_branch": branch, "state": "all", "order_by": "created_at", "sort": "desc"}
        async for item in self._api.pages(self._requests, **asked):
            if _is_here(item) and item["source_branch"] == branch:
                yield _found(item)

    async def alive(self) -> AsyncIterator[Found]:
        async for item in self._api.pages(self._requests, state="opened"):
            yield _found(item)

    async def get(self, number: int) -> Found:
        return _found(await self._api.get(f"{self._requests}/{number}"))

    async def create(self, wanted: Wanted) -> Found:
        title = f"{DRAFT}{wanted.title}" if wanted.draft else wanted.title
        branches = {"source_branch": wanted.branch, "target_branch": wanted.into}
        return _found(await self._api.create(self._requests, {**branches, "title": title, "description": wanted.body}))

    async def set_body(self, number: int, body: str) -> None:
        await self._api.change("PUT", f"{self._requests}/{number}", {"description": body})

    async def close(self, number: int) -> None:
        await self._api.change("PUT", f"{self._requests}/{number}", {"state_event": "close"})

    async def comments(self, number: int) -> AsyncIterator[Comment]:
        async for item in self._api.pages(f"{self._requests}/{number}/notes"):
            yield comment(item)

    async def comment(self, number: int, body: str) -> None:
        await self._api.create(f"{self._requests}/{number}/notes", {"body": body})


@reads
def _is_here(item: Any) -> bool:
    return item["source_project_id"] == item["target_project_id"]


@reads
def _found(item: Any) -> Found:
    """A request that is being merged (`locked`) is still open."""
    alive = RequestState.DRAFT if item.get("draft") else RequestState.OPEN
    return Found(
        number=item["iid"],
        url=item["web_url"],
        state=_OVER.get(item["state"], alive),
        branch=item["source_branch"],
        into=item["target_branch"],
        body=item["description"] or "",
        head=item.get("sha") or "",
    )
