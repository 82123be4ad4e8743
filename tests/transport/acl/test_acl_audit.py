"""The audit log under a worker's password: it can be spoilt, which shows, and it keeps nobody from deciding."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from orchestrator.api.tokens import Role, Tokens
from orchestrator.asks import give, reply_to
from orchestrator.audit import verified
from orchestrator.cli import token as cli
from transport.audit import Decision
from transport.base import Allotment
from transport.errors import TransportError
from transport.keys import CellKeys

pytestmark = pytest.mark.redis

K = CellKeys("main", 0).name
LAST = "18446744073709551615-18446744073709551615"


def replaced(raw, *names: str) -> None:
    for name in names:
        raw.delete(name)
        raw.set(name, "x")


SPOILT = {
    "no more entries": lambda raw: raw.xadd(K("audit"), {"body": "{}", "hash": ""}, id=LAST),
    "an entry far away": lambda raw: raw.xadd(K("audit"), {"body": "[" * 9_000, "hash": "x"}, id="999999999999999-0"),
    "no number": lambda raw: raw.hset(K("audithead"), "seq", "x"),
    "a huge number": lambda raw: raw.hset(K("audithead"), "seq", "9" * 18),
    "no hash": lambda raw: raw.hset(K("audithead"), "hash", b"\xff" * 1_000),
    "no head": lambda raw: raw.delete(K("audithead")),
    "other kinds of keys": lambda raw: replaced(raw, K("audit"), K("audithead"), K("auditseal")),
    "a seal of junk": lambda raw: raw.hset(K("auditseal"), mapping={"seq": "x", b"\xff": b"\xff"}),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
async def test_a_spoilt_log_keeps_nobody_from_deciding_and_shows(scene, spoil):
    transport = scene.owner.transport
    await transport.audit.note(Decision("ann", "token", "ci"))
    await transport.audit.seal({})
    await scene.waits()
    one = await scene.open()

    spoil(scene.raw)
    await verified(transport)
    await give(transport, one, reply_to(one.ask, "reject", message="no"), by="cli:ann@desk")
    await transport.fund("default", 5, by="ann")
    await transport.raise_cap(one.task.trace_id, 5, by="ann")
    await transport.allot("default", Allotment(2.0), by="ann")
    assert await transport.cancel(scene.task_id, by="ann", reason="enough") == 1
    await transport.audit.seal({})

    latest = {entry.fields.get("action") for entry in await transport.audit.latest(10)}
    assert latest >= {"answer", "fund", "allot", "cancel"}
    assert (await verified(transport)).breaks


@pytest.mark.parametrize("junk", ["cap", "tenants", "held"])
async def test_a_tenants_cap_is_set_whatever_stands_there(scene, junk):
    transport = scene.owner.transport
    match junk:
        case "cap":
            scene.raw.hset(K("money", "default"), mapping={"cap": "x", "spent": "x", "reserved": "x"})
        case "tenants":
            replaced(scene.raw, K("tenants"), K("money", "default"))
        case _:
            scene.raw.zadd(K("held", "tenant:default"), {"junk": 1})

    assert (await transport.fund("default", 5, by="ann")).cap_microusd == 5
    await transport.allot("default", Allotment(2.0, 1), by="ann")

    assert (await transport.funds("default")).cap_microusd == 5
    assert (await transport.allotments())["default"].max_running == 1


async def test_a_token_is_revoked_before_it_is_written_down(scene, monkeypatch, capsys):
    tokens = Tokens(scene.owner.transport.registry)
    secret = await tokens.create("leaked", Role.ADMIN, "*")

    async def tokens_of(_):
        return tokens

    class Down:
        async def note(self, decision):
            assert await tokens.find(secret) is None
            raise TransportError("the Redis server is down")

    @contextlib.asynccontextmanager
    async def open_records(_):
        yield SimpleNamespace(transport=SimpleNamespace(audit=Down()))

    monkeypatch.setattr(cli, "open_records", open_records)
    monkeypatch.setattr(cli, "tokens_of", tokens_of)

    await cli._revoke("leaked")

    assert await tokens.find(secret) is None
    assert "is not in the audit log" in capsys.readouterr().err
