"""What people do in the console, in a browser: answer, start, raise a budget, retry; with and without a pointer."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import expect

from envelope.agents import AgentCard, ModelPrice, WorkerCard
from envelope.asks import Option, Question, read_reply
from envelope.events import AskOpened

PUSH = AskOpened(
    ask_id="ask_push",
    permission="bash",
    patterns=("git push origin main",),
    detail="git push origin main\n<img src=x onerror=alert(1)> \u202etxt.exe",
    always=("bash:git push*",),
)
COLOUR = AskOpened(
    ask_id="ask_colour",
    permission="question",
    question="Which colour?",
    questions=(
        Question(question="Which colour?", header="Colour", options=(Option(label="Red"), Option(label="Blue"))),
    ),
)
PLAN = AskOpened(
    ask_id="ask_plan",
    permission="plan_exit",
    question="May it?",
    detail="# Overview\n1. Look at the tests.\n2. Mend them.",
    questions=(Question(question="May it?", options=(Option(label="yes"), Option(label="no"))),),
)


async def asking(console: Any, ask: AskOpened) -> str:
    """A task that waits for an answer; its id."""
    return await (await console.work("mend the tests")).ask(ask)


async def test_two_people_answer_one_ask_and_the_second_is_told_who_did(console, visit):
    first, second, third = [await visit("/asks", who=who) for who in ("approver", "admin", "viewer")]
    await expect(first.get_by_text("Nobody is asked anything.")).to_be_visible()
    task_id = await asking(console, PUSH)  # it comes by itself

    await expect(first.get_by_text("<img src=x onerror=alert(1)> \ufffdtxt.exe")).to_be_visible()
    await expect(third.locator("#card-ask_push")).to_be_visible()
    assert await third.get_by_role("button", name="Once").count() == 0
    await second.locator("#card-ask_push").get_by_role("link", name="Reject with a message").click()
    await second.get_by_label("Reject, and say why").fill("not on a Friday")
    await first.get_by_role("button", name="Always").focus()
    await first.keyboard.press("Enter")
    await expect(first.get_by_role("heading", name="Answered")).to_be_visible()

    await expect(third.locator("#card-ask_push")).to_have_count(0)  # and it goes by itself
    await expect(second.get_by_text("Somebody has answered this")).to_be_visible()
    await second.get_by_role("button", name="Reject").click()
    await expect(second.get_by_role("heading", name="Somebody was first")).to_be_visible()
    await expect(second.get_by_text("approver has answered this")).to_be_visible()
    await second.get_by_role("link", name="Back to the asks").click()
    await expect(second.get_by_text("Nobody is asked anything.")).to_be_visible()
    answers = await console.stage.transport.answers(task_id)
    assert read_reply(answers["ask_push"].text).choice == "always"


async def test_a_goal_is_started_by_the_keyboard_and_its_question_answered(console, visit):
    explore = AgentCard(name="explore", mode="subagent", pool="explore", description="looks around")
    price = ModelPrice(input_microusd=1_000_000, output_microusd=5_000_000)
    card = WorkerCard(worker="w2", pool="explore", slots=1, agents=(explore,), model="house/model", price=price)
    await console.stage.transport.announce(card, ttl_s=600)
    page = await visit("/start", who="submitter")
    await page.get_by_label("What should be done?").press_sequentially("ask @ex")
    await expect(page.get_by_role("option", name="@explore")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("What should be done?")).to_have_value("ask @explore ")
    await page.get_by_label("Budget in dollars").fill("2.50")
    await page.get_by_role("button", name="See what it would cost").click()
    await expect(page.locator("#estimate")).to_contain_text("with house/model; at $2.50 it waits for somebody")
    await page.get_by_role("button", name="Start").dblclick(no_wait_after=True)
    await page.wait_for_url(re.compile("/console/traces/[0-9a-f]{32}$"))
    assert len(await console.stage.muster.tasks()) == 1

    task_id = await asking(console, COLOUR)
    answering = await visit("/asks", who="approver")
    await answering.get_by_role("link", name="Answer").click()
    await answering.get_by_label("Blue").check()
    await answering.get_by_role("button", name="Answer").click()
    await expect(answering.get_by_role("heading", name="Answered")).to_be_visible()
    answers = await console.stage.transport.answers(task_id)
    assert read_reply(answers["ask_colour"].text).answers == (("Blue",),)


BATCH = """
name = "modernise"
[[repositories]]
path = "."
[shards]
glob = "src/[ab].py"
also_edit = ["src/shared.py"]
[[steps]]
recipe = ["fix {path}"]
[gate]
commands = ["run-tests"]
"""


async def test_what_failed_in_a_batch_is_seen_and_retried(console, visit, axe, picture, on_a_phone):
    stage = console.stage

    def edit(task: Any, files: dict[str, str]) -> None:
        mine = task.input.params["commands"][0].removeprefix("fix ")
        files["src/shared.py"] = f"by {mine}\n"

    stage.builders.edit = edit
    files = {"src/a.py": "old\n", "src/b.py": "old\n", "src/shared.py": "old\n", "tests/t.py": "assert\n"}
    result = await stage.run(stage.batch_request(await stage.repository(files), text=BATCH))
    for scheme in ("light", "dark"):
        page = await visit("/batches", who="submitter", color_scheme=scheme)
        assert await axe(page) == []
        await page.get_by_role("link", name="modernise").click()
        await expect(page.get_by_role("heading", name="Merged in this order")).to_be_visible()
        assert await axe(page) == []
        await picture(page, f"batch-{scheme}")
        await on_a_phone(page, "batch-phone" if scheme == "light" else "")
    await page.get_by_role("link", name="with src/").click()
    await expect(page.get_by_text("+by src/a.py")).to_be_visible()
    await expect(page.get_by_text("+by src/b.py")).to_be_visible()
    await page.get_by_role("link", name="Back to modernise").click()
    await page.get_by_role("button", name="Retry what failed").click()
    await page.wait_for_url(lambda url: "/batches/" in url and result.task_id not in url)
    await expect(page.locator("#batch-head")).to_contain_text("pending")
    await page.get_by_role("button", name="Cancel it").click()
    await expect(page.locator("#batch-head")).to_contain_text("cancelled")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_asking_and_starting_are_usable_by_all(console, visit, axe, picture, on_a_phone, scheme):
    for ask in (PUSH, COLOUR, PLAN):
        await asking(console, ask)
    page = await visit("/asks", who="approver", color_scheme=scheme)
    await expect(page.get_by_text("3 asks wait for somebody.")).to_be_visible()
    assert await axe(page) == []
    await picture(page, f"asks-{scheme}")
    await on_a_phone(page)
    await page.locator("#card-ask_colour").get_by_role("link", name="Answer").click()
    await expect(page.get_by_role("button", name="Answer")).to_be_visible()
    assert await axe(page) == []
    await picture(page, f"ask-{scheme}")
    await on_a_phone(page, "ask-phone" if scheme == "light" else "")

    page = await visit("/start", who="submitter", color_scheme=scheme)
    assert await axe(page) == []
    await picture(page, f"start-{scheme}")
    await on_a_phone(page)
