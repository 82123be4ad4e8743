"""A repository's server is whoever a tenant names: what it sends has an end here."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from repo.cache import collect_repositories
from repo.errors import GitFailed, RepositoryTooLarge
from repo.git import git
from repo.incoming import INCOMING, take_incoming
from repo.keeping import Allowance
from repo.lock import file_lock
from repo.mirror import mirror_of

COMMIT = "1" * 40
MIB = 1024 * 1024
MAX_BYTES = 32 * MIB

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def line(data: bytes) -> bytes:
    return b"%04x" % (len(data) + 4) + data


def head_of_pack() -> bytes:
    """200 objects (so that git keeps the pack as it comes), the first a blob of 2^45 bytes."""
    size, first = 1 << 41, 0xB0
    encoded = bytearray([first])
    while size:
        encoded[-1] |= 0x80
        encoded.append(size & 0x7F)
        size >>= 7
    return b"PACK" + struct.pack("!II", 2, 200) + bytes(encoded) + b"\x78\x01"


async def endless_pack(writer: asyncio.StreamWriter) -> None:
    writer.write(line(b"packfile\n") + line(b"\x01" + head_of_pack()))
    stored = b"\x00" + struct.pack("<HH", 65_000, 65_000 ^ 0xFFFF) + os.urandom(65_000)  # one block of deflate
    while True:
        writer.write(line(b"\x01" + stored))
        await writer.drain()


@asynccontextmanager
async def served(answer: Answer) -> AsyncGenerator[str]:
    """A server of one commit, whose pack is what `answer` writes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while asked := await reader.readline():
                length = 0
                while (header := await reader.readline()) not in (b"\r\n", b""):
                    name, _, value = header.decode().partition(":")
                    length = int(value) if name.lower() == "content-length" else length
                body = await reader.readexactly(length)
                kind = b"application/x-git-upload-pack-" + (b"advertisement" if b"/info/refs" in asked else b"result")
                begin = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n"
                if b"/info/refs" in asked:
                    told = line(b"# service=git-upload-pack\n") + b"0000" + line(b"version 2\n") + line(b"ls-refs\n")
                    told += line(b"fetch=shallow\n") + line(b"object-format=sha1\n") + b"0000"
                elif b"command=ls-refs" in body:
                    told = line(COMMIT.encode() + b" refs/heads/main\n") + b"0000"
                else:
                    writer.write(begin + b"Connection: close\r\n\r\n")
                    await answer(writer)
                    return
                writer.write(begin + b"Content-Length: %d\r\n\r\n" % len(told) + told)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x.git"


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_a_fetch_ends_at_a_size_and_nothing_of_it_stays(tmp_path: Path):
    most = 0

    async def noting(writer: asyncio.StreamWriter) -> None:
        nonlocal most
        sending = asyncio.create_task(endless_pack(writer))
        while not sending.done():
            most = max(most, bytes_in(tmp_path / "cache"))
            await asyncio.wait({sending}, timeout=0.05)
        await sending

    async with served(noting) as url:
        with pytest.raises(RepositoryTooLarge, match="it is more than 32 MiB") as refused:
            await mirror_of(tmp_path / "cache", url=url, commit=COMMIT, protocols=("http",), max_bytes=MAX_BYTES)
    assert "smaller" in refused.value.hint
    assert MIB < most <= MAX_BYTES + MIB
    assert bytes_in(tmp_path / "cache") < MIB


async def test_nothing_of_a_cancelled_fetch_stays(tmp_path: Path):
    async with served(endless_pack) as url:
        fetching = asyncio.create_task(mirror_of(tmp_path / "cache", url=url, commit=COMMIT, protocols=("http",)))
        await until(lambda: bytes_in(tmp_path / "cache") > 4 * MIB)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
    assert bytes_in(tmp_path / "cache") < MIB


async def test_a_list_of_branches_without_an_end_takes_a_bounded_memory():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kind = b"application/x-git-upload-pack-advertisement"
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " + kind + b"\r\n\r\n")
        writer.write(line(b"# service=git-upload-pack\n") + b"0000")
        with suppress(ConnectionError):
            while True:
                writer.write(line(COMMIT.encode() + b" refs/heads/" + b"x" * 900 + b"\n") * 64)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x.git"
        with pytest.raises(GitFailed):
            await git("ls-remote", url, git_dir=None, protocols=("http",), max_memory_bytes=64 * MIB, timeout_s=20)


async def test_what_a_killed_fetch_left_is_removed_by_the_next_and_by_the_collector(tmp_path: Path, user: Any):
    user.commit({"a": "1"})
    mirror = await mirror_of(tmp_path / "cache", url=str(user.root), commit="main", protocols=("file",))
    left = mirror.git_dir / INCOMING / "pack/tmp_pack_x"
    for comes_back in (
        lambda: mirror_of(tmp_path / "cache", url=str(user.root), commit="main", protocols=("file",)),
        lambda: collect_repositories(tmp_path / "cache", Allowance(1e9, 1 << 60), now_s=0),
    ):
        left.parent.mkdir(parents=True)
        left.write_bytes(b"x" * MIB)
        await comes_back()
        assert not left.parent.parent.exists()


async def test_who_fetches_is_left_alone_by_the_collector(tmp_path: Path, user: Any):
    user.commit({"a": "1"})
    mirror = await mirror_of(tmp_path / "cache", url=str(user.root), commit="main", protocols=("file",))
    (mirror.git_dir / INCOMING).mkdir()
    async with file_lock(mirror.git_dir.with_suffix(".lock")):
        await collect_repositories(tmp_path / "cache", Allowance(1e9, 1 << 60), now_s=0)
        assert (mirror.git_dir / INCOMING).exists()


async def test_a_pack_whose_fetch_was_killed_behind_it_is_taken(tmp_path: Path, user: Any):
    user.commit({"a": "1"})
    mirror = await mirror_of(tmp_path / "cache", url=str(user.root), commit="main", protocols=("file",))
    commit = await mirror.resolve("main")
    (mirror.git_dir / INCOMING).mkdir()
    (mirror.objects / "pack").rename(mirror.git_dir / INCOMING / "pack")
    (mirror.objects / "pack").mkdir()
    take_incoming(mirror.git_dir)
    assert await mirror.tree(commit) == user.git("rev-parse", "HEAD^{tree}")
