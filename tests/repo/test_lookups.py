"""Names whose servers say nothing: who asks for them waits alone."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from repo import lookups


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The system's resolver, which waits for `slow.example` until the end."""
    end, real = threading.Event(), socket.getaddrinfo

    def asked(host: str, *words: Any, **more: Any) -> Any:
        if host.endswith("slow.example"):
            end.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return real(host, *words, **more)

    monkeypatch.setattr(socket, "getaddrinfo", asked)
    yield end
    end.set()


async def test_others_are_told_and_all_else_has_its_threads(silent: threading.Event):
    asked = [asyncio.create_task(lookups.addresses_of(f"{n}.slow.example", 80, "a")) for n in range(100)]
    await asyncio.sleep(0)

    try:
        async with asyncio.timeout(5):
            assert await lookups.addresses_of("127.0.0.1", 80, "b") == ["127.0.0.1"]
            assert await asyncio.gather(*(asyncio.to_thread(str, n) for n in range(20)))
    finally:
        silent.set()
        assert all(isinstance(each, OSError) for each in await asyncio.gather(*asked, return_exceptions=True))


async def test_a_lookup_ends_in_time(silent: threading.Event, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lookups, "LOOKUP_S", 0.05)

    with pytest.raises(TimeoutError):
        await lookups.addresses_of("slow.example", 80, "a")
