"""Uploads that come slowly, or to no end, stand on the disk: of all that is sent, two are in memory."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import tempfile
from dataclasses import replace

import pytest

from orchestrator.api.spooling import SMALL_BYTES, UPLOADS_AT_ONCE, Spool

MIB = 1024 * 1024


def resident_mib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // MIB


async def begin(api, size_bytes: int, sent_bytes: int, who: str = "stranger"):
    """An upload as long as it says, of which so much has been sent."""
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    auth = api.auth(who)["Authorization"]
    head = f"POST /v1/blobs HTTP/1.1\r\nHost: x\r\nAuthorization: {auth}\r\nContent-Length: {size_bytes}\r\n\r\n"
    writer.write(head.encode())
    while sent_bytes > 0:
        writer.write(bytes(min(MIB, sent_bytes)))
        await writer.drain()
        sent_bytes -= MIB
    return reader, writer


async def status_of(reader) -> int:
    return int((await asyncio.wait_for(reader.readline(), 30)).split()[1])


async def store(api, content, who: str) -> int:
    async with api.session.post(f"{api.url}/v1/blobs", data=content, headers=api.auth(who)) as response:
        return response.status


def spooled_files() -> list[os.stat_result]:
    """Large open files of this process in the temporary folder: the runner of the tests has small ones there."""
    found: list[os.stat_result] = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith(f"{tempfile.gettempdir()}/#"):
                found.append(os.stat(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return [file for file in found if file.st_size > MIB]


@pytest.mark.redis
async def test_uploads_that_do_not_end_are_bounded_in_memory_and_leave_nothing(api):
    before_mib, sizes = resident_mib(), 40 * MIB
    held = [await begin(api, sizes, sizes - 1) for _ in range(6)]

    grown_mib, files = resident_mib() - before_mib, spooled_files()
    for _, writer in held:
        writer.close()

    assert grown_mib < 100  # before: 240
    assert [(stat.S_IMODE(file.st_mode), file.st_nlink) for file in files] == [(0o600, 0)] * 6
    async with asyncio.timeout(30):
        while spooled_files():
            await asyncio.sleep(0.02)


@pytest.mark.redis
async def test_who_sends_slowly_keeps_no_place_of_others_and_of_his_own_only_as_many_as_he_has(api):
    held = [await begin(api, 2 * MIB, MIB) for _ in range(UPLOADS_AT_ONCE)]

    assert await store(api, b"x" * MIB, "submitter") == 201
    waiting = asyncio.create_task(store(api, b"y", "stranger"))
    assert await store(api, b"x", "submitter") == 201
    assert not waiting.done()
    held[0][1].close()
    assert await waiting == 201
    for _, writer in held[1:]:
        writer.close()


@pytest.mark.redis
async def test_what_is_over_the_allowance_is_refused_before_it_comes(api):
    cells = api.stage.transport._cells  # pyright: ignore[reportPrivateUsage]
    cells.limits = replace(cells.limits, upload_hour_bytes=8 * MIB)
    assert await store(api, b"x" * 5 * MIB, "stranger") == 201

    for size_bytes, status in ((4 * MIB, 429), (9 * MIB, 422), (65 * MIB, 413)):
        reader, writer = await begin(api, size_bytes, 0)
        assert await status_of(reader) == status
        writer.close()

    assert await store(api, b"x" * 3 * MIB, "stranger") == 201  # what was refused has not counted


@pytest.mark.redis
@pytest.mark.parametrize("says_length", [True, False])
async def test_an_upload_counts_once(api, monkeypatch, says_length):
    sizes: list[int] = []
    real = api.stage.transport.uploads.take

    async def take(tenant: str, size_bytes: int, *, looks: bool = False) -> None:
        sizes.append(size_bytes)
        await real(tenant, size_bytes, looks=looks)

    monkeypatch.setattr(api.stage.transport.uploads, "take", take)

    async def pieces():
        for _ in range(3):
            yield b"z" * MIB

    assert await store(api, b"z" * 3 * MIB if says_length else pieces(), "submitter") == 201
    assert sum(sizes) == 3 * MIB


async def test_two_uploads_are_in_memory_and_the_next_turn_is_for_who_has_none():
    spool, said = Spool(), asyncio.Event()
    inside: list[str] = []

    async def one(who: str) -> None:
        async with spool.whole(who, io.BytesIO(bytes(SMALL_BYTES + 1))) as content:
            inside.append(f"{who} {len(content)}")
            await said.wait()

    many = [asyncio.create_task(one("many")) for _ in range(5)]
    async with asyncio.timeout(20):
        while len(inside) < 2:
            await asyncio.sleep(0.01)
        other = asyncio.create_task(one("other"))
        async with spool.whole("many", io.BytesIO(b"small")) as content:
            assert content == b"small"
        assert len(inside) == 2
        while sum(map(len, spool._memory._waiting.values())) < 4:  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.01)
        said.set()
        await asyncio.gather(*many, other)

    assert len(inside) == 6
    assert inside.index(f"other {SMALL_BYTES + 1}") <= 3
