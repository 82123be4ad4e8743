"""Publication from Python; the command line and the API use nothing else for what goes to a remote.

It is done in the process that asks for it, which holds the forges' tokens and the book: no worker ever has either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from envelope.errors import ErrorCode, MusterError
from repo.errors import RepoError
from transport.audit import Decision

from ..errors import BadInput, OrchestratorError, code_of
from ..looking import PUBLISHES, require_writing
from ..records import Records
from ..settings import Settings
from .book import STUCK, UNFINISHED, WAITS_FOR_PEOPLE, Book, Publication, Stage
from .errors import ForgeDown, ForgeLimits
from .forges.http import Pace
from .publisher import Publisher
from .settings import ForgeSettings
from .telling import close, comment
from .terms import OUTSIDE, Form, Terms
from .told import UNPROVED, Told, told_of

if TYPE_CHECKING:
    from .changes import Change  # which takes a while to load, and looking at what there is needs none of it

Stale = Callable[[Publication, ForgeDown | ForgeLimits | BadInput], object]


def _tell_nobody(_publication: Publication, _error: MusterError) -> None: ...


@dataclass(frozen=True, slots=True)
class Published:
    """What was published from here, and what people have done with it since. Needs no fleet."""

    publisher: Publisher

    @classmethod
    def of(
        cls, settings: Settings, forges: Mapping[str, ForgeSettings] | None = None, pace: Pace | None = None
    ) -> Self:
        """`forges`: those that may be used; None: all of the settings. What the `pace` does not wait for is held."""
        book = Book(settings.state_dir / "publications")
        return cls(Publisher(book, settings.forges if forges is None else forges, pace or Pace()))

    def known(self, ends: Sequence[str] = ()) -> list[Publication]:
        """What was published from here, the latest first: of tasks whose ids end so, or of all."""
        return [each for each in self.publisher.book.all() if not ends or any(map(each.task_id.endswith, ends))]

    async def look(self, publications: Iterable[Publication], stale: Stale = _tell_nobody) -> list[Publication]:
        """As their forges have them now. One that does not answer leaves what was seen last, and `stale` hears it."""
        seen: list[Publication] = []
        for each in publications:
            try:
                seen.append(await self.publisher.look(each))
            except (ForgeDown, ForgeLimits, BadInput) as e:
                stale(each, e)
                seen.append(each)
        return seen

    async def waiting(self, publications: Iterable[Publication], stale: Stale = _tell_nobody) -> list[Publication]:
        """Those whose requests are open now."""
        looked_at = await self.look((each for each in publications if each.number), stale)
        return [each for each in looked_at if each.stage in WAITS_FOR_PEOPLE]

    async def comment(self, publications: Iterable[Publication], text: str) -> int:
        """Say something on their requests, each once however often it is asked for; on how many it is new."""
        require_words(text)
        return sum([await comment(self.publisher, each, text) for each in publications])

    async def closable(self, publications: Sequence[Publication], stale: Stale = _tell_nobody) -> list[Publication]:
        """Those whose requests are open now, and what is stuck before there was any."""
        stuck = [each for each in publications if each.stage in STUCK and not each.number]
        return [*await self.waiting(publications, stale), *stuck]

    async def close(self, publications: Iterable[Publication]) -> list[Publication]:
        """Close their requests, and give up those that have none yet; the branches stay."""
        return [
            await (close(self.publisher, each) if each.number else self.publisher.give_up(each))
            for each in publications
        ]


@dataclass(frozen=True, slots=True)
class Publications:
    """`Muster.publications`: what goals and batches have made, on its way to where people review it."""

    muster: Records
    publisher: Publisher

    @property
    def published(self) -> Published:
        return Published(self.publisher)

    async def changes(self, task_id: str) -> list[Change]:
        """What there is to publish of an ended task. `BadInput` when that is nothing, or not yet."""
        from .changes import changes_of

        return await changes_of(self.muster, task_id)

    async def publish(
        self, task_id: str, *, branch: str = "", repositories: Mapping[str, Path] = {}, by: str = "api", **terms: Any
    ) -> list[Told]:
        """Push a task's change, or make the requests for it; again, and they are brought up to date.

        `terms`: the fields of `Terms`, over what the batch's document says. `repositories`: local ones, by name.
        No error stops the next repository's.
        """
        changes = await self.changes(task_id)
        asked = [(change, terms_of(change, terms)) for change in changes]
        return [
            await self.publish_change(
                change, each, branch or change.branch, repository=repositories.get(change.repository), by=by
            )
            for change, each in asked
        ]

    async def publish_change(
        self, change: Change, terms: Terms, branch: str, *, by: str, repository: Path | None = None
    ) -> Told:
        """What stops it is in what comes back. `WouldWrite` where the settings let this process only look."""
        require_writing(self.muster.settings, PUBLISHES)
        if (no := unproved(change, terms, branch)) is not None:
            return no
        try:
            if terms.to not in OUTSIDE:
                hint = "say to=request or to=push; `muster publish` sets local branches and writes files"
                raise BadInput(f"{terms.to} is made by the command line alone", hint=hint)
            return await self._publish(change, terms, branch, repository, by)
        except (OrchestratorError, RepoError) as e:
            return refused(change, terms, branch, e)

    async def go_on(self, publications: Sequence[Publication]) -> list[Publication]:
        """With those that are held or were interrupted; who has waited longest is the next to go."""
        require_writing(self.muster.settings, PUBLISHES)
        going = [each for each in publications if each.stage in UNFINISHED]
        return [await self._went_on(each) for each in reversed(going)]

    async def _publish(self, change: Change, terms: Terms, branch: str, repository: Path | None, by: str) -> Told:
        from .changes import mirror_with
        from .wanted import wanted_of

        tenant = (await self.muster.record(change.task_id)).tenant
        wanted = await wanted_of(change, terms, branch, self.publisher.forges, repository=repository, tenant=tenant)
        details = {"remote": wanted.remote, "branch": wanted.branch, "commit": wanted.commit}
        await self.muster.transport.audit.note(Decision(by, "publish", change.task_id, tenant, details))
        async with mirror_with(self.muster, change.task_id, bundle=change.bundle, commit=change.commit) as mirror:
            return told_of(await self.publisher.publish(wanted, mirror))

    async def _went_on(self, publication: Publication) -> Publication:
        from .changes import mirror_with

        task_id, bundle, commit = publication.task_id, publication.bundle, publication.commit
        try:
            async with mirror_with(self.muster, task_id, bundle=bundle, commit=commit) as mirror:
                return await self.publisher.go_on(publication, mirror)
        except (MusterError, RepoError) as e:  # its result is no longer kept, say: the others go on
            return await self.publisher.refuse(publication, e)


def require_words(text: str) -> None:
    if not text.strip():
        raise BadInput("there is nothing in the comment", hint="say what reviewers should know")


def terms_of(change: Change, given: Mapping[str, Any]) -> Terms:
    """What the batch's document says, and what is given here over it."""
    asked = change.asked.model_dump(exclude={"branch"}) if change.asked else {}
    try:
        return Terms.model_validate({**asked, **given})
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False)[0]
        what = fault["msg"].removeprefix("Value error, ")
        raise BadInput(f"{'.'.join(map(str, fault['loc']))}: {what}", hint="see muster publish task --help") from e


def unproved(change: Change, terms: Terms, branch: str) -> Told | None:
    """The line for what may not go; None for what may."""
    if change.may_go(terms):
        return None
    why = change.facts.reason or "nobody has proved it"
    hint = "look at it, then publish it with --unverified, or `unverified = true`"
    return told_about(
        change, terms.to, branch, UNPROVED, reason=f"not verified: {why}", hint=hint, code=ErrorCode.GATE_FAILED
    )


def refused(change: Change, terms: Terms, branch: str, error: OrchestratorError | RepoError) -> Told:
    code = code_of(error) or ErrorCode.INTERNAL
    return told_about(change, terms.to, branch, Stage.REFUSED, reason=str(error), hint=error.hint, code=code)


def told_about(
    change: Change, to: Form, branch: str, stage: str, *, where: str = "", reason: str = "", hint: str = "",
    code: str = "",
) -> Told:  # fmt: skip
    return Told(change.task_id, change.repository, to, branch, change.commit, stage, where, reason, hint, code)
