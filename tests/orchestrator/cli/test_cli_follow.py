"""Whoever stays with a task is told what it asks, also when a word has just woken it as they look."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from envelope.agents import AgentCard, WorkerCard
from envelope.events import AskOpened
from orchestrator.cli.follow import follow
from orchestrator.client import Muster
from orchestrator.session.fold import Session
from transport.base import Wait
from transport.keyring import fresh
from transport.memory import MemoryTransport

BUILDER = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**",))
PUSH = AskOpened(ask_id="ask_1", permission="bash", patterns=("git push *",), question="may I?")


class Slow(MemoryTransport):
    """A look for an ask takes its time: it has `begun`, waits until it may `go_on`, and has `seen` who waits."""

    def __init__(self) -> None:
        super().__init__(keyring=fresh())
        self.begun, self.go_on, self.seen = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def asking(self, **options: Any) -> Any:
        self.begun.set()
        await self.go_on.wait()
        found = await super().asking(**options)
        self.seen.set()
        return found


async def test_an_ask_that_is_not_open_at_the_look_is_told_when_it_is_asked_again(memory_stage, capsys):
    transport = Slow()
    stage = replace(memory_stage, transport=transport, muster=Muster(transport, memory_stage.muster.settings))
    await transport.announce(WorkerCard(worker="w", pool="build", slots=1, agents=(BUILDER,)), ttl_s=600)

    work = await stage.work("push it")
    await work.tell(PUSH)
    assert await transport.park(work.lease, Wait(asks=frozenset({PUSH.ask_id}), first=True))
    view = Session.of(work.task_id, work.lease.trace_id, agent="build", title="push it")
    following = asyncio.create_task(follow(stage.muster, view, as_json=False, may_ask=False))
    async with asyncio.timeout(60):
        await transport.begun.wait()
        await stage.muster.prompt(work.task_id, "wait, not to main")
        transport.go_on.set()
        await transport.seen.wait()
        await (await stage.claimed()).ask(PUSH)
        followed = await following

    assert followed.asks
    assert capsys.readouterr().err.count("answer with: muster ask answer ask_1 once") == 1
