"""`webfetch` through the dispatcher, with pages of a real server on loopback."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from workers.llm.base import ToolCall
from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS, parse_rules
from workers.tools.base import ToolContext, ToolResult
from workers.tools.dispatch import run_calls
from workers.tools.webfetch import OF_ONE_TENANT, WebFetch

OPEN = Guard(("*:*",), DEFAULTS)


class OnlyPort:
    def __init__(self, port: int) -> None:
        self.port = port

    def allows(self, address: str, port: int) -> bool:
        return (address, port) == ("127.0.0.1", self.port)


PAGES = {
    "/docs/a": lambda: web.Response(text="<h1>Title</h1><a href=b>B</a>", content_type="text/html"),
    "/secret": lambda: web.Response(text="secret"),
    "/long": lambda: web.Response(text="".join(f"line {n}\n" for n in range(3000))),
    "/image": lambda: web.Response(body=b"\x89PNG", content_type="image/png"),
    "/empty": lambda: web.Response(text=""),
    "/out": lambda: web.Response(status=302, headers={"Location": "/secret"}),
    "/in": lambda: web.Response(status=302, headers={"Location": "/docs/a"}),
}


@pytest.fixture
async def root(serve_pages) -> str:
    async def answer(request: web.Request) -> web.Response:
        return PAGES[request.path]()

    return f"http://127.0.0.1:{await serve_pages(answer)}"


async def no_sandbox():
    raise AssertionError("a short page needs no sandbox")


def here(root: str, guard: Guard = OPEN) -> WebFetch:
    return WebFetch(guard.check, OnlyPort(int(root.rpartition(":")[2])))


async def run(tool: WebFetch, context: ToolContext | None = None, *, guard: Guard = OPEN, **arguments) -> ToolResult:
    context = context or ToolContext(no_sandbox, None, {})  # pyright: ignore[reportArgumentType] - no subagents here
    call = ToolCall(id="c1", name="webfetch", arguments="{}", input=arguments)
    (result,) = await run_calls([call], {"webfetch": tool}, context, guard, lambda _: None)
    assert isinstance(result, ToolResult)
    return result


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ({}, "# Title\n\n[B]({root}/docs/b)"),
        ({"format": "markdown"}, "# Title\n\n[B]({root}/docs/b)"),
        ({"format": "text"}, "Title\n\nB"),
        ({"format": "html", "timeout": 999}, "<h1>Title</h1><a href=b>B</a>"),
    ],
)
async def test_a_page_is_read_in_the_format(root, wanted, shown):
    result = await run(here(root), url=f"{root}/docs/a#part", **wanted)

    assert result.content == f"<url>{root}/docs/a</url>\n{shown.format(root=root)}"
    assert not result.is_error and result.title == f"{root}/docs/a#part"


async def test_an_image_is_a_note_and_an_empty_page_says_so(root):
    assert "is an image: image/png, 4 bytes" in (await run(here(root), url=f"{root}/image")).content
    assert "(an empty page)" in (await run(here(root), url=f"{root}/empty")).content


@pytest.mark.docker
async def test_of_a_long_page_the_rest_is_in_a_file(root, context):
    result = await run(here(root), context, url=f"{root}/long")

    kept = await (await context.sandbox()).read("/tmp/tool-output/c1.txt")
    assert "line 1999\n" in result.content and "line 2001" not in result.content
    assert "/tmp/tool-output/c1.txt" in result.content and kept.endswith(b"line 2999\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"url": "example.com"}, "write it in full"),
        ({"url": "http://169.254.169.254/latest/meta-data/"}, "only public addresses"),
        ({"url": "http://localhost:1/"}, "only public addresses"),
        ({"url": "file:///etc/passwd"}, "http or https"),
        ({"url": "https://h/", "format": "pdf"}, "format"),
        ({"url": "https://h/", "timeout": 0}, "timeout"),
        ({}, "url"),
    ],
)
async def test_what_cannot_be_fetched_is_an_error_for_the_model(arguments, said):
    result = await run(WebFetch(OPEN.check), **arguments)

    assert result.is_error and said in result.content


@pytest.mark.parametrize(
    "url", ["{root}/secret", "{root}/docs/../secret", "{root}/docs/%2e%2e/secret", "{root}/in", "{root}/out"]
)
async def test_only_what_the_scope_grants_is_fetched(root, url):
    guard = Guard((f"webfetch:{root}/docs/*",), DEFAULTS)

    assert not (await run(here(root, guard), guard=guard, url=f"{root}/docs/a")).is_error
    result = await run(here(root, guard), guard=guard, url=url.format(root=root))
    assert result.is_error and "outside this task's scope" in result.content


async def test_a_redirect_goes_no_further_than_the_rules(root):
    guard = Guard(("*:*",), DEFAULTS + parse_rules({"webfetch": {"*/secret": "deny"}}))

    followed = await run(here(root, guard), guard=guard, url=f"{root}/in")
    refused = await run(here(root, guard), guard=guard, url=f"{root}/out")

    assert followed.content.startswith(f"<url>{root}/docs/a</url>\n# Title")
    assert refused.is_error and "redirects" in refused.content and "denied by the rule" in refused.content


@pytest.mark.parametrize("tenant", ["a", "b"], ids=["another task", "another tenant"])
async def test_the_many_pages_of_one_task_leave_turns_to_others(serve_pages, tenant):
    asked, silent = asyncio.Queue[str](), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        asked.put_nowait(request.path)
        if request.path == "/slow":
            await silent.wait()
        return web.Response(text="done")

    root = f"http://127.0.0.1:{await serve_pages(answer)}"
    greedy, other = (ToolContext(no_sandbox, None, {}, tenant=name) for name in ("a", tenant))  # pyright: ignore[reportArgumentType]
    many = [asyncio.create_task(run(here(root), greedy, url=f"{root}/slow")) for _ in range(4 * OF_ONE_TENANT)]
    async with asyncio.timeout(30):
        for _ in range(OF_ONE_TENANT // 2):
            assert await asked.get() == "/slow"

        assert "done" in (await run(here(root), other, url=f"{root}/quick")).content
        assert await asked.get() == "/quick" and asked.empty()
        silent.set()
        assert all("done" in each.content for each in await asyncio.gather(*many))
