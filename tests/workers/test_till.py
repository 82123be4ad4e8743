"""Money is set aside before each model call and settled after it: no trace spends more than its cap."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.ids import new_task_id, new_trace_id
from envelope.messages import TaskRequest
from workers.agent.bound import LARGEST_WINDOW_TOKENS, new_documents, request_tokens, tool_tokens, window_size
from workers.agent.budget import Stop
from workers.agent.policy import WindowPolicy
from workers.agent.session import Counted
from workers.agent_task.till import ASSUMED_OUTPUT_TOKENS, MIN_OUTPUT_TOKENS, TraceTill
from workers.delivery.reporter import Reporter
from workers.llm.base import ChatMessage, FilePart, ProviderItems, ToolCall, ToolSpec
from workers.llm.files import MAX_SHOWN_BYTES, MOST_IMAGE_TOKENS
from workers.llm.limits import ModelLimits
from workers.llm.prices import Price

pytestmark = pytest.mark.redis

PRICE = Price(input_microusd=1_000_000, output_microusd=2_000_000)  # $1 and $2 for a million tokens
LIMITS = ModelLimits(context=200_000, output=10_000)
WHOLE_CALL = 1_000 + 2 * 10_000


@pytest.fixture
def claimed(transport):
    """`await claimed(cap)`: claims of a root with that cap and of its children, all running."""

    async def claim(cap_microusd: int | None, *, children: int = 0):
        root = request_for(budget=Budget(max_cost_microusd=cap_microusd))
        below = [request_for(trace_id=root.trace_id, parent_task_id=root.task_id) for _ in range(children)]
        await transport.submit([root])
        await transport.submit(below)
        found = []
        while len(found) < 1 + children:
            found += await transport.claim("build", "w", slots=1 + children, wait_s=1)
        return found

    return claim


def request_for(**fields) -> TaskRequest:
    told = {"task_id": new_task_id(), "trace_id": new_trace_id(), "sender": "test", "recipient": "build"}
    told |= {"agent": "build", "deadline_ms": 120_000, "created_at_ms": time.time_ns() // 1_000_000}
    return TaskRequest(**{**told, **fields})


async def test_the_most_that_a_call_can_cost_is_set_aside_and_free_again_with_the_charge(transport, claimed):
    [claim] = await claimed(1_000_000)
    async with Reporter(transport, claim.lease) as reporter:
        await reporter.ask_ledger()
        till = TraceTill(reporter, PRICE, LIMITS)

        held = await till.reserve(1_000)

        assert held == WHOLE_CALL == reporter.ledger.reserved_microusd
        till.release(held)
        assert (await reporter.flush()).reserved_microusd == 0


async def test_without_a_cap_nothing_is_set_aside(transport, claimed):
    [claim] = await claimed(None)
    async with Reporter(transport, claim.lease) as reporter:
        await reporter.ask_ledger()
        assert await TraceTill(reporter, PRICE, LIMITS).reserve(10**9) == 0
        assert (await reporter.ask_ledger()).reserved_microusd == 0


@pytest.mark.parametrize(
    ("limits", "cap", "said_at_most"),
    [
        (LIMITS, 1_000_000, 10_000),
        (ModelLimits(200_000, 64_000), 1_000_000, 62_437),  # an eighth of what the cap pays for
        (ModelLimits(200_000, 64_000), 500_000, 32_000),  # but as much as a reply without thoughts takes
        (ModelLimits(200_000, 64_000), 10_000_000, 64_000),
        (ModelLimits(0, 0), 1_000_000, ASSUMED_OUTPUT_TOKENS),
        (LIMITS, 11_000, 5_000),  # all that is left
        (LIMITS, 1_000 + 2 * MIN_OUTPUT_TOKENS, MIN_OUTPUT_TOKENS),
        (ModelLimits(2_000, 500), 2_000, 500),
    ],
)
async def test_a_reply_has_as_much_room_as_can_be_paid(transport, claimed, limits, cap, said_at_most):
    [claim] = await claimed(cap)
    async with Reporter(transport, claim.lease) as reporter:
        await reporter.ask_ledger()
        till = TraceTill(reporter, PRICE, limits)

        assert await till.reserve(1_000) == 1_000 + 2 * said_at_most
        assert till.output_tokens == said_at_most


async def test_a_call_that_the_cap_does_not_allow_is_refused_with_the_reason(transport, claimed):
    [claim] = await claimed(1_000 + 2 * MIN_OUTPUT_TOKENS - 1)
    async with Reporter(transport, claim.lease) as reporter:
        await reporter.ask_ledger()

        stop = await TraceTill(reporter, PRICE, LIMITS).reserve(1_000)

        assert isinstance(stop, Stop) and stop.code is ErrorCode.BUDGET
        assert (stop.event.limit, stop.event.spent, stop.event.allowed) == ("cost", 0, 3_047)
        assert "$0.0030" in stop.detail
        assert stop.hint == "`muster task resume TASK --budget USD`"


@pytest.mark.parametrize("cap", [None, 1_000_000])
async def test_no_call_costs_more_than_is_left_of_the_tasks_own_budget(transport, claimed, cap):
    """As of a subagent, whose trace has money for more."""
    [claim] = await claimed(cap)
    async with Reporter(transport, claim.lease) as reporter:
        await reporter.ask_ledger()
        till = TraceTill(reporter, PRICE, LIMITS)

        assert await till.reserve(1_000, 5_000) == 5_000
        assert till.output_tokens == 2_000
        stop = await till.reserve(1_000, 1_000 + 2 * MIN_OUTPUT_TOKENS - 1)
        assert isinstance(stop, Stop) and stop.code is ErrorCode.BUDGET
        assert "the task's own budget" in stop.detail


async def test_a_model_without_a_price_is_asked_no_more_once_there_is_a_cap(transport, claimed):
    [claim] = await claimed(None)
    async with Reporter(transport, claim.lease) as reporter:
        till = TraceTill(reporter, None, LIMITS)
        await reporter.ask_ledger()
        assert await till.reserve(1_000) == 0
        await transport.fund(request_for().tenant, 1, by="ann")
        await reporter.ask_ledger()

        stop = await till.reserve(1_000)
        await transport.fund(request_for().tenant, None, by="ann")
    assert isinstance(stop, Stop) and "price" in stop.detail


async def test_a_call_waits_for_money_that_another_one_holds(transport, claimed):
    [claim] = await claimed(WHOLE_CALL + 1)
    async with Reporter(transport, claim.lease) as reporter:
        await reporter.ask_ledger()
        till = TraceTill(reporter, PRICE, LIMITS)
        held = await till.reserve(1_000)
        waiting = asyncio.create_task(till.reserve(1_000))
        while reporter.ledger.reserved_microusd != WHOLE_CALL:
            await asyncio.sleep(0)
        assert not waiting.done()
        till.release(held)
        await reporter.flush()

        async with asyncio.timeout(60):
            assert await waiting == WHOLE_CALL


RACERS, CAP_MICROUSD = 64, 1_000_000
RACE_PRICE = Price(input_microusd=10_000_000, output_microusd=20_000_000)
USAGE = "usage: {input_tokens: 300, output_tokens: 550}"
SMALL_REPLIES = ModelLimits(context=100_000, output=600)
LOOKS_ON = f"""
rules:
  - {{when: {{tool_results: 0}}, reply: {{tool_calls: [{{name: lookup, arguments: {{word: park}}}}], {USAGE}}}}}
  - {{when: {{tool_results: 1}}, reply: {{tool_calls: [{{name: lookup, arguments: {{word: fence}}}}], {USAGE}}}}}
  - {{reply: {{text: Done., {USAGE}}}}}
"""


async def test_64_workers_that_race_for_a_dollar_never_spend_more(transport, claimed, kit, serve):
    """Each wants three calls at $0.014; there is money for 71 of 192."""
    server = await serve(LOOKS_ON)
    highest: list[int] = []

    async def race(claim):
        async with Reporter(transport, claim.lease) as reporter:
            await reporter.ask_ledger()
            till = TraceTill(reporter, RACE_PRICE, SMALL_REPLIES)
            bench = kit.Bench(server.base_url, till=till, price=RACE_PRICE)
            bench.events = Forwarded(reporter.report)
            session = await bench.run(kit.opened())
            ledger = await reporter.flush()
            highest.append(ledger.spent_microusd + ledger.reserved_microusd)
            return session, reporter.ledger

    ended = await asyncio.gather(*map(race, await claimed(CAP_MICROUSD, children=RACERS - 1)))

    spent = max(ledger.spent_microusd for _, ledger in ended)
    refused = [session for session, _ in ended if session.outcome.error is ErrorCode.BUDGET]
    assert max(highest) <= CAP_MICROUSD
    assert CAP_MICROUSD - 40_000 < spent == sum(session.cost_microusd for session, _ in ended) <= CAP_MICROUSD
    assert refused and spent == server.log.requests * 14_000


class Forwarded(list):
    """A list of events that reports each one, too."""

    def __init__(self, report) -> None:
        self._report = report

    def append(self, event) -> None:
        super().append(event)
        self._report(event)


def test_what_a_provider_has_counted_is_known_and_the_rest_is_bounded_by_its_bytes(kit):
    tool = ToolSpec("look", "Looks.", {"type": "object"})
    session = kit.opened("é" * 100)
    grown = session.model_copy(
        update={
            "messages": (*session.messages, ChatMessage(role="assistant", content="x" * 50)),
            "counted": Counted(messages=2, tokens=77, tool_tokens=tool_tokens([tool])),
        }
    )

    assert request_tokens(session.messages) >= 200 + len("You look up.")
    assert most(session, [tool]) > request_tokens(session.messages) + len('look Looks. {"type": "object"}')
    assert 77 + 50 <= most(grown, [tool]) <= 77 + 50 + 16
    # a server of tools says more of one, and offers another one
    more = [replace(tool, description="Looks. " * 100), ToolSpec("find", "f" * 300, {})]
    assert most(grown, more) >= 77 + 50 + 693 + 300
    assert most(grown, []) == most(grown, [tool])
    assert tool_tokens([ToolSpec("odd", "", {"title": "\ud800" * 9})]) > 9


def most(session, tools=()) -> int:
    return window_size(session, tools, SEEING).most


SEEING = WindowPolicy(LIMITS, sees=frozenset({"image", "pdf"}))
PAPER = FilePart(blob="b1", media_type="application/pdf", name="paper.pdf", size_bytes=11_524)
SHOT = FilePart(blob="b2", media_type="image/png", name="shot.png", size_bytes=5_000)


def holding(session, *files: FilePart, counted: Counted | None = None):
    said = ChatMessage(role="tool", content="x", tool_call_id="c", files=files)
    return session.model_copy(update={"messages": (*session.messages, said), "counted": counted})


def test_a_pdf_can_fill_the_window_whatever_its_size_and_an_image_counts_as_much_as_any_provider_makes_of_it(kit):
    session = kit.opened()
    words = most(session)

    assert most(holding(session, PAPER, SHOT)) == LIMITS.context
    assert words + MOST_IMAGE_TOKENS <= most(holding(session, SHOT)) < words + MOST_IMAGE_TOKENS + 1_000
    assert words + 2 * MOST_IMAGE_TOKENS <= most(holding(session, SHOT, SHOT))  # one that stands twice is sent twice
    mini = holding(session, SHOT).model_copy(update={"model": "openai/gpt-4o-mini"})
    assert most(mini) > 48_000
    assert window_size(holding(session, PAPER), (), WindowPolicy(sees=SEEING.sees)).most > LARGEST_WINDOW_TOKENS - 1
    # what a model cannot see it is not sent, and what is for people to see is a guess as before
    assert window_size(holding(session, PAPER), (), WindowPolicy(LIMITS)).most < 1_000
    assert 3_000 < window_size(holding(session, PAPER), (), SEEING).tokens < 4_000
    assert most(holding(kit.opened("x" * 300_000), PAPER)) > 300_000  # bytes, which may be fewer tokens


def test_a_file_that_its_provider_has_counted_is_counted_again_only_where_it_is_sent_again(kit):
    session = holding(kit.opened(), PAPER)
    counted = Counted(messages=3, tokens=20_000, files=("b1",))
    known = session.model_copy(update={"counted": counted})

    assert most(known) == 20_000 and new_documents(known, SEEING) == ()
    again = holding(known, PAPER, counted=counted)
    assert most(again) == LIMITS.context and new_documents(again, SEEING) == (3,)
    withheld = again.model_copy(update={"withheld": (3,)})
    assert 20_000 < most(withheld) < 21_000 and new_documents(withheld, SEEING) == ()


def test_a_pdf_that_had_no_room_in_the_counted_request_is_new_when_it_comes_back(kit):
    large = FilePart(blob="b3", media_type="image/png", size_bytes=MAX_SHOWN_BYTES)
    counted = Counted(messages=4, tokens=20_000, files=("b3",))
    session = holding(holding(kit.opened(), PAPER), large, counted=counted)

    assert most(session) == 20_000
    cleared = session.model_copy(update={"cleared": (3,)})
    assert most(cleared) == LIMITS.context and new_documents(cleared, SEEING) == (2,)


def test_half_a_surrogate_pair_and_a_number_that_is_written_in_full_have_their_longest_form():
    halves = ChatMessage(role="user", content="\ud800" * 100)
    assert request_tokens([halves]) >= 600
    numbers = ",".join(["1e15"] * 100)
    call = ToolCall(id="c", name="f", arguments=f'{{"a":[{numbers}]}}', input={"a": [1e15] * 100})
    assert request_tokens([ChatMessage(role="assistant", tool_calls=(call,))]) >= 100 * len("1000000000000000.0")
    assert request_tokens([], [ToolSpec("f", "", {"enum": [1e15] * 100})]) >= 100 * len("1000000000000000.0")
    items = ProviderItems(model="m", items=({"input": {"a": [1e15] * 100, "b": "\ud800"}},))
    assert request_tokens([ChatMessage(role="assistant", provider_items=items)]) >= 100 * len("1000000000000000.0")
    repaired = ToolCall(id="c", name="f", arguments="{'a': 'ééé'", input={"a": "é" * 100}, repaired=True)
    assert request_tokens([ChatMessage(role="assistant", tool_calls=(repaired,))]) >= 600  # sent as ASCII
