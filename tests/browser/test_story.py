"""The console's story on one real fleet: workers, sandboxes, a loopback model, and people of each role in a browser.

What the model says is in story.yaml. What pages show is asked of the fleet, too, where it matters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Page, expect
from shell import User, containers, git
from visiting import Real, Visits, served

from orchestrator.api.tokens import Role

pytestmark = [pytest.mark.docker, pytest.mark.acceptance]

SCRIPT = Path(__file__).with_name("story.yaml")
SLOW_MS = 100_000  # for what a fleet does, on a machine that is five times slower
PEOPLE = {
    "viewer": (Role.VIEWER, "default"),
    "submitter": (Role.SUBMITTER, "default"),
    "approver": (Role.APPROVER, "default"),
    "admin": (Role.ADMIN, "default"),
    "operator": (Role.ADMIN, "*"),
    "miner": (Role.SUBMITTER, "mine"),
    "foreman": (Role.ADMIN, "mine"),
}
FILES = {
    "app.py": "def chunked(items, size):\n    return [items[at : at + size] for at in range(0, len(items), size)]\n",
    "src/a.py": "old = 1\n",
    "src/b.py": "old = 2\n",
    "tests/test_app.py": "from app import chunked\ndef test_it():\n    assert chunked([1, 2], 1) == [[1], [2]]\n",
    "NEWS.txt": "1.0: chunked\n",
}
GATE = "python -m pytest -q"
BATCH = """
name = "modernise"
[[repositories]]
path = "app"
[shards]
glob = "src/*.py"
[[steps]]
agent = "build"
prompt = "Modernise {path}."
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Visits], Real]]:
    """The fleet of this module, with a token for each of `PEOPLE`, and a repository beside it."""
    user = User(tmp_path_factory.mktemp("story"))
    for path, text in FILES.items():
        (user.home / "app" / path).parent.mkdir(parents=True, exist_ok=True)
        (user.home / "app" / path).write_text(text)
    (user.home / "batch.toml").write_text(BATCH)
    app = user.home / "app"
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*identity, "commit", "-q", "-m", "first"]):
        git(app, *words)
    git(app, "bundle", "create", "-q", str(user.home / "app.bundle"), "HEAD")
    with served(user, SCRIPT) as url:
        made = {
            name: user.muster("token", "create", name, "--role", role, "--tenant", tenant)
            for name, (role, tenant) in PEOPLE.items()
        }
        secrets = {name: done.stdout.strip() for name, done in made.items()}
        yield partial(Real, user, url, secrets)
    assert containers(user) == []


@pytest.fixture
def fleet(place: Callable[[Visits], Real], visits: Visits) -> Real:
    return place(visits)


async def begin(fleet: Real, goal: str, *, who: str = "submitter", **fields: str) -> Page:
    """A goal, by the form; the page of its trace. `fields`: more of the form, by their names; `agent`, `bundle`."""
    page = await fleet.visit("/start", who=who)
    await page.get_by_label("What should be done?").fill(goal)
    if agent := fields.pop("agent", ""):
        await page.locator(f"[name=agent][value={agent}]").check()
    if bundle := fields.pop("bundle", ""):
        await page.get_by_label("Or a git bundle").set_input_files(bundle)
    for name, text in fields.items():
        await page.locator(f"[name={name}]").fill(text)
    await page.get_by_role("button", name="See what it would cost").click()
    await page.get_by_role("button", name="Start").click()
    await page.wait_for_url(re.compile("/console/traces/[0-9a-f]{32}$"))
    return page


def trace_of(page: Page) -> str:
    return page.url.rpartition("/")[2]


async def told(fleet: Real, path: str, *, who: str = "admin") -> Any:
    """What the API says."""
    headers = {"Authorization": f"Bearer {fleet.secrets[who]}"}
    async with aiohttp.ClientSession() as client, client.get(f"{fleet.url}/v1{path}", headers=headers) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def let_go(fleet: Real, word: str) -> None:
    """What the model holds until this."""
    root = fleet.user.environment["MUSTER_MODEL_BASE_URL"].removesuffix("/v1")
    async with aiohttp.ClientSession() as client, client.post(f"{root}/go/{word}") as response:
        assert response.status == 200


async def test_a_plan_is_asked_about_sent_back_approved_and_built(fleet: Real):
    answering = await fleet.visit("/asks", who="approver")
    bundle = str(fleet.user.home / "app.bundle")
    page = await begin(fleet, "Make chunked refuse a size below 1.", agent="plan", bundle=bundle, gate=GATE)
    for title in ("Find the callers", "Find the tests", "Find the neighbours"):
        await expect(page.locator("#tree .row.running .name", has_text=title)).to_be_visible(timeout=SLOW_MS)
    seeing = await fleet.visit("/", who="viewer")
    await expect(seeing.get_by_role("row").filter(has_text="Make chunked refuse")).to_be_visible()
    await let_go(fleet, "the explores were seen")

    # the edit that it tried was denied, and nobody was asked
    plan = page.locator("#plan")
    await expect(answering.locator("#cards article")).to_have_count(1, timeout=SLOW_MS)
    await expect(answering.locator("#cards")).to_contain_text("Which error should a size below 1 raise?")
    await expect(plan).to_contain_text("Mend chunked")
    await answering.get_by_role("link", name="Answer").click()
    await answering.get_by_label("ValueError").check()
    await answering.get_by_role("button", name="Answer").click()
    await expect(plan).to_contain_text("Raise ValueError", timeout=SLOW_MS)

    await answering.get_by_role("link", name="Back to the asks").click()
    card = answering.locator("#cards article")
    await expect(card).to_contain_text("May this plan be carried out?", timeout=SLOW_MS)
    await expect(card).to_contain_text("1. Raise ValueError.")
    await expect(card).to_contain_text("version 2")
    await card.get_by_role("link", name="Reject with a message").click()
    await answering.get_by_label("Reject, and say why").fill("tell the news, too")
    await answering.get_by_role("button", name="Reject").click()
    await answering.get_by_role("link", name="Back to the asks").click()
    await expect(card).to_contain_text("version 3", timeout=SLOW_MS)
    await expect(card.get_by_role("listitem")).to_have_text(
        [re.compile("Raise ValueError"), re.compile("Tell the news")]
    )
    await expect(plan).to_contain_text("Tell the news")
    await card.get_by_role("button", name="Carry it out").click()
    await expect(answering.get_by_role("heading", name="Answered")).to_be_visible()

    await expect(page.locator("#trace-head")).to_contain_text("8 completed", timeout=SLOW_MS)
    await expect(page.locator("#trace-head")).to_contain_text("done and verified")
    await expect(page.locator("#trace-head")).to_contain_text("gate after: passed, 1 test")
    await expect(plan).to_contain_text("2 of 2")
    opened = {event["permission"] for event in await events_of(fleet, trace_of(page)) if event["kind"] == "ask_opened"}
    assert opened == {"question", "plan_exit"}
    await page.locator("#tree").get_by_role("link", name="build").click()
    await expect(page.get_by_role("heading", name="What it leaves")).to_be_visible()
    await page.get_by_role("link", name="2 files, +3 −0").click()
    await expect(page.get_by_text("raise ValueError(size)")).to_be_visible()
    await expect(page.get_by_text("chunked refuses a size below 1.")).to_be_visible()


async def events_of(fleet: Real, trace_id: str) -> list[dict[str, Any]]:
    """Of a trace that has ended."""
    root = (await told(fleet, f"/tasks?trace={trace_id}"))[0]["task_id"]
    watched = await fleet.muster("task", "watch", root, "--json")
    messages = map(json.loads, watched.stdout.splitlines())
    return [event for message in messages for event in message.get("events", ())]


async def test_a_tree_is_cancelled_by_a_button(fleet: Real):
    page = await begin(fleet, "Watch the wind.")
    for title in ("Watch the north", "Watch the south"):
        await expect(page.locator("#tree .row.running .name", has_text=title)).to_be_visible(timeout=SLOW_MS)
    await page.get_by_text("Do something").click()
    await page.get_by_label("Stop it").fill("the wind has gone")
    await page.get_by_role("button", name="Cancel").click()

    await expect(page.locator("#trace-head")).to_contain_text("4 cancelled", timeout=SLOW_MS)
    tasks = await told(fleet, f"/tasks?trace={trace_of(page)}")
    assert {(task["agent"], task["state"]) for task in tasks} == {
        ("run", "cancelled"), ("build", "cancelled"), ("explore", "cancelled"),
    }  # fmt: skip
    assert all("the wind has gone" in task["cancel_reason"] for task in tasks if task["agent"] == "run")


async def test_who_waits_for_money_goes_on_when_a_cap_is_raised(fleet: Real):
    page = await begin(fleet, "Look for gold in the river.", budget="0.50")
    await expect(page.locator("#trace-head")).to_contain_text("waits for money", timeout=SLOW_MS)
    raising = await fleet.visit("/asks", who="approver")
    await raising.get_by_role("link", name="Raise the budget").click(timeout=SLOW_MS)
    await expect(raising.get_by_text("$0.4995 spent of $0.5000")).to_be_visible()
    await raising.get_by_label("What all of it may cost").fill("2")
    await raising.get_by_role("button", name="Raise").click()

    await expect(page.locator("#trace-head")).to_contain_text("2 completed", timeout=SLOW_MS)
    await expect(raising.get_by_text("Nobody is asked anything.")).to_be_visible()


async def test_a_tenants_cap_is_raised_by_who_sees_all_tenants(fleet: Real):
    await fleet.muster("budget", "cap", "mine", "--to", "0.50")
    page = await begin(fleet, "Look for gold in the hills.", who="miner")
    own, raising = [await fleet.visit("/asks", who=who) for who in ("foreman", "operator")]
    await expect(own.get_by_text("A tenant's cap is raised by who sees all tenants.")).to_be_visible(timeout=SLOW_MS)
    assert await own.get_by_role("link", name="Raise the tenant's cap").count() == 0
    await raising.get_by_role("link", name="Raise the tenant's cap").click()
    await expect(raising.get_by_text("All traces of the tenant mine together")).to_be_visible()
    await raising.get_by_label("What all of it may cost").fill("a lot")
    await raising.get_by_role("button", name="Raise").click()
    await expect(raising.get_by_role("heading", name="a lot")).to_be_visible()
    await raising.go_back()
    await raising.get_by_label("What all of it may cost").fill("2")
    await raising.get_by_role("button", name="Raise").click()

    await expect(page.locator("#trace-head")).to_contain_text("2 completed", timeout=SLOW_MS)
    assert (await told(fleet, "/tenants/mine/budget", who="foreman"))["cap_microusd"] == 2_000_000


async def test_a_shard_that_failed_is_retried_in_bulk_and_lands(fleet: Real):
    await fleet.muster("batch", "run", "batch.toml", "--no-publish", ends=8)
    page = await fleet.visit("/batches", who="submitter")
    await page.get_by_role("link", name="modernise").click()
    await expect(page.get_by_text("1 × out_of_scope")).to_be_visible()
    await page.get_by_role("link", name="Batches").click()
    await page.get_by_label("Choose modernise").check()
    await page.get_by_role("button", name="Retry the chosen").click()
    done = page.get_by_role("row").filter(has_text="modernise")
    await expect(done).to_contain_text("does again what failed")
    await done.get_by_role("link").last.click()

    await page.get_by_role("link", name="See its report").click(timeout=SLOW_MS)
    await expect(page.locator("#batch-head")).to_contain_text("2 merged")
    await expect(page.locator("#column-merged")).to_contain_text("src/a.py")
    await expect(page.locator("#column-merged")).to_contain_text("src/b.py")


# By role: may start and stop work; may answer and raise; may see to dead letters.
ROLES = {
    "viewer": (False, False, False),
    "submitter": (True, False, False),
    "approver": (False, True, False),
    "admin": (True, True, True),
}


async def test_each_role_sees_its_own_buttons_and_the_first_answer_counts(fleet: Real):
    trace = trace_of(await begin(fleet, "Ask before you begin.", bundle=str(fleet.user.home / "app.bundle")))
    pages: dict[str, Page] = {}
    for who, (starts, answers, operates) in ROLES.items():
        pages[who] = page = await fleet.visit("/asks", who=who)
        await expect(page.get_by_text("eval echo one >> notes.txt").first).to_be_visible(timeout=SLOW_MS)
        assert await page.get_by_role("button", name="Once").count() == answers
        assert await page.get_by_role("navigation").get_by_role("link", name="Start").count() == starts
        seen = {path: await page.goto(f"{fleet.url}/console{path}") for path in ("/start", "/dead-letters")}
        assert {path: response.status for path, response in seen.items() if response} == {
            "/start": 200 if starts else 403,
            "/dead-letters": 200 if operates else 403,
        }
        await page.goto(f"{fleet.url}/console/traces/{trace}")
        assert await page.locator("button", has_text="Cancel").count() == starts
        assert await page.locator("button", has_text="Raise the budget").count() == answers
        await page.goto(f"{fleet.url}/console/asks")

    first, second = pages["approver"], pages["admin"]
    await second.get_by_role("link", name="Reject with a message").click()
    await first.get_by_role("button", name="Once").click()
    await expect(first.get_by_role("heading", name="Answered")).to_be_visible()
    await expect(second.get_by_text("Somebody has answered this")).to_be_visible()
    await second.get_by_role("button", name="Reject").click()
    await expect(second.get_by_text("approver has answered this")).to_be_visible()
    await pages["viewer"].goto(f"{fleet.url}/console/traces/{trace}")
    head = pages["viewer"].locator("#trace-head")
    await expect(head).to_contain_text("2 completed", timeout=SLOW_MS)
    await expect(head).to_contain_text("done, not verified")


SEA = " ".join(f"wave {number}" for number in range(1, 31))


async def test_a_reload_in_the_middle_of_a_stream_loses_nothing(fleet: Real):
    page = await begin(fleet, "Tell me of the sea.")
    await page.locator("#tree").get_by_role("link", name="build").click(timeout=SLOW_MS)
    said = page.locator("#blocks .said.text")
    await expect(said).to_contain_text("wave 1", timeout=SLOW_MS)
    await page.reload(wait_until="commit")
    await let_go(fleet, "the page was loaded again")

    await expect(said).to_have_text(SEA, timeout=SLOW_MS)
    await expect(page.locator("#task-head")).to_contain_text("completed", timeout=SLOW_MS)
    await expect(said).to_have_text(SEA)
