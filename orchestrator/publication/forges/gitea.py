"""Gitea's API, and Forgejo's, which is the same here. A title that begins with `WIP:` makes a draft."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .base import Comment, Found, RequestState, Wanted
from .http import Api, default_branch, reads
from .pulls import comment, source

DRAFT = "WIP: "
_DRAFTS = ("wip:", "[wip]")


class Gitea:
    def __init__(self, api: Api, path: str) -> None:
        self._api, self._path = api, path
        self._at = f"/repos/{path}"

    async def default_branch(self) -> str:
        return default_branch(await self._api.get(self._at))

    async def of_branch(self, branch: str) -> AsyncIterator[Found]:
        """The whole list is looked through: not every version can be asked for one branch."""
        asked = self._api.pages(f"{self._at}/pulls", size_name="limit", state="all", sort="recentupdate")
        found = [item async for item in asked if source(item) == (self._path.lower(), branch)]
        for item in sorted(found, key=lambda item: -item["number"]):
            yield _found(item)

    async def alive(self) -> AsyncIterator[Found]:
        async for item in self._api.pages(f"{self._at}/pulls", size_name="limit", state="open"):
            yield _found(item)

    async def get(self, number: int) -> Found:
        return _found(await self._api.get(f"{self._at}/pulls/{number}"))

    async def create(self, wanted: Wanted) -> Found:
        title = f"{DRAFT}{wanted.title}" if wanted.draft else wanted.title
        body = {"title": title, "head": wanted.branch, "base": wanted.into, "body": wanted.body}
        return _found(await self._api.create(f"{self._at}/pulls", body))

    async def set_body(self, number: int, body: str) -> None:
        await self._api.change("PATCH", f"{self._at}/pulls/{number}", {"body": body})

    async def close(self, number: int) -> None:
        await self._api.change("PATCH", f"{self._at}/pulls/{number}", {"state": "closed"})

    async def comments(self, number: int) -> AsyncIterator[Comment]:
        for item in await self._api.get(f"{self._at}/issues/{number}/comments"):  # all of them: it knows no pages
            yield comment(item)

    async def comment(self, number: int, body: str) -> None:
        await self._api.create(f"{self._at}/issues/{number}/comments", {"body": body})


@reads
def _found(item: Any) -> Found:
    if item.get("merged"):
        state = RequestState.MERGED
    elif item["state"] == "closed":
        state = RequestState.CLOSED
    else:
        is_draft = item.get("draft") or item["title"].lower().startswith(_DRAFTS)
        state = RequestState.DRAFT if is_draft else RequestState.OPEN
    return Found(
        number=item["number"],
        url=item["html_url"],
        state=state,
        branch=item["head"]["ref"],
        into=item["base"]["ref"],
        body=item["body"] or "",
        head=item["head"]["sha"],
    )
