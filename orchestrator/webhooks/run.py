"""The webhooks of a fleet, as each of its orchestrators runs them at once: noticing, sending, trying again.

Nobody is in charge. What happened is written down as notices by whoever moves the fleet's mark, and a notice is sent
by whoever was given it; both are single steps in the store. An orchestrator that is killed anywhere is replaced by
the next one that looks.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from envelope.logs import get_logger
from transport.base import Transport
from transport.notices import Notice, Notices

from .config import Webhook
from .sending import Arrived, Failed, send
from .telling import Telling

# After each try that failed: about a day in all, as receivers' outages last hours at most.
PAUSES_S = (5.0, 60.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 36_000.0)
JITTER = 0.1  # of a pause: many that failed together do not come back together
AT_ONCE = 32
READ_S = 10.0  # a reader that hears nothing comes back so often
LOOK_S = 10.0  # as does a sender: another's death tells nobody

_log = get_logger("webhooks")


@dataclass(slots=True)
class Webhooks:
    """Of one cell. `timeout_s`: for one try; half as long again after it another orchestrator may try."""

    notices: Notices
    telling: Telling
    timeout_s: float
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _under_way: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._notice())
            group.create_task(self._send(group))

    async def _notice(self) -> None:
        while True:
            news = await self.notices.read(wait_s=READ_S)
            now_ms = await self.telling.transport.now_ms()
            told = [await self.telling.notices_of(each, now_ms=now_ms) for each in news.happenings]
            if news.happenings and await self.notices.take(news, [one for several in told for one in several]):
                self._wake.set()

    async def _send(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._wake.clear()
            free = AT_ONCE - len(self._under_way)
            sending_ms = int(self.timeout_s * 1500)
            due = await self.notices.due(limit=free, sending_ms=sending_ms) if free else None
            for notice in due.notices if due else ():
                task = group.create_task(self._try(notice))
                self._under_way.add(task)
                task.add_done_callback(self._done)
            if due and due.notices:
                continue
            pause_s = LOOK_S if due is None or due.next_ms is None else min(LOOK_S, (due.next_ms + 1) / 1000)
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._wake.set()

    async def _try(self, notice: Notice) -> None:
        hook = self.telling.hooks.get(notice.hook)
        if hook is None:
            await self.notices.failed(notice, "there is no webhook of this name any more", again_in_ms=None)
            return
        message = await self.telling.message(notice)
        if message is None:  # it was answered meanwhile, or is kept no more
            _log.info("webhook_not_needed", hook=notice.hook, notice=notice.id)
            await self.notices.sent(notice)
            return
        outcome = await send(hook, notice.id, message, timeout_s=self.timeout_s)
        if isinstance(outcome, Arrived):
            await self.notices.sent(notice)
            return
        again_in_ms = _again_in_ms(notice, outcome)
        _log.warning("webhook_failed", hook=notice.hook, notice=notice.id, tries=notice.tries, error=outcome.why)
        await self.notices.failed(notice, outcome.why, again_in_ms=again_in_ms)


def _again_in_ms(notice: Notice, failed: Failed) -> int | None:
    if failed.for_good or notice.tries > len(PAUSES_S):
        return None
    pause_s = PAUSES_S[notice.tries - 1] * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
    return int(max(pause_s, failed.retry_after_s) * 1000)


async def run_webhooks(
    transport: Transport, hooks: dict[str, Webhook], *, public_url: str = "", timeout_s: float = 10.0
) -> None:
    """Until cancelled. What is under way then is sent again by another, under the same id."""
    telling = Telling(transport, hooks, public_url)
    async with asyncio.TaskGroup() as group:
        for notices in transport.notices:
            group.create_task(Webhooks(notices, telling, timeout_s).run())
