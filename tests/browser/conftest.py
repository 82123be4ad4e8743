"""A real browser before the console: of a fleet whose workers are played by hand (`console`), or of a whole (`real`).

All run in the session's event loop, for the one browser lives in it; each has a context, and so cookies, of its own.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright
from scripted import scripted_model
from shell import BIN, User

TESTS = Path(__file__).parent.parent
AXE = TESTS.parent / ".node" / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = TESTS.parent / "docs" / "pictures" / "console"
CHROMIUM = "/usr/bin/chromium"


def _fixtures_of(place: str) -> Any:
    """The conftest of another folder, whose fixtures hold for that folder only."""
    name = place.replace("/", "_") + "_conftest"
    spec = importlib.util.spec_from_file_location(name, TESTS / place / "conftest.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


_orchestrator, _console = _fixtures_of("orchestrator"), _fixtures_of("orchestrator/console")
_acceptance = _fixtures_of("acceptance")
conductor_redis, keep_settings = _orchestrator.conductor_redis, _orchestrator.keep_settings
package, user = _acceptance.package, _acceptance.user


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.redis)
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(loop_scope="session")
async def console(conductor_redis, keep_settings, tmp_path: Path) -> AsyncIterator[Any]:
    async with (
        _orchestrator.stage_on(conductor_redis, keep_settings, tmp_path) as stage,
        _console.served_console(stage, tmp_path) as made,
    ):
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    # as root, which CI and containers are, chromium's own sandbox does not start
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as play:
        launched = await play.chromium.launch(executable_path=CHROMIUM, args=options)
        yield launched
        await launched.close()


@dataclass
class Visits:
    """Opens pages of the console for people who are signed in."""

    browser: Browser
    contexts: list[BrowserContext]
    faults: list[str]  # what the browser complained about: scripts that failed, what the policy has refused

    async def open(self, url: str, cookies: list[dict[str, Any]], path: str, **options: Any) -> Page:
        context = await self.browser.new_context(**options)
        self.contexts.append(context)
        await context.add_cookies(cookies)  # pyright: ignore[reportArgumentType]
        context.set_default_timeout(20_000)  # of a machine that is five times slower
        page = await context.new_page()
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on(
            "console", lambda said: self.faults.append(said.text) if "Content Security Policy" in said.text else None
        )
        await page.goto(f"{url}{path}")
        return page


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


@dataclass
class Real:
    """A fleet of processes, with sandboxes and a scripted model, and its console."""

    user: User
    url: str
    secret: str
    visits: Visits

    async def visit(self, path: str = "/", **options: Any) -> Page:
        """Signed in by hand, as an admin."""
        page = await self.visits.open(self.url, [], "/console/sign-in", **options)
        await page.get_by_label("Token").fill(self.secret)
        await page.get_by_role("button", name="Sign in").click()
        await page.goto(f"{self.url}/console{path}")
        return page

    async def muster(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = await asyncio.to_thread(self.user.muster, *words)
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture
def real(user: User, visits: Visits) -> Iterator[Callable[[Path], Awaitable[Real]]]:
    """`await real(script)`: the fleet of a user at a shell (tests/acceptance), served. Mark its tests `docker`."""
    with ExitStack() as stack:

        async def serve(script: Path) -> Real:
            user.environment = stack.enter_context(scripted_model(script))
            secret = (await asyncio.to_thread(user.muster, "token", "create", "me", "--role", "admin")).stdout.strip()
            server = subprocess.Popen(
                [BIN / "muster", "serve", "--port", "0"],
                env=user._env(),
                cwd=user.home,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(server.wait)
            stack.callback(server.terminate)
            return Real(user, await asyncio.to_thread(_address, server), secret, visits)

        yield serve
        user.muster("down", timeout_s=60)


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stderr
    for line in server.stderr:
        if found := re.search(r"listening on (http://\S+)", line):
            return found[1]
    raise AssertionError("the server has ended")


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
def picture() -> Callable[[Page, str], Awaitable[None]]:
    """`await picture(page, "fleet-dark")`: kept for the documentation, when WRITE_PICTURES=1 asks for it."""

    async def take(page: Page, name: str) -> None:
        if os.environ.get("WRITE_PICTURES") == "1":
            PICTURES.mkdir(parents=True, exist_ok=True)
            await page.set_viewport_size({"width": 1000, "height": 700})
            await page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")

    return take
