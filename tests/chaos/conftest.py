"""Each test has a Redis and a fleet of its own, and a template to fork programs from."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lab.fleet import LIMITS, Fleet, MakeFleet
from lab.processes import Nursery
from lab.processes import nursery as open_nursery
from lab.server import Server, redis_server

from transport import keyring
from transport.base import Transport
from transport.limits import Limits

_numbers = itertools.count(1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """For the histories and the programs' logs; pytest keeps those of its last runs."""
    return tmp_path


@pytest_asyncio.fixture
async def server(folder: Path) -> AsyncIterator[Server]:
    async with redis_server(folder / "redis") as found:
        yield found


@pytest_asyncio.fixture
async def nursery(folder: Path) -> AsyncIterator[Nursery]:
    async with open_nursery(folder / "programs.log") as found:
        yield found


@pytest.fixture
def make_fleet(folder: Path, server: Server) -> MakeFleet:
    def make(limits: Limits = LIMITS, url: str = "") -> Fleet:
        name = f"chaos-{next(_numbers)}"
        keys = folder / "keyring.json"
        keyring.load_or_create(keys)
        return Fleet(url or server.url, name, str(keys), str(folder / f"history-{name}"), limits)

    return make


@pytest.fixture
def fleet(make_fleet: MakeFleet) -> Fleet:
    return make_fleet()


@pytest_asyncio.fixture
async def transport(fleet: Fleet) -> AsyncIterator[Transport]:
    """The test's own connection, outside of the history."""
    found = await fleet.connect()
    yield found
    await found.close()
