"""The loop against a real model server: what ends a session, what a model is told, what watchers see."""

from __future__ import annotations

import asyncio

import pytest

from envelope.budget import Budget
from envelope.errors import ErrorCode
from workers.agent.budget import is_last_turn
from workers.agent.finish import finish_reason
from workers.agent.history import CLOSING, EMPTY, INTERRUPTED, reopen_session
from workers.agent.repeats import WARNING
from workers.agent.session import Session
from workers.agent.telling import STOPPED_HERE
from workers.agents.registry import builtin
from workers.llm.base import ChatMessage, Failed, Failure, ToolCall

LOOKS_UP_TWO = """
rules:
  - when: {turn: 1}
    reply:
      text: I will look.
      tool_calls: [{name: lookup, arguments: {word: fence}}, {name: lookup, arguments: {word: muster}}]
  - when: {turn: 2}
    reply: {text: "fence is ${result.0}, muster is ${result.1}"}
"""


def results_sent(body: dict) -> list[tuple[str, str]]:
    return [(m["tool_call_id"], m["content"]) for m in body["messages"] if m["role"] == "tool"]


async def test_a_reply_without_calls_is_the_answer(kit, serve):
    server = await serve("rules: [{reply: {text: It is done.}}]")

    session = await kit.Bench(server.base_url).run(kit.opened())

    assert session.outcome.error is None
    assert session.outcome.text == "It is done."
    assert session.turn == 1


async def test_calls_of_one_turn_are_answered_in_their_order(kit, serve):
    server = await serve(LOOKS_UP_TWO)

    session = await kit.Bench(server.base_url).run(kit.opened())

    assert session.outcome.text == "fence is a border, muster is to gather"
    assert results_sent(server.log.bodies[1]) == [("call_1_0", "a border"), ("call_1_1", "to gather")]
    assert [(call.tool, call.title) for call in session.tool_calls] == [("lookup", "fence"), ("lookup", "muster")]


async def test_watchers_see_a_turn_as_it_happens(kit, serve):
    server = await serve(LOOKS_UP_TWO)
    bench = kit.Bench(server.base_url)

    await bench.run(kit.opened())

    kinds = bench.kinds()
    assert kinds[0] == "turn_started" and kinds[-1] == "turn_finished"
    assert "".join(event.text for event in bench.told("text")).startswith("I will look.fence is")
    first_call = [event.state for event in bench.told("tool_call") if event.call_id == "call_1_0"]
    assert first_call == ["pending", "running", "completed"]
    assert kinds.index("turn_finished") < kinds.index("tool_call", kinds.index("turn_finished"))
    inputs = [event.text for event in bench.told("tool_input") if event.call_id == "call_1_0"]
    assert len(inputs) > 1 and "".join(inputs) == '{"word": "fence"}'


async def test_usage_and_cost_are_summed_over_the_turns(kit, serve):
    script = LOOKS_UP_TWO.replace(
        "    reply:\n", "    reply:\n      usage: {input_tokens: 1000, output_tokens: 100}\n", 1
    )
    server = await serve(script)
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened())

    turns = bench.told("turn_finished")
    assert turns[0].cost_microusd == 4500
    assert session.cost_microusd == sum(turn.cost_microusd for turn in turns) > 4500
    assert session.usage == turns[0].usage + turns[1].usage


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("{name: lokup, arguments: {word: fence}}", "there is no tool 'lokup'"),
        ('{name: lookup, raw_arguments: \'{"word": "fe\'}', "not a JSON object"),
        ("{name: lookup, arguments: {wort: fence}}", "arguments of lookup are wrong"),
        ("{name: lookup, arguments: {word: nonsense}}", "not found"),
    ],
)
async def test_a_call_that_cannot_work_is_told_to_the_model_and_the_loop_goes_on(kit, serve, call, said):
    server = await serve(
        f"rules: [{{when: {{turn: 1}}, reply: {{tool_calls: [{call}]}}}}, {{reply: {{text: I see.}}}}]"
    )

    session = await kit.Bench(server.base_url).run(kit.opened())

    assert session.outcome.error is None
    assert said in results_sent(server.log.bodies[1])[0][1]
    assert session.tool_calls[0].is_error


async def test_a_denied_call_is_told_to_the_model(kit, serve):
    server = await serve(LOOKS_UP_TWO)
    bench = kit.Bench(server.base_url, scope=("lookup:muster",))

    session = await bench.run(kit.opened())

    (_, denied), (_, answered) = results_sent(server.log.bodies[1])
    assert "not allowed" in denied and answered == "to gather"
    assert session.outcome.error is None


async def test_an_empty_reply_is_asked_for_once_more(kit, serve):
    server = await serve('rules: [{times: 1, reply: {text: ""}}, {reply: {text: Sorry. Done.}}]')

    session = await kit.Bench(server.base_url).run(kit.opened())

    assert session.outcome.text == "Sorry. Done."
    assert server.log.bodies[1]["messages"][-1]["content"] == EMPTY


async def test_two_empty_replies_are_an_error_and_no_empty_success(kit, serve):
    server = await serve('rules: [{reply: {text: " "}}]')

    session = await kit.Bench(server.base_url).run(kit.opened())

    assert session.outcome.error is ErrorCode.MODEL_FAILED
    assert server.log.requests == 2


async def test_an_answer_that_was_cut_off_is_finished_and_joined(kit, serve):
    server = await serve(
        "rules: [{times: 1, reply: {text: 'one, two', finish_reason: length}}, {reply: {text: ', three'}}]"
    )

    session = await kit.Bench(server.base_url).run(kit.opened())

    assert session.outcome.text == "one, two, three"


async def test_a_filtered_reply_is_an_error(kit, serve):
    server = await serve("rules: [{reply: {text: I, finish_reason: content_filter}}]")

    session = await kit.Bench(server.base_url).run(kit.opened())

    assert session.outcome.error is ErrorCode.MODEL_FAILED


@pytest.mark.parametrize(
    ("fault", "code", "requests"),
    [
        ("{status: 401, message: Incorrect API key}", ErrorCode.MODEL_AUTH, 1),
        ("{status: 404, message: no such model}", ErrorCode.MODEL_UNKNOWN, 1),
        ("{status: 400, message: nonsense}", ErrorCode.MODEL_FAILED, 1),
        ("{status: 500}", ErrorCode.MODEL_FAILED, 3),
        ("{cut: true, after_bytes: 500}", ErrorCode.MODEL_FAILED, 3),
    ],
)
async def test_a_failed_model_call_is_an_error_with_its_code(kit, serve, fault, code, requests):
    server = await serve(f"rules: [{{reply: {{text: a longer text than that}}, fault: {fault}}}]")
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened())

    assert session.outcome.error is code
    assert session.outcome.detail and session.outcome.hint
    assert server.log.requests == requests
    assert bench.kinds().count("retry") == requests - 1


async def test_a_fault_that_passes_costs_a_retry_and_nothing_else(kit, serve):
    server = await serve(
        "rules: [{times: 1, reply: {text: this will be lost}, fault: {cut: true, after_bytes: 500}},"
        " {reply: {text: All is well.}}]"
    )
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened())

    assert session.outcome.text == "All is well."
    [reply] = [message for message in session.messages if message.role == "assistant"]
    assert (reply.content, [retry.attempt for retry in reply.retries]) == ("All is well.", [1])
    assert reply.retries[0].reason == bench.told("retry")[0].reason
    assert bench.kinds().count("retry") == 1


async def test_the_last_turn_allows_no_tools_and_ends_as_turn_limit(kit, serve):
    server = await serve(
        """
        rules:
          - {when: {user_contains: last turn}, reply: {text: Not all is done.}}
          - {when: {turn: 1}, reply: {tool_calls: [{name: lookup, arguments: {word: fence}}]}}
          - {when: {turn: 2}, reply: {tool_calls: [{name: lookup, arguments: {word: park}}]}}
        """
    )
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened(max_turns=3))

    assert (session.outcome.error, session.outcome.text) == (ErrorCode.TURN_LIMIT, "Not all is done.")
    assert [body.get("tool_choice") for body in server.log.bodies] == [None, None, "none"]
    assert server.log.bodies[2]["tools"] == server.log.bodies[0]["tools"], "what providers cache goes on as it began"
    assert server.log.bodies[2]["messages"][-1]["content"] == CLOSING
    assert bench.told("budget")[0].limit == "turns"


async def test_calls_that_the_last_turn_asks_for_all_the_same_are_dropped(kit, serve):
    server = await serve("rules: [{reply: {text: More!, tool_calls: [{name: note, arguments: {text: x}}]}}]")
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened(max_turns=2))

    assert session.outcome.error is ErrorCode.TURN_LIMIT
    assert bench.note.notes == ["x"]  # the first turn's
    assert session.messages[-1].tool_calls == ()


async def test_no_more_calls_run_than_the_budget_allows(kit, serve):
    calls = ", ".join(f"{{name: note, arguments: {{text: n{n}}}}}" for n in range(3))
    server = await serve(f"rules: [{{reply: {{tool_calls: [{calls}]}}}}]")
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened(max_tool_calls=2))

    assert bench.note.notes == ["n0", "n1"]
    assert session.outcome.error is ErrorCode.BUDGET
    assert [m.is_error for m in session.messages if m.role == "tool"] == [False, False, True]
    assert len(session.tool_calls) == 2


@pytest.mark.parametrize(("budget", "limit"), [({"max_tokens": 1500}, "tokens"), ({"max_cost_microusd": 5000}, "cost")])
async def test_the_call_that_reaches_a_limit_is_the_last(kit, serve, budget, limit):
    server = await serve(
        "rules: [{reply: {tool_calls: [{name: note, arguments: {text: x}}],"
        " usage: {input_tokens: 1500, output_tokens: 100}}}]"
    )
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened(**budget))

    assert session.outcome.error is ErrorCode.BUDGET
    assert ("muster task resume TASK --budget USD" in session.outcome.hint) == (limit == "cost")
    assert server.log.requests == 1
    assert bench.told("budget")[0].limit == limit


@pytest.mark.parametrize(
    ("whose", "hint"), [("trace", "task resume TASK --budget USD"), ("tenant", "budget raise --tenant TENANT")]
)
async def test_without_money_no_turn_starts(kit, serve, whose, hint):
    server = await serve("rules: [{reply: {text: never asked}}]")
    bench = kit.Bench(server.base_url, exhausted=whose)

    session = await bench.run(kit.opened())

    assert session.outcome.error is ErrorCode.BUDGET
    assert session.outcome.detail == f"the {whose}'s money is spent"
    assert hint in session.outcome.hint
    assert bench.told("budget")[0].whose == whose
    assert server.log.requests == 0


async def test_a_model_that_repeats_itself_is_warned_and_then_says_what_it_did(kit, serve):
    server = await serve(
        """
        rules:
          - {when: {user_contains: This is your last turn}, reply: {text: I looked for the park and found none.}}
          - {reply: {tool_calls: [{name: lookup, arguments: {word: park}}]}}
        """
    )
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened())

    assert session.outcome.error is ErrorCode.TURN_LIMIT and "repeating" in session.outcome.detail
    assert session.outcome.text == "I looked for the park and found none."
    assert sum(event.kind == "warning" for event in bench.events) == 1
    [error] = session.outcome.errors("t-7")
    assert error.hint == 'say what it should do instead: muster task prompt t-7 "…"'
    assert server.log.requests == session.turn == 5
    assert server.log.bodies[3]["messages"][-1]["content"] == WARNING
    assert server.log.bodies[4]["messages"][-1]["content"] == CLOSING


async def test_a_model_that_repeats_itself_in_its_closing_turn_is_over(kit, serve):
    server = await serve("rules: [{reply: {tool_calls: [{name: lookup, arguments: {word: park}}]}}]")

    session = await kit.Bench(server.base_url).run(kit.opened())

    assert session.outcome.error is ErrorCode.TURN_LIMIT and "repeating" in session.outcome.detail
    assert server.log.requests == 5
    reopened = reopen_session(session, builtin()["build"], model="m", prompt="look elsewhere", budget=Budget())
    assert not is_last_turn(reopened)


async def test_a_model_that_heeds_the_warning_goes_on(kit, serve):
    server = await serve(
        """
        rules:
          - {when: {user_contains: same call}, reply: {text: Then I stop.}}
          - {reply: {tool_calls: [{name: lookup, arguments: {word: park}}]}}
        """
    )

    session = await kit.Bench(server.base_url).run(kit.opened())

    assert session.outcome.text == "Then I stop."


async def test_a_call_without_an_answer_is_not_run_again(kit, serve):
    server = await serve("rules: [{reply: {text: I looked.}}]")
    bench = kit.Bench(server.base_url)
    asked = ToolCall(id="call_1_0", name="note", arguments='{"text": "x"}', input={"text": "x"})
    session = kit.opened()
    session = session.model_copy(
        update={"messages": (*session.messages, ChatMessage(role="assistant", tool_calls=(asked,)))}
    )

    finished = await bench.run(session)

    assert finished.outcome.error is None
    assert bench.note.notes == []
    assert results_sent(server.log.bodies[0]) == [("call_1_0", INTERRUPTED)]


@pytest.mark.rewrites_history
async def test_a_call_that_reaches_out_of_the_sandbox_is_stored_before_it_begins(kit, serve):
    """What was stored then is what a lost worker leaves."""
    server = await serve(
        "rules: [{when: {turn: 1}, reply: {tool_calls: [{name: note, arguments: {text: x}}]}},"
        " {reply: {text: '${result.0}'}}]"
    )
    lost, next_one = (kit.Bench(server.base_url, outside=frozenset({"note"})) for _ in range(2))
    await lost.run(kit.opened())

    session = await next_one.run(Session.load(lost.saved[0]))

    assert (lost.note.notes, next_one.note.notes) == (["x"], [])
    assert session.outcome.text == INTERRUPTED
    assert server.log.requests == 3  # the turn itself was not paid for twice


@pytest.mark.parametrize(
    ("reply", "reasons"),
    [
        ("{text: done}", ["end_turn"]),
        ("{tool_calls: [{name: note, arguments: {text: x}}]}", ["tool_use", "end_turn"]),
        ("{text: do, finish_reason: length}", ["max_tokens", "end_turn"]),
        ("{text: I, finish_reason: content_filter}", ["content_filter"]),
    ],
)
async def test_replies_say_how_they_ended_in_events_and_in_what_is_stored(kit, serve, reply, reasons):
    server = await serve(f"rules: [{{times: 1, reply: {reply}}}, {{reply: {{text: done}}}}]")
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened())

    assert [event.finish_reason for event in bench.told("turn_finished")] == reasons
    replies = [message for message in session.messages if message.role == "assistant"]
    assert [reply.finish.reason for reply in replies] == reasons
    assert {reply.agent for reply in replies} == {"tester"}


@pytest.mark.parametrize(("failure", "reason"), [("auth", "error"), ("content_filter", "content_filter")])
def test_a_call_that_failed_has_a_reason_too(failure, reason):
    assert finish_reason(Failed(Failure(failure), "no")) == reason


async def test_cancelling_a_session_cancels_the_request(kit, serve):
    server = await serve("rules: [{reply: {text: a long wait}, fault: {stall_s: 60, after_bytes: 500}}]")
    bench = kit.Bench(server.base_url)
    first_words = asyncio.Event()
    bench.events = Signalled(first_words)
    running = asyncio.create_task(bench.run(kit.opened()))
    await first_words.wait()

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    async with asyncio.timeout(60):
        await server.idle()
    assert server.log.aborted == 1


@pytest.mark.parametrize("stopped", [True, False])
async def test_half_an_answer_is_kept_when_the_task_was_stopped(kit, serve, stopped):
    """A worker that goes away is no end: another attempt asks again."""
    server = await serve(
        """
        rules:
          - {when: {user_contains: go on}, reply: {text: done}}
          - {reply: {text: a long wait}, fault: {stall_s: 60, after_bytes: 500}}
        """
    )
    bench = kit.Bench(server.base_url, stopped=stopped)
    first_words = asyncio.Event()
    bench.events = Signalled(first_words)
    running = asyncio.create_task(bench.run(kit.opened()))
    await first_words.wait()

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    if not stopped:
        assert bench.saved == []
        return
    session = Session.load(bench.saved[-1])
    half, note = session.messages[-2:]
    said = "".join(event.text for event in bench.told("text"))
    assert said and (half.role, half.content, half.finish.reason) == ("assistant", said, "cancelled")
    assert (note.content, note.synthetic, session.turn) == (STOPPED_HERE, True, 1)
    reopened = reopen_session(session, builtin()["build"], model="m", prompt="go on", budget=Budget())
    assert (await kit.Bench(server.base_url).run(reopened)).outcome.text == "done"
    assert [m["role"] for m in server.log.bodies[-1]["messages"]][-3:] == ["assistant", "user", "user"]


class Signalled(list):
    """A list of events that says when the first text came."""

    def __init__(self, came: asyncio.Event) -> None:
        self._came = came

    def append(self, event) -> None:
        super().append(event)
        if event.kind == "text":
            self._came.set()
