"""Prompts of one session take turns: in order, one at a time, and a cancel is for all that was asked for before it."""

from __future__ import annotations

import asyncio

import pytest
from acp.schema import PromptResponse

from orchestrator.acp.floor import Floor

DONE = PromptResponse(stop_reason="end_turn")


class Works:
    """What had the floor, in its order; each holds it until it is let go."""

    def __init__(self, floor: Floor) -> None:
        self.floor = floor
        self.begun: list[str] = []
        self._begins: dict[str, asyncio.Event] = {}
        self._ends: dict[str, asyncio.Event] = {}

    def ask(self, name: str) -> asyncio.Task[PromptResponse | None]:
        self._begins[name], self._ends[name] = asyncio.Event(), asyncio.Event()
        return asyncio.create_task(self.floor.take(lambda: self._work(name), self.floor.cancels))

    def end(self, name: str) -> None:
        self._ends[name].set()

    async def until_begun(self, name: str) -> None:
        async with asyncio.timeout(60):
            await self._begins[name].wait()

    async def _work(self, name: str) -> PromptResponse:
        self.begun.append(name)
        self._begins[name].set()
        await self._ends[name].wait()
        return DONE


async def test_each_waits_for_all_that_came_before_it_also_who_comes_at_the_very_moment():
    works = Works(Floor())
    first, second = works.ask("first"), works.ask("second")
    await works.until_begun("first")
    late: list[asyncio.Task[PromptResponse | None]] = []
    first.add_done_callback(lambda _: late.append(works.ask("third")))
    for name in ("first", "second"):
        works.end(name)
    await asyncio.gather(first, second)
    works.end("third")
    await late[0]

    assert works.begun == ["first", "second", "third"]
    assert works.floor.work is None


async def test_a_cancel_is_for_what_waits_and_not_for_what_comes_after_it():
    works = Works(Floor())
    first, second = works.ask("first"), works.ask("second")
    await works.until_begun("first")
    works.floor.cancel()
    assert works.floor.is_cancelled
    third = works.ask("third")
    works.end("first")
    works.end("third")

    assert await asyncio.gather(first, second, third) == [DONE, None, DONE]
    assert works.begun == ["first", "third"]
    assert not works.floor.is_cancelled


async def test_what_goes_wrong_is_its_own_and_the_next_has_the_floor():
    floor = Floor()

    async def fails() -> PromptResponse:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await floor.take(fails, floor.cancels)
    works = Works(floor)
    left, next_one = works.ask("left"), works.ask("next")
    await works.until_begun("left")
    work = floor.work
    left.cancel()  # whoever asked has gone
    works.end("next")

    assert await next_one == DONE
    assert work is not None and work.cancelled()
