"""A session is all the state: written after any turn, it is finished by another process as if nothing had happened."""

from __future__ import annotations

import asyncio
import sys

from workers.agent.session import Session

SCRIPT = """
rules:
  - {when: {turn: 1}, reply: {text: First., tool_calls: [{name: lookup, arguments: {word: muster}}]}}
  - {when: {turn: 2}, reply: {tool_calls: [{name: note, arguments: {text: "${result.0}"}}]}}
  - when: {turn: 3}
    reply: {tool_calls: [{name: lookup, arguments: {word: park}}, {name: lookup, arguments: {word: fence}}]}
  - {when: {turn: 4}, reply: {text: "I noted: ${result.1}; and ${result.2}, ${result.3}"}}
"""
ANSWER = "I noted: noted to gather; and to wait, a border"


async def test_a_session_is_finished_in_a_fresh_process_from_any_turn(kit, serve, tmp_path):
    server = await serve(SCRIPT)
    bench = kit.Bench(server.base_url)
    whole = await bench.run(kit.opened())
    saved = [tmp_path / f"after-turn-{turn}.json" for turn in (1, 2, 3)]
    for path, dump in zip(saved, bench.saved, strict=False):
        path.write_bytes(dump)

    process = await asyncio.create_subprocess_exec(
        sys.executable, kit.__file__, server.base_url, *map(str, saved), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()

    assert [untimed(Session.load(line)) for line in output.splitlines()] == [untimed(whole)] * 3
    assert whole.outcome.text == ANSWER
    assert server.log.requests == 4 + 3 + 2 + 1  # what was done is not done again


async def test_an_ended_session_goes_on_when_somebody_says_something(kit, serve):
    server = await serve("rules: [{when: {user_contains: more}, reply: {text: And more.}}, {reply: {text: Done.}}]")
    bench = kit.Bench(server.base_url)
    ended = await bench.run(kit.opened())
    bench.said.append("tell me more")

    session = await bench.run(ended)

    assert (ended.outcome.text, session.outcome.text) == ("Done.", "And more.")
    assert [event.text for event in bench.told("message")] == ["tell me more"]


async def test_an_ended_session_to_which_nobody_says_anything_stays_as_it_is(kit, serve):
    server = await serve("rules: [{reply: {text: Done.}}]")
    bench = kit.Bench(server.base_url)
    ended = await bench.run(kit.opened())

    assert await bench.run(ended) == ended
    assert server.log.requests == 1


async def test_a_session_that_failed_is_not_opened_by_a_word(kit, serve):
    server = await serve("rules: [{fault: {status: 401}}]")
    bench = kit.Bench(server.base_url)
    failed = await bench.run(kit.opened())
    bench.said.append("try again")

    assert await bench.run(failed) == failed


def untimed(session: Session) -> Session:
    calls = tuple(call.model_copy(update={"duration_ms": 0}) for call in session.tool_calls)
    messages = tuple(message.model_copy(update={"finish": None}) for message in session.messages)
    return session.model_copy(update={"tool_calls": calls, "messages": messages})


async def test_a_session_is_the_same_after_writing_and_reading(kit, serve):
    server = await serve(SCRIPT)
    bench = kit.Bench(server.base_url)

    session = await bench.run(kit.opened())

    assert Session.load(session.dump()) == session
    assert len(bench.saved) == session.turn == 4
