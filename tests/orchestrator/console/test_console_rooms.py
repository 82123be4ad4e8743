"""Rooms: many visitors, one look; nobody misses what changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

import pytest

from orchestrator.api.console import rooms as rooms_module
from orchestrator.api.console.rooms import News, Pace, Rooms


class Picture:
    """Looks that end when they are told."""

    def __init__(self) -> None:
        self.looks = 0
        self._next: asyncio.Queue[Mapping[str, str] | None] = asyncio.Queue()
        self._waits = asyncio.Event()

    def show(self, **parts: str) -> None:
        self._next.put_nowait(parts)

    def end(self) -> None:
        self._next.put_nowait(None)

    async def waited_for(self) -> None:
        """A look has begun that will see what is shown next."""
        async with asyncio.timeout(10):
            await self._waits.wait()

    async def __call__(self) -> AsyncGenerator[Mapping[str, str]]:
        self.looks += 1
        self._waits.set()
        while (parts := await self._next.get()) is not None:
            self._waits.clear()
            yield parts
            self._waits.set()


async def test_a_visitor_sees_what_changes_and_what_goes():
    rooms, picture = Rooms(), Picture()
    visit = rooms.visit("r", picture)
    picture.show(a="1", b="1")
    assert (await anext(visit)).parts == {"a": "1", "b": "1"}
    picture.show(a="1", b="2")
    assert (await anext(visit)).parts == {"b": "2"}
    picture.show(b="2")
    last = await anext(visit)
    assert last.parts == {"a": None}
    await visit.aclose()

    picture.show(a="3", b="2")
    again = rooms.visit("r", picture, last.id)
    assert (await anext(again)).parts == {"a": "3"}
    await again.aclose()
    assert picture.looks == 1


async def test_many_visitors_are_one_look_and_the_last_one_ends_it():
    rooms, picture = Rooms(linger_s=0), Picture()
    visits = [rooms.visit("r", picture) for _ in range(50)]
    picture.show(a="1")
    told = await asyncio.gather(*(anext(visit) for visit in visits))
    assert all(each is told[0] for each in told), "it is written out once"
    assert picture.looks == 1

    for visit in visits:
        await visit.aclose()
    async with asyncio.timeout(5):
        while rooms.open:
            await asyncio.sleep(0)


async def test_who_comes_from_an_earlier_room_is_told_everything():
    rooms, picture = Rooms(), Picture()
    picture.show(a="1")
    visit = rooms.visit("r", picture, "0123abcd-7")
    assert (await anext(visit)).parts == {"a": "1"}
    await visit.aclose()


@pytest.mark.parametrize("version", ["9" * 5000, "7", "-1", "\u0661", "1 "])
async def test_who_says_what_no_room_has_said_is_told_everything(version: str):
    rooms, picture = Rooms(), Picture()
    picture.show(a="1")
    staying = rooms.visit("r", picture)
    born = (await anext(staying)).id.partition("-")[0]
    visit = rooms.visit("r", picture, f"{born}-{version}")
    async with asyncio.timeout(5):
        assert (await anext(visit)).parts == {"a": "1"}
    await visit.aclose()
    await staying.aclose()


async def test_who_goes_and_comes_back_ends_up_with_what_who_stayed_has():
    rooms, picture = Rooms(), Picture()
    stays: dict[str, str | None] = {}
    comes: dict[str, str | None] = {}
    staying, last = rooms.visit("r", picture), ""
    for step in range(40):
        names = {f"p{n}": f"{step // (n + 1)}" for n in range(8) if (step + n) % 11}
        picture.show(**names)
        stays |= (await anext(staying)).parts
        if step % 3 != 1:  # now and then they miss one
            coming = rooms.visit("r", picture, last)
            news = await anext(coming)
            last, comes = news.id, comes | news.parts
            await coming.aclose()
            assert comes == stays
    await staying.aclose()


async def test_a_visitor_who_takes_nothing_is_told_the_latest_alone():
    rooms, picture = Rooms(), Picture()
    slow, quick = rooms.visit("r", picture), rooms.visit("r", picture)
    for step in range(100):
        picture.show(a=str(step))
        await anext(quick)
        if step == 0:
            await anext(slow)
    assert (await anext(slow)).parts == {"a": "99"}
    for visit in (slow, quick):
        await visit.aclose()


async def test_where_nothing_is_new_a_visitor_hears_so_and_stays():
    rooms, picture = Rooms(), Picture()
    picture.show(a="1")
    visit = rooms.visit("r", picture, silence_s=0.01)
    assert (await anext(visit)).parts == {"a": "1"}
    assert [await anext(visit) for _ in range(3)] == [None] * 3
    picture.show(a="2")
    while (news := await anext(visit)) is None:
        pass
    assert news.parts == {"a": "2"}
    await visit.aclose()


async def test_looks_that_end_or_fail_end_the_visit():
    picture = Picture()
    picture.show(a="1")
    picture.end()
    assert [news.parts for news in [each async for each in Rooms().visit("r", picture)]] == [{"a": "1"}]

    async def broken() -> AsyncGenerator[Mapping[str, str]]:
        yield {"a": "1"}
        raise ConnectionError("away")

    visit = Rooms().visit("r", broken)
    assert (await anext(visit)).parts == {"a": "1"}
    with pytest.raises(ConnectionError):
        await anext(visit)


SELDOM = Pace(every_s=3600)
AT_ONCE = Pace(every_s=0)


async def test_who_comes_with_a_page_of_this_moment_is_not_set_back_by_an_older_look():
    rooms, picture = Rooms(), Picture()
    picture.show(a="1")
    staying = rooms.visit("r", picture, pace=AT_ONCE)
    assert (await anext(staying)).parts == {"a": "1"}
    await picture.waited_for()
    visit = rooms.visit("r", picture, pace=AT_ONCE)
    coming = asyncio.ensure_future(anext(visit))
    await asyncio.sleep(0)  # it has come

    picture.show(a="1")  # seen by a look that began before
    picture.show(a="2")
    assert (await coming).parts == {"a": "2"}
    await visit.aclose()
    await staying.aclose()


async def test_who_comes_at_the_end_is_told_of_it_by_a_look_that_began_before():
    rooms, picture = Rooms(), Picture()
    picture.show(a="1")
    staying = rooms.visit("r", picture, pace=AT_ONCE)
    assert (await anext(staying)).parts == {"a": "1"}
    await picture.waited_for()
    coming = asyncio.ensure_future(anext(visit := rooms.visit("r", picture, pace=AT_ONCE)))
    await asyncio.sleep(0)  # it has come

    picture.show(a="2")
    picture.end()
    assert (await coming).parts == {"a": "2"}
    assert [news async for news in visit] == []
    await staying.aclose()


async def test_who_comes_waits_for_a_look_and_not_for_its_turn():
    rooms, picture = Rooms(), Picture()
    visits: list[AsyncGenerator[News | None]] = []
    async with asyncio.timeout(10):
        for number in range(5):
            picture.show(a=str(number))
            visits.append(rooms.visit("r", picture, pace=SELDOM))
            told = await asyncio.gather(*map(anext, visits))
            assert [news.parts for news in told] == [{"a": str(number)}] * len(visits)
    for visit in visits:
        await visit.aclose()


async def test_a_look_that_took_very_long_does_not_hold_back_the_next_for_many_times_as_long(monkeypatch):
    monkeypatch.setattr(rooms_module, "SHARE_OF_OTHERS", 10**12)
    monkeypatch.setattr(rooms_module, "MAX_OTHERS_S", 0.01)
    rooms, picture = Rooms(), Picture()
    picture.show(a="1")
    picture.show(a="2")
    visit = rooms.visit("r", picture, pace=AT_ONCE)
    async with asyncio.timeout(10):
        assert (await anext(visit)).parts == {"a": "1"}
        assert (await anext(visit)).parts == {"a": "2"}
    await visit.aclose()


async def test_who_waits_for_a_look_is_told_that_the_server_is_still_here():
    rooms, picture = Rooms(), Picture()
    visit = rooms.visit("r", picture, pace=AT_ONCE, silence_s=0.01)
    assert [await anext(visit) for _ in range(3)] == [None] * 3
    picture.show(a="1")
    while (news := await anext(visit)) is None:
        pass
    assert news.parts == {"a": "1"}
    await visit.aclose()


async def test_where_too_much_has_gone_all_begin_anew_who_are_there(monkeypatch):
    monkeypatch.setattr(rooms_module, "MAX_GONE", 2)
    rooms, picture = Rooms(), Picture()
    picture.show(a="1", b="1", c="1", d="1")
    visit = rooms.visit("r", picture)
    first = await anext(visit)
    picture.show(d="1")
    second = await anext(visit)

    assert second.parts == {"d": "1"}, "all that there is"
    assert first.id.partition("-")[0] != second.id.partition("-")[0], "by which a page knows it"
    picture.show(d="2")
    assert (await anext(visit)).parts == {"d": "2"}
    await visit.aclose()


async def test_who_comes_with_a_page_of_this_moment_hears_of_a_look_that_failed_and_sees_nothing_older():
    rooms, is_over = Rooms(), asyncio.Event()

    async def looks() -> AsyncGenerator[Mapping[str, str]]:
        yield {"a": "old"}
        await is_over.wait()
        raise RuntimeError("no more")

    staying = rooms.visit("r", looks, pace=AT_ONCE)
    assert (await anext(staying)).parts == {"a": "old"}
    coming = asyncio.ensure_future(anext(rooms.visit("r", looks, pace=AT_ONCE)))
    await asyncio.sleep(0)  # it has come
    is_over.set()
    with pytest.raises(RuntimeError, match="no more"):
        await coming
    await staying.aclose()
