"""Who of many may merge now."""

from __future__ import annotations

import asyncio

from orchestrator.batch.turns import Turn, Turns


async def test_who_was_away_comes_before_those_that_have_not_begun():
    turns, said, gate = Turns(1), [], asyncio.Event()

    async def merge(number: int) -> None:
        turn = Turn(turns, number)
        async with turn.held():
            said.append(f"{number} begins")
            if number == 0:
                async with turn.away():
                    await gate.wait()
            said.append(f"{number} ends")
            if number == 1:
                gate.set()
                await asyncio.sleep(0)  # the first asks for its turn

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(merge(number))

    assert said == ["0 begins", "1 begins", "1 ends", "0 ends", "2 begins", "2 ends"]


async def test_a_turn_of_one_who_was_cancelled_goes_to_the_next():
    turns = Turns(1)
    await turns.take(0)
    gone, next_one = asyncio.ensure_future(turns.take(1)), asyncio.ensure_future(turns.take(2))
    await asyncio.sleep(0)  # both ask
    turns.give()
    gone.cancel()  # as its turn comes

    async with asyncio.timeout(60):
        await next_one
    assert gone.cancelled()
    third = asyncio.ensure_future(turns.take(3))
    await asyncio.sleep(0)  # it asks
    assert not third.done()  # one turn was handed on, and no second one made of it
    turns.give()
    async with asyncio.timeout(60):
        await third
