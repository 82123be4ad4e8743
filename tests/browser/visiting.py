"""People in a real browser, and a fleet of processes with its console, for the tests of this folder."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page
from scripted import scripted_model
from shell import BIN, User


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


@dataclass
class Real:
    """A fleet of processes, with sandboxes and a scripted model, and its console. `secrets`: tokens, by names."""

    user: User
    url: str
    secrets: Mapping[str, str]
    visits: Visits

    async def visit(self, path: str = "/", *, who: str = "admin", **options: Any) -> Page:
        """Signed in by hand, and sent on to the page."""
        page = await self.visits.open(self.url, [], f"/console/sign-in?to=/console{path}", **options)
        await page.get_by_label("Token").fill(self.secrets[who])
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url(f"{self.url}/console{path}")
        return page

    async def muster(self, *words: str, ends: int = 0) -> subprocess.CompletedProcess[str]:
        done = await asyncio.to_thread(self.user.muster, *words)
        assert done.returncode == ends, done.stderr
        return done


@dataclass
class Wire:
    """Between browsers and a server on loopback, until it is cut; then until it is mended."""

    to: int  # the server's port
    port: int = 0
    _listening: asyncio.Server | None = None
    _ends: set[asyncio.StreamWriter] = field(default_factory=set)

    async def mend(self) -> None:
        self._listening = await asyncio.start_server(self._join, "127.0.0.1", self.port)
        self.port = self._listening.sockets[0].getsockname()[1]

    def cut(self) -> None:
        assert self._listening
        self._listening.close()
        for end in self._ends:
            end.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.to)
        await asyncio.gather(self._carry(reader, back), self._carry(there, writer))

    async def _carry(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        self._ends.add(to)
        with suppress(ConnectionError):
            while data := await source.read(65536):
                to.write(data)
                await to.drain()
        to.close()
        self._ends.discard(to)


@contextmanager
def served(user: User, script: Path) -> Iterator[str]:
    """The address of the console of a user's fleet (tests/acceptance), whose model says what the script does."""
    with ExitStack() as stack:
        user.environment = stack.enter_context(scripted_model(script))
        stack.callback(user.muster, "down", timeout_s=60)
        server = subprocess.Popen(
            [BIN / "muster", "serve", "--port", "0"], env=user._env(), cwd=user.home, stderr=subprocess.PIPE, text=True
        )
        stack.callback(server.wait)
        stack.callback(server.terminate)
        yield _address(server)


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stderr
    for line in server.stderr:
        if found := re.search(r"listening on (http://\S+)", line):
            return found[1]
    raise AssertionError("the server has ended")
