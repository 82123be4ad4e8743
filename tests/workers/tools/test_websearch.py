"""`websearch` over a provider that is a list."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from workers.llm.base import ToolCall
from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS
from workers.tools.base import ToolContext, ToolResult
from workers.tools.dispatch import run_calls
from workers.tools.websearch import SHOWN_CHARS, WebSearch
from workers.web.errors import WebError
from workers.web.searching import Found

FOUND = [Found(f"Title {n}", f"https://h/{n}", "words " * n * 100) for n in range(1, 30)]


class Listed:
    async def search(self, query: str, limit: int) -> Sequence[Found]:
        if query == "down":
            raise WebError("the search service does not answer")
        return [] if query == "nothing" else FOUND[:limit]


async def no_sandbox():
    raise AssertionError("a search needs no sandbox")


async def run(*scope: str, **arguments) -> ToolResult:
    context = ToolContext(no_sandbox, None, {})  # pyright: ignore[reportArgumentType] - no subagents here
    call = ToolCall(id="c1", name="websearch", arguments="{}", input=arguments)
    guard = Guard(scope or ("*:*",), DEFAULTS)
    (result,) = await run_calls([call], {"websearch": WebSearch(Listed())}, context, guard, lambda _: None)
    assert isinstance(result, ToolResult)
    return result


@pytest.mark.parametrize(("wanted", "shown"), [({}, 8), ({"numResults": 2}, 2), ({"numResults": 25}, 25)])
async def test_results_are_numbered_and_as_many_as_wanted(wanted, shown):
    content = (await run(query="x", **wanted)).content

    assert content.startswith("1. Title 1\nhttps://h/1\nwords words")
    assert content.count("https://h/") == shown


async def test_an_excerpt_is_cut():
    second = (await run(query="x")).content.split("\n\n")[1].split("\n")[2]

    assert len(second) == SHOWN_CHARS + 1 and second.endswith("…")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"query": "down"}, "does not answer"),
        ({"query": ""}, "query"),
        ({"query": "x", "numResults": 0}, "numResults"),
        ({"query": "x", "numResults": 26}, "numResults"),
        ({}, "query"),
    ],
)
async def test_a_search_that_fails_says_why(arguments, said):
    result = await run(**arguments)

    assert result.is_error and said in result.content


async def test_a_search_without_results_says_so():
    assert "Nothing found" in (await run(query="nothing")).content


async def test_a_query_is_judged_by_scope():
    assert not (await run("websearch:python *", query="python asyncio")).is_error
    assert (await run("websearch:python *", query="secrets")).is_error
