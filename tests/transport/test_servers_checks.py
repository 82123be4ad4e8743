"""Start-up on servers that tell less about themselves than Redis does."""

from __future__ import annotations

import pytest
import redis.exceptions as library
from structlog.testing import capture_logs

from transport.errors import Misconfigured
from transport.limits import Limits
from transport.redis.cells import Cells
from transport.redis.checks import check
from transport.redis.client import Client
from transport.redis.faults import translated
from transport.redis.servers import Servers

WHOLE = {
    "redis_version": "7.0.15",
    "maxmemory_policy": "noeviction",
    "aof_enabled": "1",
    "role": "master",
    "connected_slaves": "0",
}


@pytest.fixture
def said(redis_server, monkeypatch):
    """What a connecting process says of a server whose INFO is this one, and which is real in all else."""

    async def look(info: dict[str, str], limits: Limits = Limits()) -> list[str]:
        servers, call = Servers(redis_server.url), Client.call

        async def told(self: Client, *command, **rest):
            if command == ("INFO",):
                return "".join(f"{name}:{value}\r\n" for name, value in info.items()).encode()
            return await call(self, *command, **rest)

        monkeypatch.setattr(Client, "call", told)
        cells = Cells(servers, "told", limits)
        try:
            with capture_logs() as logs:
                await check(cells)
        finally:
            await servers.close()
        return [entry["event"] for entry in logs if entry["log_level"] == "warning"]

    return look


@pytest.mark.redis
@pytest.mark.parametrize(
    ("change", "limits", "warned"),
    [
        ({}, Limits(), []),
        ({"redis_version": None}, Limits(), ["redis_not_checked"]),
        ({"maxmemory_policy": None}, Limits(), ["redis_not_checked"]),
        ({"redis_version": "255.255.255"}, Limits(), []),
        ({"redis_version": "unstable"}, Limits(), []),
        ({"redis_version": "7.2-managed"}, Limits(), []),
        ({"connected_slaves": ""}, Limits(), []),
        ({"connected_slaves": None}, Limits(wait_replicas=1), []),
        ({"connected_slaves": "1", "min_slaves_good_slaves": "1"}, Limits(wait_replicas=1), []),
        ({"connected_slaves": "0"}, Limits(wait_replicas=1), ["redis_too_few_replicas"]),
        ({"connected_slaves": "2"}, Limits(), ["redis_failover_may_forget"]),
        ({"aof_enabled": "0"}, Limits(), ["redis_may_forget"]),
        (dict.fromkeys(WHOLE), Limits(), ["redis_not_checked", "redis_not_checked"]),
    ],
    ids=str,
)
async def test_what_a_server_does_not_tell_is_warned_of_and_stops_nobody(said, change, limits, warned):
    info = {name: value for name, value in {**WHOLE, **change}.items() if value is not None}

    assert await said(info, limits) == warned


@pytest.mark.redis
@pytest.mark.parametrize(
    ("change", "why"),
    [({"redis_version": "6.0.20"}, "older than 6.2"), ({"maxmemory_policy": "volatile-lru"}, "would drop tasks")],
)
async def test_what_it_tells_is_held_against_it(said, change, why):
    with pytest.raises(Misconfigured, match=why) as refusal:
        await said(WHOLE | change)

    assert refusal.value.hint


def test_a_server_that_runs_only_scripts_with_declared_keys_is_named_as_such():
    error = library.ResponseError("script tried accessing undeclared key: {muster:main:0}:meta")

    failure = translated(error)

    assert isinstance(failure, Misconfigured)
    assert "Managed services" in failure.hint
