"""What a role must not do is refused by the server, by real attempt; and no role may do what its code does not."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis.exceptions

pytestmark = pytest.mark.redis

REDIS_CODE = Path(__file__).parent.parent.parent.parent / "transport" / "redis"
SHARED_SCRIPTS = {"lib", "line", "life"}
# What the transport's methods that workers use run; the orchestrator uses them all.
WORKERS_SCRIPTS = {"announce", "await", "claim", "rate", "renew", "submit", "trim", "write"}
# A first look at the server by a person or a probe, and a URL that names another database than 0.
BESIDES = {"ping", "select"}
ARQ = {
    "dbsize", "watch", "unwatch", "multi", "exec", "psetex", "incrby", "zscore", "zcard", "zrangebyscore", "zadd",
    "zrem", "pexpire", "expire", "exists", "set", "get", "del", "info",
}  # fmt: skip

TOKENS = "muster:main:registry:tokens"  # of the API: orchestrators' alone
OURS, OTHERS, BLOB = "{muster:main:0}:task:1", "{muster:other:0}:task:1", "muster:other:blob:sha256:0"

# To the command itself; to what a script would do; Redis 7 has no DEBUG at all unless its configuration says so.
REFUSAL = re.compile("[Nn]o permissions|The user executing the script can't|DEBUG command not allowed")

NOBODY = [
    ["FLUSHALL"], ["FLUSHDB"], ["SHUTDOWN", "NOSAVE"], ["MONITOR"], ["KEYS", "*"], ["SCAN", "0"], ["RANDOMKEY"],
    ["CONFIG", "GET", "*"], ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"], ["CONFIG", "REWRITE"],
    ["DEBUG", "OBJECT", OURS], ["SCRIPT", "FLUSH"], ["SCRIPT", "KILL"], ["SCRIPT", "LOAD", "return 1"],
    ["REPLICAOF", "NO", "ONE"], ["REPLICAOF", "127.0.0.1", "1"], ["CLUSTER", "RESET"], ["CLUSTER", "NODES"],
    ["ACL", "LIST"], ["ACL", "SETUSER", "eve"], ["ACL", "LOAD"], ["ACL", "WHOAMI"], ["MODULE", "LIST"],
    ["CLIENT", "LIST"], ["CLIENT", "KILL", "TYPE", "normal"], ["CLIENT", "PAUSE", "1"],
    ["SAVE"], ["BGSAVE"], ["BGREWRITEAOF"], ["SWAPDB", "0", "1"], ["SLOWLOG", "RESET"], ["LATENCY", "RESET"],
    ["DUMP", OURS], ["RESTORE", OURS, "0", "x"], ["RENAME", OURS, "x"], ["COPY", OURS, "x"], ["MOVE", OURS, "1"],
    ["MIGRATE", "127.0.0.1", "1", OURS, "0", "1"], ["PUBLISH", "c", "m"], ["SUBSCRIBE", "c"], ["PSUBSCRIBE", "*"],
    ["GET", BLOB], ["HGET", OTHERS, "state"], ["XRANGE", "{muster:other:0}:dead", "-", "+"], ["GET", "anything"],
    ["HGET", "{muster:mai:0}:task:1", "state"], ["HGET", "{muster:main-2:0}:task:1", "state"],
]  # fmt: skip
NO_SCRIPT = [
    "return redis.call('FLUSHALL')", "return redis.call('KEYS', '*')", "return redis.call('SCAN', '0')",
    f"return redis.call('HSET', '{OTHERS}', 'state', 'completed')", f"return redis.call('GET', '{BLOB}')",
    "return redis.call('DEL', '{muster:other:0}:roots')", "return redis.call('SET', 'anything', '1')",
]  # fmt: skip
SCRIPTED = [["EVAL", text, "0"] for text in NO_SCRIPT]
DENIED = {
    "orchestrator": [
        *SCRIPTED, ["SET", BLOB, "x"], ["GET", "arq:job:muster:other:sweep:1"],
        ["HGETALL", "muster:other:registry:tokens"],
    ],
    "worker": [
        *SCRIPTED, ["SET", BLOB, "x"], ["GET", "arq:job:muster:main:sweep:1"], ["ZADD", "muster:main:jobs", "1", "x"],
        ["EVAL", "return redis.call('ZADD', 'muster:main:jobs', 1, 'x')", "0"], ["MULTI"], ["WATCH", OURS],
        ["XDEL", "{muster:main:0}:dead", "1-1"], ["DBSIZE"], ["HGETALL", TOKENS], ["HSET", TOKENS, "0" * 64, "{}"],
        ["HDEL", TOKENS, "0" * 64], ["EVAL", f"return redis.call('HGETALL', '{TOKENS}')", "0"],
    ],
    "reader": [
        ["EVAL", "return 1", "0"], ["EVALSHA", "0" * 40, "0"], ["MULTI"], ["SET", OURS, "1"], ["DEL", OURS],
        ["GETEX", OURS, "PX", "1"], ["EXPIRE", OURS, "1"], ["PERSIST", OURS], ["HSET", OURS, "state", "completed"],
        ["HDEL", OURS, "state"], ["LPUSH", OURS, "x"], ["LPOP", OURS], ["BLPOP", OURS, "1"], ["SADD", OURS, "x"],
        ["ZADD", OURS, "1", "x"], ["ZREM", OURS, "x"], ["XADD", OURS, "*", "m", "x"], ["XDEL", OURS, "1-1"],
        ["XTRIM", OURS, "MAXLEN", "0"], ["ZCARD", "muster:main:jobs"], ["HGETALL", TOKENS],
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("role", "command"),
    [(role, command) for role, commands in DENIED.items() for command in [*NOBODY, *commands]],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_it_is_denied(acl_server: Any, role: str, command: list[str]):
    with acl_server.connect(role) as connection, pytest.raises(redis.exceptions.ResponseError) as denial:
        connection.execute_command(*command)

    assert REFUSAL.search(str(denial.value))


@pytest.mark.parametrize("command", [["PING"], ["GET", OURS], ["FLUSHALL"]], ids=" ".join)
def test_nobody_comes_in_without_a_name(acl_server: Any, command: list[str]):
    with redis.Redis(port=acl_server.port) as connection, pytest.raises(redis.exceptions.AuthenticationError):
        connection.execute_command(*command)


@pytest.mark.parametrize(
    "words",
    [
        *(["AUTH", "default", password] for password in ("", "default", "nopass", "operator")),
        ["AUTH", ""],
        ["AUTH", "operator"],
        ["HELLO", "2", "AUTH", "default", ""],
        ["RESET"],
    ],
    ids=" ".join,
)
def test_nobody_comes_in_as_the_default_user_who_may_do_everything(acl_server: Any, words: list[str]):
    """It is what the server itself runs its file as. RESET makes a connection a nameless one again."""
    connection = redis.Connection(port=acl_server.port, lib_name=None, lib_version=None)
    with suppress(redis.exceptions.ResponseError, redis.exceptions.AuthenticationError):
        connection.send_command(*words)
        connection.read_response()
    connection.send_command("GET", OURS, check_health=False)
    with pytest.raises(redis.exceptions.AuthenticationError):
        connection.read_response()
    connection.disconnect()


def test_a_roles_password_opens_no_other_role(acl_server: Any):
    name, password = "muster-main-orchestrator", acl_server.passwords["worker"]
    with (
        redis.Redis(port=acl_server.port, username=name, password=password) as connection,
        pytest.raises(redis.exceptions.AuthenticationError),
    ):
        connection.ping()


# -- as tight as works


def commands_in(operator: Any, files: list[Path]) -> set[str]:
    """All capital words between quotes that are commands, or a command and its subcommand."""
    known = set(operator.execute_command("COMMAND"))
    found: set[str] = set()
    for file in files:
        text = file.read_text()
        found |= {word.lower() for word in re.findall(r"""["']([A-Z]+)["']""", text)} & known
        pairs = re.findall(r"""["'](CLUSTER|MEMORY|ACL)["'], ["']([A-Z]+)["']""", text)
        found |= {f"{container}|{command}".lower() for container, command in pairs}
    return found - {"cluster", "memory", "acl"}


def in_scripts(operator: Any, role: str) -> set[str]:
    files = sorted((REDIS_CODE / "scripts").glob("*.lua"))
    mine = SHARED_SCRIPTS | WORKERS_SCRIPTS if role == "worker" else {file.stem for file in files}
    return commands_in(operator, [file for file in files if file.stem in mine])


@pytest.mark.parametrize("role", ["orchestrator", "worker"])
def test_it_may_run_every_command_of_its_scripts(acl_server: Any, emptied: Any, role: str):
    """One that is missing would be found by whoever comes to that line, with half of the script done."""
    assert in_scripts(emptied, role) - acl_server.granted(role) == set()


@pytest.mark.parametrize(("role", "others"), [("orchestrator", ARQ), ("worker", set[str]())])
def test_it_may_run_nothing_that_nobody_runs(acl_server: Any, emptied: Any, role: str, others: set[str]):
    in_python = commands_in(emptied, sorted(REDIS_CODE.glob("*.py")))

    assert acl_server.granted(role) - in_scripts(emptied, role) - in_python - others - BESIDES == set()


def test_a_worker_may_do_less_than_an_orchestrator_and_a_reader_writes_nothing(acl_server: Any, emptied: Any):
    assert acl_server.granted("worker") < acl_server.granted("orchestrator")
    facts = emptied.execute_command("COMMAND")
    whole = [command for command in acl_server.granted("reader") if "|" not in command]
    assert [command for command in whole if "write" in facts[command]["flags"]] == []
