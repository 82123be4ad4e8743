"""Searching the web, through a service that the operator chose."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast
from urllib.parse import quote

import aiohttp

from .addresses import ANY
from .errors import Unreached, WebError
from .tunnel import session_for
from .urls import parse_url

TIMEOUT_S = 25.0
MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 4  # how deep in an answer the list of results is looked for
# What services call the parts of a result; the first that is there counts.
TITLES, URLS, TEXTS = ("title", "name"), ("url", "link", "href"), ("text", "content", "snippet", "description")


@dataclass(frozen=True, slots=True)
class Found:
    title: str
    url: str
    text: str


class SearchProvider(Protocol):
    async def search(self, query: str, limit: int) -> Sequence[Found]:
        """At most `limit` results, best first. `WebError` when the service gives none, in words for the model."""
        ...


@dataclass(frozen=True, slots=True)
class JsonSearch:
    """A service that answers GET with JSON. `url` holds `{query}` and, if it likes, `{count}`.

    The URL is the operator's own, so any address of its host will do; redirects are not followed, since the key goes
    along.
    """

    url: str
    key: str = field(default="", repr=False)
    key_header: str = "Authorization"

    async def search(self, query: str, limit: int) -> Sequence[Found]:
        url = self.url.replace("{query}", quote(query, safe="")).replace("{count}", str(limit))
        headers = {"Accept": "application/json", **self._credentials()}
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with (
                session_for(parse_url(url), ANY) as session,
                session.get(url, headers=headers, allow_redirects=False, timeout=timeout) as response,
            ):
                if response.status != 200:
                    raise WebError(f"the search service answered {response.status}")
                answer = await _at_most(response.content, MAX_ANSWER_BYTES)
            return found_in(json.loads(answer))[:limit]
        except (Unreached, TimeoutError, aiohttp.ClientError, OSError) as e:
            raise WebError("the search service does not answer; try again later") from e
        except (ValueError, RecursionError) as e:
            raise WebError("the search service answered with something that is no JSON") from e

    def _credentials(self) -> dict[str, str]:
        if not self.key:
            return {}
        return {self.key_header: f"Bearer {self.key}" if self.key_header == "Authorization" else self.key}


def found_in(answer: object) -> list[Found]:
    """The results in an answer: the first list in it, wherever it is, of things with a URL."""
    level: list[object] = [answer]
    for _ in range(MAX_DEPTH):
        for value in level:
            if results := _results(value):
                return results
        level = [inner for value in level for inner in _inside(value)]
    return []


def _results(value: object) -> list[Found]:
    if not isinstance(value, list):
        return []
    items = [cast(dict[str, Any], item) for item in cast(list[object], value) if isinstance(item, dict)]
    return [Found(_first(item, TITLES), url, _first(item, TEXTS)) for item in items if (url := _first(item, URLS))]


def _inside(value: object) -> list[object]:
    return [*cast(Mapping[str, object], value).values()] if isinstance(value, dict) else []


def _first(item: Mapping[str, Any], names: Sequence[str]) -> str:
    """The first of these that is a text, on one line."""
    said = next((value for name in names if isinstance(value := item.get(name), str) and value.strip()), "")
    return " ".join(said.split())


async def _at_most(stream: aiohttp.StreamReader, limit_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in stream.iter_any():
        body += chunk
        if len(body) > limit_bytes:
            raise WebError("the search service answered with too much; ask for fewer results")
    return bytes(body)
