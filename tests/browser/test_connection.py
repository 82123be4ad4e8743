"""A page whose connection goes: it comes back by itself, whatever was answered meanwhile, and misses nothing."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Route, expect

from envelope.events import TextDelta, TurnStarted

HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


async def talking(console):
    work = await console.work("talk on")
    await work.tell(TurnStarted(turn=1, model="m"), TextDelta(text="one "))
    return work


@pytest.mark.parametrize("status", [502, 503, 429])
async def test_a_page_outlives_a_server_that_is_away(console, visit, status: int):
    """A browser gives up for good on an answer that is no stream; a proxy gives such while its server starts anew."""
    work, away = await talking(console), asyncio.Event()

    async def refuse(route: Route) -> None:
        await route.fulfill(status=status, body="not now")
        away.set()

    page = await visit("/traces")
    await page.context.route("**/live*", refuse)
    await page.goto(f"{console.url}/console{work.task}")
    await away.wait()
    await expect(page.locator("#connection")).to_be_visible()
    await work.tell(TextDelta(text="two "))
    await page.context.unroute("**/live*")

    await expect(page.locator("#blocks .said.text")).to_have_text("one two ")
    await expect(page.locator("#connection")).to_be_hidden()


async def test_a_page_of_somebody_who_is_signed_out_does_not_ask_for_ever(console, visit):
    work = await talking(console)
    page = await visit("/traces")
    await console.tokens.revoke("viewer")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if work.task in request.url else None)
    await page.evaluate(f"follow('/console{work.task}/live')")

    await expect(page.locator("#connection")).to_contain_text("Not connected any more. Load the page again")
    async with asyncio.timeout(20):
        while len(asked) < 2:  # what a browser did is told a moment after what it shows
            await page.evaluate("0")
    assert len(asked) == 2  # as a stream, and then for the reason why it is none


async def test_a_tab_that_nobody_sees_leaves_its_connection_to_others(console, visit):
    """A browser has six connections to a server: with six tabs open the seventh would never load."""
    work, streams = await talking(console), console.app.state.streams.open
    page = await visit(work.task)
    said = page.locator("#blocks .said.text")
    await expect(said).to_have_text("one ")
    async with asyncio.timeout(20):
        while streams["console:viewer"] != 1:  # the page has its text before its stream
            await page.evaluate("0")

    await page.evaluate(HIDE, True)
    await work.tell(TextDelta(text="two "))
    async with asyncio.timeout(20):
        while streams["console:viewer"]:
            await work.tell(TextDelta(text="on "))  # its server hears of a gone reader when it writes
            await asyncio.sleep(0)
    await page.evaluate(HIDE, False)

    await expect(said).to_contain_text("one two ")
    await work.tell(TextDelta(text="three"))
    await expect(said).to_contain_text("three")


async def test_what_is_pressed_twice_is_sent_once(console, visit):
    work, sent = await talking(console), []
    page = await visit(work.task, who="submitter")
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    await page.get_by_text("Do something").click()
    await page.get_by_label("Say something to its agent").fill("hurry")
    await page.get_by_role("button", name="Say it").dblclick()

    await page.wait_for_load_state()
    await expect(page.locator("#blocks")).to_be_attached()
    assert len(sent) == 1
