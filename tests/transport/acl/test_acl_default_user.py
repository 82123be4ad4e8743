"""Servers that would forget tasks at their next restart are refused, and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from lab.programs import FORGETFUL, SERVERS, server_program
from lab.users import OPERATOR, OPERATOR_RULE, documented_users
from structlog.testing import capture_logs

from orchestrator.doctor import Health, check_all
from transport.errors import Misconfigured
from transport.keyring import fresh
from transport.redis import connect_redis

pytestmark = pytest.mark.redis

RELEASED_BEFORE = ("resetpass", "resetkeys", "resetchannels", "-@all")  # what `default` was in older releases
ROLES = ("orchestrator", "worker", "reader")


@dataclass(frozen=True, slots=True)
class Shipped:
    """A server as docs/redis.md has it."""

    port: int
    passwords: dict[str, str]

    def url(self, role: str) -> str:
        return f"redis://muster-main-{role}:{self.passwords[role]}@127.0.0.1:{self.port}/0"

    def operate(self, *words: str) -> Any:
        with redis.Redis(port=self.port, username=OPERATOR, password=OPERATOR) as operator:
            return operator.execute_command(*words)

    async def connect(self, url: str) -> None:
        await (await connect_redis(url, keyring=fresh())).close()


@pytest.fixture(scope="module")
def ship(start_redis: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Shipped]:
    folder = tmp_path_factory.mktemp("users")
    passwords = documented_users(folder)
    file = folder / "users.acl"
    file.write_text(file.read_text() + OPERATOR_RULE)

    def start(name: str, *options: str) -> Shipped:
        more = ("--aclfile", str(file), "--appendonly", "yes", *options)
        return Shipped(start_redis(*more, program=server_program(name)).port, passwords)

    return start


@pytest.mark.parametrize("name", SERVERS)
async def test_each_role_connects_to_a_server_with_the_shipped_users(ship: Any, name: str):
    server = ship(name)

    with capture_logs() as logs:
        for role in ROLES:
            await server.connect(server.url(role))

    assert [line for line in logs if line["event"] == "redis_default_user_unknown"] == []


@pytest.mark.parametrize("rules", [RELEASED_BEFORE, ("resetkeys", "~cache:*"), ("-@write",), ("-xadd",)], ids=" ".join)
@pytest.mark.parametrize("name", FORGETFUL)
async def test_a_default_user_that_may_not_load_the_file_is_refused(ship: Any, name: str, rules: tuple[str, ...]):
    server = ship(name)
    server.operate("ACL", "SETUSER", "default", *rules)

    for role in ROLES:
        with pytest.raises(Misconfigured, match="forgets tasks when it restarts") as refusal:
            await server.connect(server.url(role))
        for what in ("users.acl", "ACL LOAD", "BGREWRITEAOF", "docs/runbooks/RedisForgotTasks.md"):
            assert what in refusal.value.hint


@pytest.mark.parametrize("name", FORGETFUL)
async def test_users_of_an_older_release_who_may_not_ask_are_refused_too(ship: Any, name: str):
    server = ship(name)
    server.operate("ACL", "SETUSER", "default", *RELEASED_BEFORE)
    server.operate("ACL", "SETUSER", "muster-main-worker", "-acl|dryrun")

    with pytest.raises(Misconfigured, match="may forget tasks when it restarts") as refusal:
        await server.connect(server.url("worker"))
    assert "ACL DRYRUN" in refusal.value.message
    assert "users.acl" in refusal.value.hint


@pytest.mark.parametrize(("name", "options"), [("redis-6.2", ()), ("valkey-9.1", ()), ("redis-7.0", ("no",))])
async def test_a_server_that_loads_all_or_has_no_file_is_not_refused(ship: Any, name: str, options: tuple[str, ...]):
    server = ship(name)
    server.operate("ACL", "SETUSER", "default", *RELEASED_BEFORE)
    for option in options:
        server.operate("CONFIG", "SET", "appendonly", option)

    await server.connect(server.url("worker"))


@pytest.mark.parametrize("name", FORGETFUL)
async def test_who_comes_as_the_default_user_wrote_the_file_as_it_too(ship: Any, name: str):
    """As with `requirepass` alone, or at a service whose one user may not ask about users."""
    server = ship(name)
    server.operate("ACL", "SETUSER", "default", "on", ">secret", "-@admin")

    await server.connect(f"redis://:secret@127.0.0.1:{server.port}/0")


async def test_a_service_that_has_no_such_question_is_warned_of(ship: Any):
    server = ship("redis-7.0", "--rename-command", "ACL", "")

    with capture_logs() as logs:
        await server.connect(server.url("worker"))

    [warning] = [line for line in logs if line["event"] == "redis_default_user_unknown"]
    assert "docs/runbooks/RedisForgotTasks.md" in warning["hint"]


async def test_doctor_tells_of_it(ship: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    server = ship("redis-7.0")
    server.operate("ACL", "SETUSER", "default", *RELEASED_BEFORE)
    monkeypatch.setenv("MUSTER_REDIS_URL", server.url("orchestrator"))
    monkeypatch.setenv("MUSTER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("MUSTER_CONFIG", str(tmp_path / "none.toml"))

    [told] = [check for check in await check_all() if check.part == "Redis"]

    assert told.health is Health.FAILS
    assert "forgets tasks when it restarts" in told.found
    assert "ACL LOAD" in told.mend
