"""The streams of pages: little is sent, who comes back misses nothing, who may not see any more hears no more."""

from __future__ import annotations

import asyncio
import re
import socket
from dataclasses import replace

from envelope.events import ChildEnded, ChildSpawned, TextDelta, TitleSet
from envelope.ids import new_task_id
from envelope.lifecycle import State
from orchestrator.api.console import live
from orchestrator.client import Muster
from transport.keyring import fresh
from transport.limits import Limits
from transport.redis import connect_redis

TASKS = 1000


async def fan_out(work, count: int) -> list[str]:
    ids = [new_task_id() for _ in range(count)]
    spawned = [ChildSpawned(child_task_id=each, agent="explore", title=f"look at {n}") for n, each in enumerate(ids)]
    for start in range(0, count, 250):
        await work.tell(*spawned[start : start + 250])
    return ids


async def test_of_a_thousand_rows_those_that_changed_are_sent(console):
    work = await console.work("fan out")
    ids = await fan_out(work, TASKS)
    async with asyncio.timeout(60):
        stream = console.news(f"{work.trace}/live")
        name, all_there_is = await anext(stream)
        assert len([part for part in all_there_is if part.startswith("tree-")]) == TASKS + 2
        await work.tell(ChildEnded(child_task_id=ids[7], state=State.ERROR, error="the disk is full"))
        last, parts = await anext(stream)
        assert set(parts) == {"trace-head", "tree-0", "tree-8"}, "the sums, its parent, and itself"
        await stream.aclose()

        await work.tell(TitleSet(title="while nobody listened"))
        back = console.news(f"{work.trace}/live", after=last)
        assert set((await anext(back))[1]) <= {"trace-head", "tree-0"}
        await back.aclose()
        assert name != last


async def test_what_is_sent_is_compressed_for_who_takes_it(console):
    work = await console.work("fan out")
    await fan_out(work, TASKS)
    sizes: dict[str, int] = {}
    for takes in ("gzip", "identity"):
        headers, address = {"Accept-Encoding": takes}, f"{console.url}/console{work.trace}/live"
        async with (
            asyncio.timeout(60),
            console.people["viewer"].get(address, headers=headers, auto_decompress=False) as answer,
        ):
            assert answer.headers.get("Content-Encoding", "identity") == takes
            assert answer.headers["Vary"] == "Accept-Encoding"
            for _ in range(2):
                chunk, whole = b"", False
                while not whole:
                    data, whole = await answer.content.readchunk()
                    chunk += data
            sizes[takes] = len(chunk)
    assert sizes["gzip"] * 8 < sizes["identity"], sizes


async def test_who_loses_their_token_hears_no_more_and_is_led_to_the_sign_in(console, monkeypatch):
    monkeypatch.setattr(live, "SILENCE_S", 0.05)
    work = await console.work("go on")
    async with asyncio.timeout(60):
        async with console.people["viewer"].get(f"{console.url}/console{work.trace}/live") as answer:
            await answer.content.readline()
            await console.tokens.revoke("viewer")
            rest = await answer.content.read()
    assert b"event: end" not in rest, "that would say that there is nothing more to come"
    again = await console.get(f"/console{work.trace}/live", headers={"Accept": "text/event-stream"})
    assert again.status == 401 and "not signed in any more" in again.text
    assert (await console.get(f"/console{work.trace}")).headers["Location"].startswith("/console/sign-in?to=")


async def test_a_browser_that_reads_nothing_for_a_while_is_told_the_latest_alone(console):
    """Its first message fills the way to it; what comes meanwhile is kept by nobody."""
    console.listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    work = await console.work("fan out")
    await fan_out(work, TASKS)
    cookie = "; ".join(f"{each.key}={each.value}" for each in console.people["viewer"].cookie_jar)
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    small.setblocking(False)
    async with asyncio.timeout(60):
        await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", int(console.url.rpartition(":")[2])))
        reader, writer = await asyncio.open_connection(sock=small, limit=4096)
        writer.write(f"GET /console{work.trace}/live HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\n\r\n".encode())
        await reader.readuntil(b"retry: 1000")
        others = console.news(f"{work.trace}/live")
        await anext(others)
        for number in range(8):
            await work.tell(TitleSet(title=f"news {number}"))
            await anext(others)
        await work.end()
        told = b""
        while b"event: end" not in told:
            told += await reader.read(1_000_000)
        writer.close()
    assert told.count(b"\nid: ") <= 3, "all there was, and what it is now"
    assert b"news 7" in told and b"news 3" not in told and b"completed" in told


async def test_a_browser_that_goes_leaves_nothing_behind(console):
    streams = console.app.state.streams
    work = await console.work("go on")
    rooms = next(route.app for route in console.app.routes if getattr(route, "path", "") == "/console").state.rooms
    rooms.linger_s = 0
    async with asyncio.timeout(60):
        readers = [console.news(f"{path}/live") for path in (work.trace, work.task) for _ in range(3)]
        for reader in readers:
            await anext(reader)
        assert sum(streams.open.values()) == len(readers) and len(rooms.open) == 2
        for reader in readers:
            await reader.aclose()
        while sum(streams.open.values()) or rooms.open:
            await asyncio.sleep(0)


async def test_what_nobody_knows_is_a_page_with_a_way_back(console):
    names = ["0" * 32, new_task_id(), "%00", "a" * 3000, "1;%20drop", "%E2%80%AE"]
    for place in ("traces", "tasks", "batches", "asks", "asks/budget", "tasks/{}/diff", "tasks/{}/change.diff"):
        for name in names:
            path = place.format(name) if "{}" in place else f"{place}/{name}"
            page = await console.get(f"/console/{path}", who="admin")
            assert page.status in (404, 422), (path, page.text)
            assert 'href="/console/"' in page.text and "Traceback" not in page.text, path


async def test_a_stream_of_which_the_beginning_is_gone_says_so_and_shows_what_is_known(
    conductor_redis, redis_stage, serve_console, keep_settings
):
    limits = Limits(lease_ms=60_000, max_entries=10)
    transport = await connect_redis(conductor_redis.url, keyring=fresh(), fleet="forgetful", limits=limits)
    stage = replace(redis_stage, transport=transport, muster=Muster(transport, keep_settings))
    async with serve_console(stage) as console:
        work = await console.work("talk")
        ids = await fan_out(work, 3)
        await asyncio.gather(*(work.tell(TextDelta(text=f"{n}, ")) for n in range(400)))
        await work.tell(TitleSet(title="Still at it"))
        task, trace = [(await console.get(f"/console{path}")).text for path in (work.task, work.trace)]
        step = (await console.get(f"/console{work.task}?step=1")).text
    await transport.close()

    assert "earlier events are no longer kept" in task and "earlier events are no longer kept" in step
    assert "Still at it" in task and "Still at it" in trace and ids[0] not in trace
    assert re.search(r"step</label>.*max=\"\d{1,3}\"", task, re.DOTALL)
