"""What became of publications, as people and programs are told, and as an exit code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from envelope.errors import CODES, ErrorCode, ExitCode

from ..publication.book import Book, Publication
from ..publication.errors import NotPublished
from ..publication.forges.http import Pace
from ..publication.publisher import Publisher
from ..settings import Settings
from .summary import Line


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one change. `where`: what a person opens to see it. `code`: of the error that stopped it."""

    task_id: str
    repository: str
    to: str
    branch: str
    commit: str
    stage: str
    where: str = ""
    reason: str = ""
    hint: str = ""
    code: str = ""

    def line(self) -> Line:
        about = self.repository or "change"
        place = self.where or f"{self.branch} at {self.commit[:12]}"
        return about, f"{self.stage}: {place}{f' ({self.reason})' if self.reason else ''}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def publisher_of(settings: Settings) -> Publisher:
    return Publisher(Book(settings.state_dir / "publications"), settings.forges, Pace())


def told_of(publication: Publication) -> Told:
    return Told(
        task_id=publication.task_id,
        repository=publication.repository,
        to=publication.terms.to,
        branch=publication.branch,
        commit=publication.commit,
        stage=publication.stage,
        where=publication.url,
        reason=publication.reason,
        hint=publication.hint,
        code=publication.code,
    )


def require_published(told: Iterable[Told]) -> None:
    """`NotPublished` with the first that was stopped by an error; what only waits for its time is none."""
    every = list(told)
    failed = [each for each in every if each.code]
    if not failed:
        return
    first = failed[0]
    own = CODES[ErrorCode(first.code)].exit_code
    exit_code = own if len(failed) == len(every) else ExitCode.PARTIAL
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    name = f"{first.repository}: " if first.repository else ""
    raise NotPublished(f"{name}{first.reason}{more}", hint=first.hint, exit_code=exit_code)
