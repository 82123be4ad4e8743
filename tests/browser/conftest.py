"""A real browser before the console of a fleet whose workers are played by hand; test_story.py has a whole one.

All run in the session's event loop, for the one browser lives in it; each has a context, and so cookies, of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, ViewportSize, async_playwright, expect
from visiting import Visits

from transport.limits import Limits

TESTS = Path(__file__).parent.parent
AXE = TESTS.parent / ".node" / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = TESTS.parent / "docs" / "pictures" / "console"
CHROMIUM = "/usr/bin/chromium"
# What sticks out of the window, where that makes the whole page go sideways.
TOO_WIDE = """() => {
  const sticksOut = (each) => each.checkVisibility() && each.getBoundingClientRect().right > innerWidth;
  if (document.documentElement.scrollWidth <= innerWidth) return [];
  return [...document.querySelectorAll("main *")].filter(sticksOut).map((each) => each.outerHTML.slice(0, 100));
}"""
DESK, PHONE = ViewportSize(width=1000, height=700), ViewportSize(width=390, height=844)
Picture = Callable[..., Awaitable[None]]


def _fixtures_of(place: str) -> Any:
    """The conftest of another folder, whose fixtures hold for that folder only."""
    name = place.replace("/", "_") + "_conftest"
    spec = importlib.util.spec_from_file_location(name, TESTS / place / "conftest.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


expect.set_options(timeout=20_000)  # on a machine that is five times slower

_orchestrator, _console = _fixtures_of("orchestrator"), _fixtures_of("orchestrator/console")
_publication = _fixtures_of("orchestrator/publication")
conductor_redis, keep_settings = _orchestrator.conductor_redis, _orchestrator.keep_settings
says = _publication.says


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.redis)
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture
def make_console(conductor_redis, keep_settings, tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Any]]:
    """`async with make_console(limits=…, forges=…) as console:`; what else is said is of its server's settings."""

    @asynccontextmanager
    async def make(*, limits: Limits = Limits(lease_ms=1_000), **settings: Any) -> AsyncIterator[Any]:
        said = keep_settings.model_copy(update=settings)
        async with (
            _orchestrator.stage_on(conductor_redis, said, tmp_path, limits) as stage,
            _console.served_console(stage, tmp_path) as made,
        ):
            yield made

    return make


@pytest_asyncio.fixture(loop_scope="session")
async def console(make_console) -> AsyncIterator[Any]:
    async with make_console() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """Somebody with a repository at a forge on loopback, like GitHub."""
    monkeypatch.setenv("HUB_TOKEN", _publication.TOKEN)
    async with _publication.desks(tmp_path) as make:
        yield await make("github")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    # as root, which CI and containers are, chromium's own sandbox does not start
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as play:
        launched = await play.chromium.launch(executable_path=CHROMIUM, args=options)
        yield launched
        await launched.close()


@pytest_asyncio.fixture(loop_scope="session")
async def visits(browser: Browser) -> AsyncIterator[Visits]:
    made = Visits(browser, [], [])
    yield made
    for context in made.contexts:
        await context.close()
    assert made.faults == []


Visit = Callable[..., Awaitable[Page]]


@pytest.fixture
def visit(console, visits: Visits) -> Visit:
    """`await visit("/traces", who="approver", color_scheme="dark")`: a page of a person who is signed in."""

    async def open_as(path: str, *, who: str = "viewer", **options: Any) -> Page:
        cookies = [
            {"name": each.key, "value": each.value, "url": f"{console.url}/console"}
            for each in console.people[who].cookie_jar
        ]
        return await visits.open(console.url, cookies, f"/console{path}", **options)

    return open_as


@pytest.fixture
def axe() -> Callable[[Page], Awaitable[list[str]]]:
    """What keeps people from using the page: each broken rule of axe-core, with what breaks it."""

    async def check(page: Page) -> list[str]:
        await page.evaluate(AXE.read_text())
        found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {json.dumps([node['html'][:200] for node in one['nodes'][:5]])}"
            for one in found["violations"]
        ]

    return check


@pytest.fixture
def picture() -> Picture:
    """`await picture(page, "fleet-dark")`: kept for the documentation, when WRITE_PICTURES=1 asks for it."""

    async def take(page: Page, name: str, size: ViewportSize = DESK) -> None:
        if os.environ.get("WRITE_PICTURES") == "1":
            PICTURES.mkdir(parents=True, exist_ok=True)
            await page.set_viewport_size(size)
            await page.evaluate("scrollTo(0, 0)")
            await page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")

    return take


@pytest.fixture
def on_a_phone(picture: Picture) -> Callable[..., Awaitable[None]]:
    """`await on_a_phone(page, "trace-phone")`: nothing is wider than a phone is; with a name it is a picture, too."""

    async def look(page: Page, name: str = "") -> None:
        before = page.viewport_size
        await page.set_viewport_size(PHONE)
        assert await page.evaluate(TOO_WIDE) == [], page.url
        if name:
            await picture(page, name, PHONE)
        if before:
            await page.set_viewport_size(before)

    return look
