"""Is this a server to trust with work, and a fleet that this program understands? Asked when a process connects."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from envelope.logs import get_logger

from ..errors import Misconfigured, NotPermitted, TransportError, Unreachable
from ..keys import PROTOCOL
from .cell import Cell
from .cells import Cells

MIN_VERSION = (6, 2)
# While such a server loads its append-only file, it drops each transaction that its user `default` may not run, and
# every script with two writes is stored as one (redis#14541, valkey#3983). Redis 7.0.15 and 8.0.2 and Valkey 8.1.1 were
# seen to do so; 6.2.14 and Valkey 9.1.2 were seen not to. The mend (redis#14545) came after 8.4.0. Which older lines
# got it later is not known here, so they count as affected: they are refused only with users that nobody should have.
DROPS_SINCE, REDIS_MENDED, VALKEY_MENDED = (7, 0), (8, 6), (9, 1, 2)
DEFAULT_USER = "default"
# Can a script change what texts are to all users' scripts? Ours have locked it where it can be (`lib.lua`).
OPEN_LUA = """
local texts = getmetatable('')
if texts == 'locked' or type(texts) == 'table' and pcall(rawset, texts, '__muster', nil) then return 1 end
return 0
"""
LUA_FAULT = (
    "lets users change each other's scripts (CVE-2025-46818), and has the other faults of its age: whoever has a "
    "worker's password may get an orchestrator's rights"
)
LUA_HINT = "use Redis 6.2.20, 7.2.11, 7.4.6, 8.0.4, 8.2.2, Valkey 7.2.11, 8.0.6, 8.1.4 or newer"
RUNBOOK = "docs/runbooks/RedisForgotTasks.md"
# For a cell that does not answer when others have: a process starts without it.
STARTING_PATIENCE_S = 2.0

_log = get_logger("redis")


async def check(cells: Cells) -> None:
    """`Misconfigured` with what to do about it; what is only unwise is logged.

    A process of a fleet that others have begun starts without the cells that are away: whoever starts when they are
    back checks them.
    """
    clustered = cells.servers.named.kind == "cluster"
    user = cells.servers.named.options.get("username") or DEFAULT_USER
    reached, failure = await _reached(cells, lambda cell: _check_server(cell, clustered=clustered, user=user))
    if failure:
        if not await _has_begun(reached):
            raise failure
        away = [cell.keys.cell for cell in cells.all if cell not in reached]
        _log.warning("cells_not_checked", cells=away, error=failure.message)
    await cells.each(_check_drained, among=reached)  # all of them, before one of them is taken over
    await cells.each(lambda cell: _check_meta(cell, len(cells.all)), among=reached)


async def _reached(
    cells: Cells, look: Callable[[Cell], Awaitable[None]]
) -> tuple[Sequence[Cell], TransportError | None]:
    """The cells that answer, and why another does not. When one has answered the others have `STARTING_PATIENCE_S`."""
    looking = {asyncio.ensure_future(look(cell)): cell for cell in cells.all}
    await asyncio.wait(looking, return_when=asyncio.FIRST_COMPLETED)
    _, silent = await asyncio.wait(looking, timeout=STARTING_PATIENCE_S if len(cells.all) > 1 else None)
    for one in silent:
        one.cancel()
    await asyncio.gather(*silent, return_exceptions=True)
    failure: TransportError | None = Unreachable("a Redis server of the fleet is silent") if silent else None
    for one in looking.keys() - silent:
        if isinstance(error := one.exception(), Unreachable):
            failure = error
        elif error:
            raise error
    return [cell for one, cell in looking.items() if one not in silent and not one.exception()], failure


async def _has_begun(cells: Sequence[Cell]) -> bool:
    """A program of this version was here before."""
    kept = [await cell.client.call("HGET", cell.keys.name("meta"), "protocol") for cell in cells]
    return str(PROTOCOL).encode() in kept


async def _check_server(cell: Cell, *, clustered: bool, user: str) -> None:
    client = cell.client.hasty()
    text = (await client.call("INFO")).decode()
    info = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    before_ms = time.time() * 1000
    seconds, micros = await client.call("TIME")
    ours_ms = (before_ms + time.time() * 1000) / 2
    _refuse_unfit(info, clustered=clustered)
    if user != DEFAULT_USER and _drops_transactions(info):  # what `default` itself does, it may do again
        await _refuse_forgetful(cell, info)
    _refuse_clock(int(seconds) * 1000 + int(micros) / 1000 - ours_ms, cell.limits.replay_window_ms)
    if cell.keys.cell == 0:
        _warn(info)
        _warn_of_unknown(info)
        _warn_of_replicas(info, cell.limits.wait_replicas)


def _refuse_unfit(info: Mapping[str, str], *, clustered: bool) -> None:
    version, policy = info.get("redis_version", ""), info.get("maxmemory_policy", "noeviction")
    if (numbers := _numbers(version)) and numbers < MIN_VERSION:
        raise Misconfigured(f"the Redis server is {version}, older than 6.2", hint="upgrade the Redis server")
    if policy != "noeviction":
        raise Misconfigured(
            f"the Redis server would drop tasks when its memory is full: its maxmemory-policy is {policy}",
            hint="run: redis-cli config set maxmemory-policy noeviction; of a managed service set it in its parameters",
        )
    if info.get("cluster_enabled") == "1" and not clustered:
        raise Misconfigured("the Redis server is a node of a cluster", hint="write redis+cluster://HOST:PORT")
    if info.get("role") == "slave":
        raise Misconfigured(
            "the Redis server is a replica, and takes no writes",
            hint=f"write its master's address ({info.get('master_host')}), or redis+sentinel://HOST:PORT/SERVICE/0",
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _drops_transactions(info: Mapping[str, str]) -> bool:
    """Whether this server has a file to load, and drops what its default user may not do. Valkey calls itself 7.2. A
    server that tells no version may be one of them."""
    if info.get("aof_enabled") != "1":
        return False
    if valkey := info.get("valkey_version"):
        return _numbers(valkey) < VALKEY_MENDED
    version = _numbers(info.get("redis_version", ""))
    return not version or DROPS_SINCE <= version < REDIS_MENDED


async def _refuse_forgetful(cell: Cell, info: Mapping[str, str]) -> None:
    """`Misconfigured` when a restart of this server would forget what the fleet's scripts have written."""
    key = cell.keys.name("meta")
    writes = (("SET", key, "1"), ("HSET", key, "f", "1"), ("ZADD", key, "1", "m"), ("XADD", key, "*", "f", "1"))
    dry = [("ACL", "DRYRUN", DEFAULT_USER, *write) for write in (*writes, ("DEL", key))]
    version = info.get("valkey_version") or info.get("redis_version", "of no known version")
    try:
        if all(reply == b"OK" for reply in await cell.client.hasty().read_many(dry)):
            return
        what = f"the Redis server ({version}) forgets tasks when it restarts: its user `default` may not run what "
    except NotPermitted:  # as with the users of an older release, whose `default` may do nothing
        what = (
            f"the Redis server ({version}) may forget tasks when it restarts: it does not tell us (ACL DRYRUN) whether "
            "its user `default` may run what "
        )
    except Unreachable:
        raise
    except TransportError as error:  # a service that has no such command
        _log.warning("redis_default_user_unknown", why=error.message, hint=f"see {RUNBOOK}")
        return
    raise Misconfigured(
        f"{what}its append-only file holds",
        hint="make users.acl anew from this release's, with the same passwords (docs/redis.md, Users); ACL LOAD it, or "
        "restart the server with it. Do not run BGREWRITEAOF: what a restart forgot is in the file until then, and "
        f"{RUNBOOK} brings it back",
    )


async def lua_fault(cell: Cell) -> str:
    """Found by trying it, not for those who may only read: distributions mend servers and leave their numbers."""
    try:
        is_open = await cell.client.hasty().call("EVAL", OPEN_LUA, 1, cell.keys.name("meta"))
    except NotPermitted:
        return ""
    return LUA_FAULT if is_open else ""


def _refuse_clock(ahead_ms: float, window_ms: int) -> None:
    """Half of the window is left for what happens between the making of a request and its arrival."""
    if abs(ahead_ms) > window_ms / 2:
        word = "ahead of" if ahead_ms > 0 else "behind"
        raise Misconfigured(
            f"the Redis server's clock is {abs(ahead_ms) / 1000:.0f} s {word} this machine's, and submissions that "
            f"differ by {window_ms / 1000:.0f} s are refused",
            hint="set both clocks (chrony, systemd-timesyncd)",
        )


def _warn(info: Mapping[str, str]) -> None:
    if info.get("aof_enabled") == "0":
        _log.warning(
            "redis_may_forget",
            why="it has no append-only file: what it accepted after its last snapshot is gone when it is killed",
            hint="run: redis-cli config set appendonly yes",
        )
    # Redis tells of good replicas only where it waits for any.
    if info.get("connected_slaves", "0") not in ("", "0") and "min_slaves_good_slaves" not in info:
        _log.warning(
            "redis_failover_may_forget",
            why="it acknowledges writes that no replica has: submitters send again what a failover has forgotten",
            hint="run: redis-cli config set min-replicas-to-write 1",
        )


# What a service may leave out of INFO, and what is not checked then.
_TOLD = {
    "redis_version": "whether it is 6.2 or newer",
    "maxmemory_policy": "whether it drops tasks when its memory is full",
}


def _warn_of_unknown(info: Mapping[str, str]) -> None:
    for field, what in _TOLD.items():
        if field not in info:
            _log.warning(
                "redis_not_checked",
                why=f"its INFO has no {field}: nobody here can tell {what}",
                hint="look at the service's settings: it must be noeviction, and 6.2 or newer",
            )


def _warn_of_replicas(info: Mapping[str, str], wanted: int) -> None:
    connected = info.get("connected_slaves", "")
    if connected.isdecimal() and int(connected) < wanted:
        _log.warning(
            "redis_too_few_replicas",
            why=f"{wanted} replicas have to confirm what is accepted, and it has {int(connected)}: it accepts nothing",
            hint="start the replicas, or lower MUSTER_REDIS_WAIT_REPLICAS",
        )


async def _check_meta(cell: Cell, count: int) -> None:
    """The fleet's protocol and its number of cells, as whoever was here first has written them down."""
    name = cell.keys.name("meta")
    protocol, cells = await cell.client.call("HMGET", name, "protocol", "cells")
    if int(protocol or 0) > PROTOCOL:
        raise Misconfigured(
            f"the fleet {cell.keys.fleet!r} speaks protocol {int(protocol)}, this program {PROTOCOL}",
            hint="upgrade this program to the version of the fleet's others",
        )
    if cells is not None and int(cells) != count:
        raise Misconfigured(
            f"the fleet {cell.keys.fleet!r} has {int(cells)} cells, this program was told {count}",
            hint=f"set MUSTER_CELLS={int(cells)}, as for the fleet's other programs",
        )
    if int(protocol or 0) < PROTOCOL:
        await _write_meta(cell, name, count)


async def _check_drained(cell: Cell) -> None:
    """Nobody would find what stands in line under the keys of an older protocol."""
    protocol = int(await cell.client.call("HGET", cell.keys.name("meta"), "protocol") or PROTOCOL)
    if protocol < PROTOCOL and await cell.client.call("ZRANGE", cell.keys.name("deadlines"), 0, 0):
        raise Misconfigured(
            f"the fleet {cell.keys.fleet!r} speaks protocol {protocol} and has tasks that have not ended",
            hint="let its own version finish or cancel them, stop its programs, then start this version's; "
            "or use another MUSTER_FLEET",
        )


async def _write_meta(cell: Cell, name: str, count: int) -> None:
    try:
        # of two that start together, the second finds the first one's number
        written = await cell.client.call("HSETNX", name, "cells", count)
        await cell.client.call("HSET", name, "protocol", PROTOCOL)
    except NotPermitted:
        return  # a role that only reads: the first one that may write does it
    if not written:
        await _check_meta(cell, count)
