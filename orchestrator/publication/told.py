"""What became of a change that was to be published, as people and programs are told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .book import Publication

UNPROVED = "not published"


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one repository's change. `stage`: intended, held, refused, pushed, draft, open, merged, closed;
    set or written, for what stays here; `not published`, for what nobody has proved. `where`: what a person opens to
    see it. `code`: of the error that stopped it."""

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

    def line(self) -> tuple[str, str]:
        about = self.repository or "change"
        place = self.where or f"{self.branch} at {self.commit[:12]}"
        return about, f"{self.stage}: {place}{f' ({self.reason})' if self.reason else ''}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def told_of(publication: Publication) -> Told:
    """What people are told of a publication: nothing of how it is done."""
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
