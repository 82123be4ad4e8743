"""Turns and threads for what strangers make slow: others have theirs meanwhile."""

from __future__ import annotations

import asyncio
import threading

from repo.fairness import FairSemaphore, Threads


async def test_who_asks_for_many_never_has_all():
    turns = FairSemaphore(4, each=3)
    greedy = [asyncio.create_task(turns.acquire("a")) for _ in range(10)]
    await asyncio.sleep(0)

    async with asyncio.timeout(5):
        await turns.acquire("b")

    assert sum(each.done() for each in greedy) == 3
    turns.release("b")
    await asyncio.sleep(0)
    assert sum(each.done() for each in greedy) == 3
    for _ in range(7):
        turns.release("a")
        await asyncio.sleep(0)
    await asyncio.gather(*greedy)


async def test_one_piece_of_work_leaves_turns_to_others_of_the_same():
    turns = FairSemaphore(8, each=4)
    greedy = [asyncio.create_task(turns.acquire("a", "1")) for _ in range(10)]
    await asyncio.sleep(0)

    async with asyncio.timeout(5):
        await turns.acquire("a", "2")
        await turns.acquire("b", "1")

    assert sum(each.done() for each in greedy) == 2
    for _ in range(10):
        turns.release("a", "1")
        await asyncio.sleep(0)
    await asyncio.gather(*greedy)


async def test_of_those_who_have_as_many_the_first_comes_first():
    turns = FairSemaphore(1)
    order: list[str] = []

    async def one(who: str) -> None:
        async with turns.turn(who):
            order.append(who)

    await turns.acquire("x")
    waiting = [asyncio.create_task(one(who)) for who in "caabc"]
    await asyncio.sleep(0)
    turns.release("x")
    await asyncio.gather(*waiting)

    assert "".join(order) == "caabc"


async def test_who_went_away_takes_no_turn():
    turns = FairSemaphore(1)
    await turns.acquire("a")
    gone = asyncio.create_task(turns.acquire("a"))
    stays = asyncio.create_task(turns.acquire("a"))
    await asyncio.sleep(0)

    gone.cancel()
    await asyncio.wait([gone])
    turns.release("a")

    await asyncio.wait_for(stays, 5)


async def test_many_that_wait_cost_little():
    turns = FairSemaphore(1)
    waiting = [asyncio.create_task(turns.acquire("a")) for _ in range(20_000)]
    await asyncio.sleep(0)

    async with asyncio.timeout(5):  # each looked at all others: minutes
        for each in waiting:
            await each
            turns.release("a")


async def test_threads_are_their_own():
    end = threading.Event()
    threads = Threads(2)
    busy = [asyncio.create_task(threads.run("a", end.wait)) for _ in range(50)]
    await asyncio.sleep(0)

    try:
        async with asyncio.timeout(5):
            assert await asyncio.to_thread(lambda: "others") == "others"
    finally:
        end.set()
        await asyncio.gather(*busy)
