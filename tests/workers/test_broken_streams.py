"""A reply that breaks off is billed by its provider: it is charged, and the cap holds over all tries of a turn."""

from __future__ import annotations

import json
import time
from contextlib import aclosing

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.events import TurnFinished
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskRequest
from workers.agent.bound import window_size
from workers.agent.calls import offer
from workers.agent_task.till import TraceTill
from workers.delivery.reporter import Reporter
from workers.llm.base import ChatMessage, Failed
from workers.llm.direct import DirectModel
from workers.llm.limits import ModelLimits
from workers.llm.lost import tokens_of_bytes
from workers.llm.prices import Price
from workers.llm.retry import Retrying, RetryPolicy

pytestmark = pytest.mark.redis

PRICE = Price(input_microusd=1_000_000, output_microusd=1_000_000)  # a micro-dollar for each token
LIMITS = ModelLimits(context=100_000, output=2_000)
WORDS = "Many words, of which the first ones arrive."
BREAKS = f"{{reply: {{text: '{WORDS * 20}'}}, fault: {{after_bytes: 3000, cut: true}}}}"
ANSWERS = "{reply: {text: Done., usage: {input_tokens: 30, output_tokens: 5}}}"


@pytest.fixture
async def claim(transport):
    """`await claim(cap)`: a running task's."""

    async def claimed(cap_microusd: int):
        told = {"task_id": new_task_id(), "trace_id": new_trace_id(), "sender": "test", "recipient": "build"}
        told |= {"agent": "build", "deadline_ms": 120_000, "created_at_ms": time.time_ns() // 1_000_000}
        await transport.submit([TaskRequest(**told, budget=Budget(max_cost_microusd=cap_microusd))])
        [found] = await transport.claim("build", "w", slots=1, wait_s=60)
        return found

    return claimed


@pytest.fixture
def played(transport, claim, serve, kit):
    """A session against that script, with its trace's ledger, its server and its events."""

    async def play(rules: str, cap_microusd: int = 1_000_000):
        server = await serve(f"rules: [{rules}]")
        async with Reporter(transport, (await claim(cap_microusd)).lease) as reporter:
            await reporter.ask_ledger()
            bench = kit.Bench(server.base_url, till=TraceTill(reporter, PRICE, LIMITS), price=PRICE)
            session = await bench.run(kit.opened())
            for event in bench.events:
                reporter.report(event)
            return session, await reporter.flush(), server, bench

    return play


def asked_tokens(kit, bench) -> int:
    return window_size(kit.opened(), offer(bench.loop().tools), bench.policy).most


async def test_each_try_that_broke_off_is_charged(played, kit):
    session, ledger, server, bench = await played(f"{BREAKS}")

    (turn,) = bench.told("turn_finished")
    assert session.outcome.error is ErrorCode.MODEL_FAILED
    assert server.log.requests == 3
    assert turn.usage.input_tokens == 3 * asked_tokens(kit, bench)
    assert 3 <= turn.usage.output_tokens <= 3 * len(WORDS) * 20
    assert ledger.spent_microusd == session.cost_microusd == turn.usage.total_tokens
    assert ledger.reserved_microusd == 0


async def test_a_try_that_succeeds_is_charged_beside_the_one_that_broke_off(played, kit):
    session, ledger, _, bench = await played(f"{{times: 1, {BREAKS[1:]}, {ANSWERS}")

    assert session.outcome.error is None
    assert session.usage.input_tokens == asked_tokens(kit, bench) + 30
    assert session.usage.output_tokens > 5
    assert ledger.spent_microusd == session.cost_microusd == session.usage.total_tokens


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_who_was_refused_pays_nothing(played, status):
    session, ledger, _, _ = await played(f"{{fault: {{status: {status}}}}}")

    assert session.outcome.error is not None
    assert (ledger.spent_microusd, ledger.reserved_microusd, session.cost_microusd) == (0, 0, 0)


async def test_a_stream_that_breaks_off_before_a_word_is_not_charged(played):
    _, ledger, _, _ = await played("{reply: {text: x}, fault: {after_bytes: 0, cut: true}}")

    assert ledger.spent_microusd == 0


@pytest.mark.parametrize("more", range(0, 1_800, 450))
async def test_the_cap_holds_over_streams_that_break_off(played, kit, more):
    """There is money for one try, and for a part of the next one."""
    request = asked_tokens(kit, kit.Bench(""))
    cap = request + LIMITS.output + more

    session, ledger, server, bench = await played(BREAKS, cap)

    finished = [event for event in bench.events if isinstance(event, TurnFinished)]
    assert 0 < ledger.spent_microusd == sum(event.cost_microusd for event in finished) <= cap
    assert ledger.reserved_microusd == 0
    # each request that was sent had its whole price set aside beside what was lost before it
    a_try = ledger.spent_microusd // server.log.requests
    assert (server.log.requests - 1) * a_try + request + LIMITS.output <= cap
    assert session.outcome.error is ErrorCode.MODEL_FAILED


STALLS = f"rules: [{{reply: {{text: '{WORDS * 20}'}}, fault: {{after_bytes: 3000, stall_s: 600}}}}]"


@pytest.mark.docker
async def test_a_turn_that_a_person_cuts_off_has_cost_what_it_had_said(start_hands, serve, workspace):
    server = await serve(STALLS)
    told = {"model": "openai/x", "model_base_url": server.base_url, "model_api_key": "unused-key"}
    hands = await start_hands(**told, prices={"openai/x": {"input": 1_000_000, "output": 1_000_000}})
    request = hands.request(
        agent="build", workspace=workspace, input=TaskInput(prompt="talk"), budget=Budget(max_cost_microusd=1_000_000)
    )
    await hands.transport.submit([request])
    await hands.until(request.trace_id, lambda progress: any(event.kind == "text" for event in progress.events))

    await hands.transport.cancel(request.task_id, by="test", reason="enough")

    result = await hands.ended(request.task_id)
    assert (result.status, result.metrics.turns) == (State.CANCELLED, 1)
    assert 0 < result.metrics.usage.output_tokens < len(WORDS) * 20
    assert result.metrics.cost_microusd == result.metrics.usage.total_tokens


async def test_a_try_that_is_cut_off_is_told_of_once(serve):
    lost = Lost()
    model = Retrying(DirectModel("openai/x", (await serve(STALLS)).base_url, "unused"), lambda retry: None, lost=lost)

    async with aclosing(model.stream([ChatMessage(role="user", content="talk")], [])) as events:
        first = await anext(events)

    assert lost.output_tokens == [tokens_of_bytes(len(first.text))]


class Lost:
    def __init__(self) -> None:
        self.output_tokens: list[int] = []

    def add(self, output_tokens: int) -> None:
        self.output_tokens.append(output_tokens)

    async def may_go_on(self) -> bool:
        return True


ONCE = RetryPolicy(tries=1)
ASKED = [ChatMessage(role="user", content="think")]
SEALED = "x" * 400
STARTS = {"type": "message_start", "message": {"usage": {"input_tokens": 9}}}
HIDDEN = {"type": "content_block_start", "index": 0, "content_block": {"type": "redacted_thinking", "data": SEALED}}
UNSEEN = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}
SIGNED = {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": SEALED}}
THINKS = {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "summary": []}}
THOUGHT = {"type": "response.output_item.done", "item": {"type": "reasoning", "encrypted_content": SEALED}}
DETAILS = [{"type": "reasoning.encrypted", "data": SEALED}]
FAILS = {"type": "error", "error": {"type": "overloaded_error", "message": "busy", "code": 529}}
SIZE = tokens_of_bytes(len(SEALED))


@pytest.mark.parametrize(
    ("model", "events", "least", "most"),
    [
        ("anthropic/x", [STARTS, HIDDEN], SIZE, SIZE + 20),
        ("anthropic/x", [STARTS, UNSEEN], 0, 0),
        ("anthropic/x", [STARTS, UNSEEN, SIGNED], SIZE, SIZE + 20),
        ("openai/gpt-5", [THINKS], 0, 0),
        ("openai/gpt-5", [THINKS, THOUGHT], SIZE, SIZE),
        ("openrouter/x", [{"choices": [{"delta": {"reasoning_details": DETAILS}}]}], SIZE, SIZE),
        ("anthropic/x", [STARTS], None, None),
        ("openrouter/x", [{"choices": [{"delta": {"role": "assistant", "content": ""}}]}], None, None),
    ],
)
async def test_a_try_that_breaks_off_after_hidden_thoughts_is_told_of(model, events, least, most):
    """Providers bill what a model thought, also where they do not show it."""

    async def breaks(request: web.Request) -> web.Response:
        said = (b"data: " + json.dumps(event).encode() + b"\n\n" for event in [*events, FAILS])
        return web.Response(body=b"".join(said), content_type="text/event-stream")

    app = web.Application()
    app.router.add_post("/{path:.*}", breaks)
    lost = Lost()
    async with TestServer(app) as server:
        url = server.make_url("/v1/responses" if model == "openai/gpt-5" else "/v1")
        asked = DirectModel(model, f"{url}", "unused")
        told = [event async for event in Retrying(asked, lambda retry: None, ONCE, lost=lost).stream(ASKED, [])]

    assert isinstance(told[-1], Failed)
    assert len(lost.output_tokens) == (least is not None)
    assert all(least <= tokens <= most for tokens in lost.output_tokens)
