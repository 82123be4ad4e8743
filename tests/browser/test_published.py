"""The requests of batches in a browser: said on and closed at a forge on loopback, of many batches at once."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from playwright.async_api import Page, expect

from orchestrator.batch.file import parse_batch
from orchestrator.batch.request import batch_request
from orchestrator.submit import RepositoryInput

BATCH = """
name = "{name}"
[[repositories]]
path = "."
[shards]
glob = "src/*.py"
[[steps]]
recipe = ["fix {{path}}"]
[gate]
commands = ["run-tests"]
[publish]
branch = "muster/{name}"
to = "request"
unverified = true
"""


@pytest_asyncio.fixture(loop_scope="session")
async def console(make_console, desk) -> AsyncIterator[Any]:
    """Of a server that may use the desk's forge, where there is something to modernise."""
    (desk.user / "src").mkdir()
    (desk.user / "src" / "a.py").write_text("old\nassert\n")
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (["add", "-A"], ["commit", "-q", "-m", "base"], ["push", "-q", str(desk.hub.bare), "HEAD:main"]):
        subprocess.run(["git", *identity, "-C", str(desk.user), *words], check=True)
    async with make_console(forges={"hub": desk.hub.settings(tenants=("default",))}) as made:
        yield made


async def batch(console: Any, desk: Any, name: str) -> str:
    """A batch over the forge's repository that has ended; its id."""
    stage = console.stage
    where = await stage.muster.pack(desk.user)
    given = RepositoryInput(name="app", bundle=where.bundle, base=where.base, url=desk.hub.remote)
    request = batch_request(parse_batch(BATCH.format(name=name)), [given], settings=stage.muster.settings)
    return (await stage.run(request)).task_id


async def chosen(page: Page, *names: str) -> None:
    for name in names:
        await page.get_by_label(f"Choose {name}").check()


async def test_requests_of_many_batches_are_said_on_and_closed_and_the_page_says_what_became_of_each(
    console, desk, visit, axe
):
    published = await batch(console, desk, "modernise")
    await batch(console, desk, "tidy")
    page = await visit(f"/batches/{published}", who="approver")

    await page.get_by_role("link", name="Publish").click()
    await expect(page.get_by_role("row", name=f"app muster/modernise {desk.hub.remote} verified")).to_be_visible()
    assert await axe(page) == []
    assert desk.hub.reviews == []
    await page.get_by_role("button", name="Publish").click()
    await expect(page.get_by_role("row").filter(has_text="app")).to_contain_text("/team/app/1")
    await page.goto(f"{console.url}/console/batches")
    await chosen(page, "modernise", "tidy")
    await page.get_by_label("A comment for the open requests").fill("Please look <b>today</b>.")
    await page.get_by_role("button", name="Comment").click()
    became = page.get_by_role("row")
    await expect(became.filter(has_text="modernise")).to_contain_text("said on 1 request")
    await expect(became.filter(has_text="tidy")).to_contain_text("it has no open request")
    assert await axe(page) == []
    await page.get_by_role("link", name="Back to the batches").click()
    await chosen(page, "modernise")
    await page.get_by_label("A comment for the open requests").fill("Please look <b>today</b>.")
    await page.get_by_role("button", name="Comment").click()
    await expect(became.filter(has_text="modernise")).to_contain_text("this was said there before")
    [review] = desk.hub.reviews
    assert len(review.comments) == 1 and "Please look <b>today</b>." in review.comments[0]

    await page.get_by_role("link", name="modernise").click()
    await expect(became.filter(has_text="draft")).to_contain_text("/team/app/1")
    await page.get_by_label("Say this on its open requests").fill("And this.")
    await page.get_by_role("button", name="Comment").click()
    await expect(became.filter(has_text="modernise")).to_contain_text("said on 1 request")
    await page.get_by_role("link", name="Back to the batches").click()
    await chosen(page, "modernise", "tidy")
    await page.get_by_role("button", name="Close their requests").click()
    await expect(became.filter(has_text="modernise")).to_contain_text("1 request closed")
    await expect(became.filter(has_text="tidy")).to_contain_text("it has no open request")
    assert (review.state, len(review.comments)) == ("closed", 2)
    await page.get_by_role("link", name="modernise").click()
    await expect(became.filter(has_text="closed")).to_contain_text("/team/app/1")


async def test_what_a_forge_says_no_to_is_said_and_who_may_not_publish_has_no_button(console, desk, visit, says):
    published = await batch(console, desk, "modernise")
    await console.stage.muster.publications.publish(published)
    page, other = await visit("/batches", who="approver"), await visit("/batches", who="submitter")
    desk.hub.faults.extend([None, says(403)])  # the first looks at the request, the second closes it

    await chosen(page, "modernise")
    await page.get_by_role("button", name="Close their requests").click()

    told = page.get_by_role("row").filter(has_text="modernise")
    await expect(told).to_contain_text("no")
    assert [review.state for review in desk.hub.reviews] == ["open"]
    for path in ("/batches", f"/batches/{published}"):
        await other.goto(f"{console.url}/console{path}")
        await expect(other.get_by_text("modernise").first).to_be_visible()
        assert await other.get_by_role("button", name=re.compile("Comment|Close")).count() == 0
