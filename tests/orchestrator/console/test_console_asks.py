"""Asks as people meet them on pages: who sees and answers them, who was first, and what a task wrote stays text."""

from __future__ import annotations

import html

import pytest

from envelope.asks import Option, Question, read_reply
from envelope.budget import Budget
from envelope.events import AskOpened
from envelope.lifecycle import State
from orchestrator.api.tokens import ALL_TENANTS, Role
from transport.base import Wait
from transport.raising import ask_for_more

pytestmark = pytest.mark.redis

PUSH = AskOpened(
    ask_id="ask_push",
    permission="bash",
    patterns=("git push",),
    detail="git push <script>alert(1)</script> \x1b[2J\u202e",
    always=("bash:git push*",),
)
COLOUR = AskOpened(
    ask_id="ask_colour",
    permission="question",
    question="Which colour?",
    questions=(Question(question="Which colour?", options=(Option(label="Red"), Option(label="Blue"))),),
)


async def asking(console, ask: AskOpened) -> str:
    """A task that waits for an answer; its id."""
    return await (await console.work("<b>mend</b> it")).ask(ask)


async def answers_of(console, task_id: str) -> dict[str, str]:
    return {
        ask_id: read_reply(each.text).in_words()
        for ask_id, each in (await console.stage.transport.answers(task_id)).items()
    }


async def test_an_ask_shows_exactly_what_it_is_about_and_stays_text(console):
    await asking(console, PUSH)
    for path in ("/console/asks", "/console/asks/ask_push"):
        text = (await console.get(path)).text
        assert "git push &lt;script&gt;alert(1)&lt;/script&gt; \ufffd[2J\ufffd" in text
        assert "<script>alert" not in text and "<b>mend" not in text
        assert "git push</code>" in text and "waits since" in text


async def test_a_yes_to_what_a_page_showed_is_none_to_another_question(console):
    """The page's form carries a digest of what it showed."""
    task_id = await asking(console, PUSH)
    shown = f"/console/asks/ask_push/answer?asked={PUSH.digest()}"
    assert shown.removeprefix("/console") in (await console.get("/console/asks/ask_push", who="approver")).text

    changed = PUSH.model_copy(update={"detail": "git push --force"})
    other = await console.post(
        f"/console/asks/ask_push/answer?asked={changed.digest()}", {"choice": "once"}, who="approver"
    )
    assert other.status == 422 and "the question is another now" in other.text
    assert await answers_of(console, task_id) == {}

    assert (await console.post(shown, {"choice": "once"}, who="approver")).status == 303
    assert await answers_of(console, task_id) == {"ask_push": "once"}


async def test_what_is_older_than_a_thousand_roots_is_asked_and_shown(console):
    task_id = await asking(console, PUSH)
    await console.stage.crowd()

    inbox, one = await console.get("/console/asks"), await console.get("/console/asks/ask_push")
    given = await console.post("/console/asks/ask_push/answer", {"choice": "once"}, who="approver")

    assert "1 ask waits for somebody." in inbox.text and 'id="card-ask_push"' in inbox.text
    assert (one.status, given.status) == (200, 303)
    assert await answers_of(console, task_id) == {"ask_push": "once"}


async def test_who_sees_does_not_answer_and_who_answers_does_so_once(console):
    task_id = await asking(console, PUSH)
    seen = await console.get("/console/asks", who="viewer")
    refused = await console.post("/console/asks/ask_push/answer", {"choice": "once"}, who="viewer")
    other_tenant = await console.post("/console/asks/ask_push/answer", {"choice": "once"}, who="stranger")
    forged = await console.post("/console/asks/ask_push/answer", {"choice": "once"}, who="approver", csrf="0" * 64)
    assert "formaction" not in seen.text
    assert (refused.status, other_tenant.status, forged.status) == (403, 404, 403)
    assert await answers_of(console, task_id) == {}

    given = await console.post("/console/asks/ask_push/answer", {"choice": "always"}, who="approver")
    again = await console.post("/console/asks/ask_push/answer", {"choice": "always"}, who="approver")
    second = await console.post("/console/asks/ask_push/answer", {"choice": "reject"}, who="admin")
    told = await console.get(given.headers["Location"], who="viewer")

    assert (given.status, again.status, second.status) == (303, 303, 409)
    assert (
        "Somebody was first" in second.text and "<b>approver</b>" in second.text and "Back to the asks" in second.text
    )
    assert told.status == 200 and "<b>approver</b> has answered" in told.text
    assert await answers_of(console, task_id) == {"ask_push": "always"}


async def test_a_refusal_says_why_and_a_question_takes_options_and_words(console):
    first, second = await asking(console, PUSH), await asking(console, COLOUR)
    empty = await console.post("/console/asks/ask_colour/answer", {"choice": "once"}, who="approver")
    fields = {"choice": "once", "own-0": "more of a green"}
    assert (await console.post("/console/asks/ask_colour/answer", fields, who="approver")).status == 303
    fields = {"choice": "reject", "message": "use git mv"}
    assert (await console.post("/console/asks/ask_push/answer", fields, who="approver")).status == 303

    assert empty.status == 422 and "--say" not in empty.text
    assert await answers_of(console, first) == {"ask_push": "reject, use git mv"}
    assert await answers_of(console, second) == {"ask_colour": "more of a green"}


async def test_an_ask_that_is_gone_and_another_tenants_are_the_same_clear_page(console):
    await asking(console, PUSH)
    gone = await console.get("/console/asks/ask_none")
    theirs = await console.get("/console/asks/ask_push", who="stranger")

    assert (gone.status, theirs.status) == (404, 404)
    assert theirs.text.replace("ask_push", "").replace("stranger", "").count("no ask has the id") == 1
    assert "no ask has the id ask_none" in html.unescape(gone.text)
    assert "Nobody is asked anything." in (await console.get("/console/asks", who="stranger")).text


async def test_who_waits_for_money_goes_on_when_the_cap_is_raised(console):
    stage = console.stage
    budget = Budget(max_cost_microusd=1_000_000, waits_at_cap=True)
    handle = await stage.muster.submit(agent="build", prompt="spend", deadline_ms=600_000, budget=budget)
    [claim] = await stage.transport.claim("build", "w", slots=1, wait_s=5)
    assert await stage.transport.park(claim.lease, Wait(asks=frozenset({ask_for_more(1_000_000)})))
    path, form_to = f"/console/asks/budget/{handle.trace_id}", f"/console/traces/{handle.trace_id}/budget"

    seen = await console.get("/console/asks", who="approver")
    form = await console.get(path, who="approver")
    refused = [await console.post(form_to, {"dollars": "2"}, who=who) for who in ("viewer", "submitter", "stranger")]
    wrong = [await console.post(form_to, {"dollars": text}, who="approver") for text in ("", "much", "-1", "1e9")]
    raised = await console.post(form_to, {"dollars": "2.50", "from": "asks"}, who="approver")

    assert f'href="{path}"' in seen.text and f'href="{path}"' not in (await console.get("/console/asks")).text
    assert "$0.00 spent of $1.00" in form.text and f'action="{form_to}"' in form.text
    assert [each.status for each in refused] == [403, 403, 404]
    assert [each.status for each in wrong] == [422] * 4
    assert (raised.status, raised.headers["Location"]) == (303, "/console/asks")
    assert (await stage.transport.ledger(handle.trace_id)).cap_microusd == 2_500_000
    assert (await stage.muster.record(handle.task_id)).state is State.PENDING


async def test_a_tenants_cap_is_raised_whatever_its_name(console):
    console.secrets["operator"] = await console.tokens.create("operator", Role.ADMIN, ALL_TENANTS)
    console.people["operator"] = console.people["nobody"]
    await console.sign_in("operator")
    for tenant in ("default", "answer", "team/answer"):
        page = await console.post(f"/console/asks/tenant/{tenant}", {"dollars": "7.50"}, who="operator")
        ledger = await console.stage.muster.tenant_budget(tenant)
        assert (page.status, ledger.cap_microusd) == (303, 7_500_000), tenant


async def test_who_is_not_signed_in_any_more_is_told_so(console):
    await asking(console, PUSH)
    csrf = (await console.get("/console/", who="approver")).csrf
    await console.tokens.revoke("approver")
    page = await console.post("/console/asks/ask_push/answer", {"choice": "once"}, who="approver", csrf=csrf)

    assert page.status == 401 and "not signed in any more" in page.text
    assert (await console.get("/console/asks", who="approver")).headers["Location"].endswith("to=/console/asks")
