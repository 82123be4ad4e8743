"""GitHub's REST API, of github.com and of servers of one's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .base import Comment, Found, RequestState, Wanted
from .http import Api, default_branch, reads
from .pulls import comment, source

HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}


class GitHub:
    def __init__(self, api: Api, path: str) -> None:
        self._api, self._path, self._owner = api, path, path.partition("/")[0]
        self._at = f"/repos/{path}"

    async def default_branch(self) -> str:
        return default_branch(await self._api.get(self._at))

    async def of_branch(self, branch: str) -> AsyncIterator[Found]:
        asked = {"head": f"{self._owner}:{branch}", "state": "all", "sort": "created", "direction": "desc"}
        async for item in self._api.pages(f"{self._at}/pulls", **asked):
            if source(item) == (self._path.lower(), branch):
                yield _found(item)

    async def alive(self) -> AsyncIterator[Found]:
        async for item in self._api.pages(f"{self._at}/pulls", state="open"):
            yield _found(item)

    async def get(self, number: int) -> Found:
        return _found(await self._api.get(f"{self._at}/pulls/{number}"))

    async def create(self, wanted: Wanted) -> Found:
        body = {"title": wanted.title, "head": wanted.branch, "base": wanted.into, "body": wanted.body}
        return _found(await self._api.create(f"{self._at}/pulls", {**body, "draft": wanted.draft}))

    async def set_body(self, number: int, body: str) -> None:
        await self._api.change("PATCH", f"{self._at}/pulls/{number}", {"body": body})

    async def close(self, number: int) -> None:
        await self._api.change("PATCH", f"{self._at}/pulls/{number}", {"state": "closed"})

    async def comments(self, number: int) -> AsyncIterator[Comment]:
        async for item in self._api.pages(f"{self._at}/issues/{number}/comments"):
            yield comment(item)

    async def comment(self, number: int, body: str) -> None:
        await self._api.create(f"{self._at}/issues/{number}/comments", {"body": body})


@reads
def _found(item: Any) -> Found:
    if item.get("merged_at"):
        state = RequestState.MERGED
    elif item["state"] == "closed":
        state = RequestState.CLOSED
    else:
        state = RequestState.DRAFT if item.get("draft") else RequestState.OPEN
    return Found(
        number=item["number"],
        url=item["html_url"],
        state=state,
        branch=item["head"]["ref"],
        into=item["base"]["ref"],
        body=item["body"] or "",
        head=item["head"]["sha"],
    )
