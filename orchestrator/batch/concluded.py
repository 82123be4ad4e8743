"""What the repositories of a batch came to, kept under the lease of its driver: a later attempt has the others to do.

A chain of blobs: each holds one repository and the name of the one before it, and the last is the task's checkpoint.
So the thousandth costs no more to keep than the first. What cannot be read any more is done again, and comes to the
same: content keys lead to the same tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from envelope.events import Event
from envelope.ids import BlobRef
from envelope.messages import Attachment, ErrorInfo
from envelope.wire import Wire
from transport.errors import NotFound

from ..driver import Driver
from .merge import steps_of
from .report import RepositoryReport


class RepositoryOutcome(Wire):
    """`keys` are of its shards; the first error is the gravest. `final`: another attempt would come to no other."""

    report: RepositoryReport
    keys: tuple[str, ...]
    bundle: Attachment | None = None
    errors: tuple[ErrorInfo, ...] = ()
    kept: tuple[Attachment, ...] = ()  # patches that did not land
    final: bool = True

    def events(self) -> Iterator[Event]:
        """What whoever watches is told of it; of an attempt before this one nobody listens to that any more."""
        report = self.report
        yield from (shard.evidence for shard in report.shards if shard.evidence is not None)
        yield from report.evidence.runs or filter(None, (report.before,))
        yield from steps_of(report.shards, report.collisions)


class _Link(Wire):
    before: BlobRef | None
    outcome: RepositoryOutcome


@dataclass(slots=True)
class Concluded:
    """`known`: by name, those that an attempt before this one has concluded."""

    driver: Driver
    known: dict[str, RepositoryOutcome] = field(default_factory=dict[str, RepositoryOutcome])
    _last: BlobRef | None = None
    _keeping: asyncio.Lock = field(default_factory=asyncio.Lock)  # each link names the one before it

    @classmethod
    async def of(cls, driver: Driver) -> Concluded:
        """What earlier attempts of this driver have come to, told again; the chain is read from its newest link."""
        last = driver.delivery.claim.checkpoint
        found, at = cls(driver, _last=last), last
        while at is not None:
            link = await _read(driver, at)
            if link is None:
                break
            found.known[link.outcome.report.name] = link.outcome
            at = link.before
        await driver.report(*(event for outcome in found.known.values() for event in outcome.events()))
        return found

    async def keep(self, outcome: RepositoryOutcome) -> None:
        """Fenced. The driver has come to something with it that no later attempt will do again."""
        async with self._keeping:
            link = _Link(before=self._last, outcome=outcome)
            blob = await self.driver.transport.blobs.put(link.model_dump_json(exclude_unset=True).encode())
            await self.driver.save(blob)
            self._last = blob


async def _read(driver: Driver, blob: BlobRef) -> _Link | None:
    """None for what is gone, and for what another version of ours wrote in other words."""
    try:
        return _Link.model_validate_json(await driver.transport.blobs.get(blob))
    except (NotFound, ValueError):
        return None
