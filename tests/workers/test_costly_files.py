"""What a file can cost is known to its provider alone: a call that brings one stays within the cap all the same."""

from __future__ import annotations

import asyncio

import pytest

from envelope.budget import Budget
from envelope.lifecycle import State
from envelope.messages import Attachment, TaskInput
from workers.agent.telling import DOCUMENT_WITHHELD

pytestmark = [pytest.mark.redis, pytest.mark.docker]

CLAUDE = "anthropic/claude-sonnet-4-5"
PRICES = {CLAUDE: {"input": 3_000_000, "output": 15_000_000}}
WITHHELD = 'when: {prompt_contains: "is not shown: the budget"}, reply: {text: unseen, usage: {input_tokens: 500}}'
# 60 pages that share what is on them have 11 kB, and 3,000 tokens each.
COUNTS = "usage: {input_tokens: 190000, output_tokens: 20}"
SEES = f"rules:\n  - {{{WITHHELD}}}\n  - {{reply: {{text: seen, {COUNTS}}}, fault: {{stall_s: 0.5, after_bytes: 10}}}}"
USUAL = "usage: {input_tokens: 28000, output_tokens: 50}"  # of ten pages
PAPER = b"%PDF-1.7\n" + bytes(11_000)


@pytest.fixture
def look(start_hands, serve, transport):
    """`await look(script, tasks, …)`: the results of so many tasks with a PDF, what was asked, and the hands."""

    async def run(script: str, tasks: int = 1, *, cap_microusd: int | None = None, settings=None, **fields):
        server = await serve(script)
        told = {"model": CLAUDE, "prices": PRICES, "slots": 24, **(settings or {})}
        base = server.url if told["model"].startswith("anthropic/") else server.base_url
        hands = await start_hands(model_base_url=base, model_api_key="unused-key", **told)
        if cap_microusd is not None:
            await transport.fund("default", cap_microusd, by="operator")
        blob = await transport.blobs.put(PAPER)
        attached = (Attachment(blob=blob, name="report.pdf", media_type="application/pdf"),)
        told = {
            "agent": "explore",
            "recipient": "explore",
            "input": TaskInput(prompt="look"),
            "auth_scope": ("read:**",),
        }
        requests = [hands.request(**told, attachments=attached, **fields) for _ in range(tasks)]
        return await asyncio.gather(*map(hands.result, requests)), server, hands

    return run


def is_shown(body: dict) -> bool:
    return "application/pdf;base64" in str(body) or "'document'" in str(body)


async def test_a_small_pdf_of_many_pages_is_withheld_where_the_cap_does_not_pay_for_the_window(look, transport):
    [result], server, hands = await look(SEES, cap_microusd=400_000)

    ledger = await transport.funds("default")
    assert (result.status, result.output.text) == (State.COMPLETED, "unseen")
    assert [is_shown(body) for body in server.log.bodies] == [False]
    assert ledger.spent_microusd < 2_000
    [warning] = [one for one in await hands.events(result.trace_id, "warning") if one.code == DOCUMENT_WITHHELD]
    assert "report.pdf is not shown to the model: a PDF can fill the model's whole window of 200000" in warning.message
    assert "$0.0000 of the tenant's $0.4000 are spent" in warning.message
    assert warning.hint.startswith("`muster budget raise --tenant TENANT --to USD`")


async def test_tasks_with_a_pdf_that_run_at_once_spend_no_more_than_the_tenants_cap(look, transport):
    limits = {CLAUDE: {"context": 200_000, "output": 1_024}}
    results, server, _ = await look(SEES, 24, cap_microusd=1_000_000, settings={"model_limits": limits})

    ledger = await transport.funds("default")
    assert ledger.spent_microusd <= ledger.cap_microusd
    assert sorted(result.output.text for result in results) == ["seen", *["unseen"] * 23]
    assert sum(map(is_shown, server.log.bodies)) == 1


@pytest.mark.parametrize("model", [CLAUDE, "openai/gpt-5"])
async def test_a_pdf_of_ten_pages_is_read_for_a_dollar(look, model):
    """And its next turns do not pay for the whole window again: the provider has counted it."""
    looks = "tool_calls: [{name: glob, arguments: {pattern: '*.%d'}}]"
    turns = "\n".join(f"  - {{when: {{turn: {n}}}, reply: {{{looks % n}, {USUAL}}}}}" for n in range(1, 6))
    script = f"rules:\n{turns}\n  - {{reply: {{text: seen, {USUAL}}}}}"
    [result], server, _ = await look(
        script, settings={"model": model, "prices": {}}, budget=Budget(max_cost_microusd=1_000_000)
    )

    assert (result.status, result.output.text, result.errors) == (State.COMPLETED, "seen", ())
    assert [is_shown(body) for body in server.log.bodies] == [True] * 6
    assert result.metrics.cost_microusd > 200_000


async def test_a_model_whose_window_nobody_knows_is_shown_no_pdf_where_money_is_capped(look):
    settings = {"model_limits": {CLAUDE: {"context": 0, "output": 1_024}}}
    [result], server, hands = await look(SEES, settings=settings, budget=Budget(max_cost_microusd=5_000_000))

    [warning] = [one for one in await hands.events(result.trace_id, "warning") if one.code == DOCUMENT_WITHHELD]
    assert result.output.text == "unseen" and not any(map(is_shown, server.log.bodies))
    assert "a PDF can fill the largest of all windows" in warning.message
    assert warning.hint.startswith("say the model's window in MUSTER_MODEL_LIMITS")


async def test_without_a_cap_a_pdf_is_shown_whatever_it_costs(look):
    [result], server, _ = await look(SEES, settings={"model_limits": {CLAUDE: {"context": 0, "output": 1_024}}})

    assert result.output.text == "seen" and all(map(is_shown, server.log.bodies))
