"""All users' scripts share one Lua state: what a worker's user can do to it runs with nobody else's rights."""

from __future__ import annotations

import pytest
import redis
from lab.programs import SERVERS, server_program

from orchestrator.doctor import check_all
from transport.errors import TransportError
from transport.keyring import fresh
from transport.keys import CellKeys
from transport.redis import connect_redis

pytestmark = pytest.mark.redis

# Servers before Redis 6.2.20, 7.2.11, 7.4.6, 8.0.4 and 8.2.2 let anybody change how strings behave (CVE-2025-46818).
STOLEN = "redis.pcall('HSET', 'muster:main:registry:tokens', 'stolen', '{}')"
TRAP = f"getmetatable('').__sub = function() {STOLEN} return 0 end return 'set'"
FAKE = f"""
local real = getmetatable('')
real.__sub = function() {STOLEN} return 0 end
real.__metatable = {{__index = string}}
"""


def sprung(raw, claim) -> None:
    """The next script that ends this task calculates with a text."""
    task = CellKeys("main", 0).name("task", claim.lease.task_id)
    raw.hset(task, mapping={"reserved": "x", "cancel": "c", "cancel_ends": 1})
    raw.zadd(CellKeys("main", 0).name("deadlines"), {claim.lease.task_id: 0})


async def test_a_workers_script_changes_nothing_in_an_orchestrators(scene, acl_server, tmp_path, monkeypatch):
    transport = scene.owner.transport
    monkeypatch.setenv("MUSTER_REDIS_URL", acl_server.url("orchestrator"))
    monkeypatch.setenv("MUSTER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("MUSTER_CONFIG", str(tmp_path / "none.toml"))
    [told] = [check for check in await check_all() if check.part == "Redis"]
    assert ("CVE-2025-46818" in told.found) == (scene.raw.info()["redis_version"] == "6.2.14")

    with pytest.raises(redis.ResponseError):
        scene.raw.eval(TRAP, 0)
    sprung(scene.raw, scene.claim)
    with pytest.raises(TransportError):
        await transport.reap()

    assert await transport.registry.get("tokens", "stolen") is None


@pytest.mark.parametrize(("trap", "is_found"), [(TRAP, False), (FAKE, True)], ids=["trap", "behind a fake"])
@pytest.mark.parametrize("program", SERVERS)
async def test_a_trap_from_before_the_first_script_is_no_trap(start_redis, make_memory_fleet, program, trap, is_found):
    """It is taken out; where it hides, nothing is done on this server."""
    server = start_redis(program=server_program(program))
    with redis.Redis(port=server.port) as raw:
        try:
            raw.eval(trap, 0)
            is_set = True
        except redis.ResponseError:  # this server holds by itself
            is_set = False
        kind = type(await make_memory_fleet())
        url = f"redis://127.0.0.1:{server.port}/0"
        if is_set and is_found:
            transport = await connect_redis(url, keyring=fresh(), fleet="main")
            with pytest.raises(TransportError, match="changed what texts are"):
                await kind(transport, name="main", url=url).submit()
            await transport.close()
        else:
            transport = await connect_redis(url, keyring=fresh(), fleet="main")
            fleet = kind(transport, name="main", url=url)
            await fleet.submit()
            sprung(raw, await fleet.claim_one())
            with pytest.raises(TransportError):
                await transport.reap()
            await transport.close()

        assert raw.hget("muster:main:registry:tokens", "stolen") is None
