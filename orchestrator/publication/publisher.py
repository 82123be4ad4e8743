"""One change, published: the intent is written, the remote is looked at, something is done, and what was done is noted.

Killed anywhere and begun again, there is one branch and one request: the branch is set by compare-and-set, a forge has
at most one open request for a branch, and both are looked for first.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from envelope.errors import ErrorCode, MusterError
from repo.errors import DiskFull, GitTimedOut, RemoteDown, RepoError
from repo.mirror import Mirror
from repo.remotes import push_branch
from transport.errors import Unreachable

from ..errors import BadInput, OrchestratorError, code_of
from .address import read_address
from .body import commit_in, with_block
from .book import MAX_PUSHED, STUCK, WAITS_FOR_PEOPLE, Book, Publication, Stage, is_anothers
from .errors import ForgeDown, ForgeLimits, ForgeRefused, ForgeUnsure
from .forges.base import ALIVE, Forge, Found, RequestState, Wanted
from .forges.http import Pace
from .forges.table import open_forge
from .limits import Limits
from .patience import pause_s
from .place import Place, remote_of
from .rollout import cap_reason, window_reason
from .settings import ForgeSettings
from .terms import Form

LOOKED_AT = WAITS_FOR_PEOPLE | {Stage.CLOSED}  # a closed one may be opened again; a merged one stays so
# What may be over when `sync` comes again.
PASSES = (ForgeDown, ForgeLimits, RemoteDown, GitTimedOut, DiskFull, Unreachable)
GO_ON = "go on later with: muster publish sync"
CREATE_TRIES = 4  # a forge may take a moment until it lists what it has just made
_STAGES = {state: Stage(state.value) for state in RequestState}


@dataclass(frozen=True, slots=True)
class Publisher:
    """`pace` also tells the time."""

    book: Book
    forges: Mapping[str, ForgeSettings]
    pace: Pace

    async def publish(self, wanted: Publication, mirror: Mirror) -> Publication:
        """As far as it goes now. What stops it is in the publication that comes back: stage, reason and hint."""
        wanted = self.book.as_known(wanted)
        async with self.book.at_work(wanted):
            known = self.book.get(wanted.key)
            if known is not None and is_anothers(known, wanted):
                return _stopped(wanted, _taken(known, wanted))  # what is noted of the other stays
            return await self._publish(wanted, mirror)

    async def go_on(self, unfinished: Publication, mirror: Mirror) -> Publication:
        """The same, unless somebody has gone on with it since it was read: what they published may be newer."""
        async with self.book.at_work(unfinished):
            current = self.book.get(unfinished.key)
            return await self._publish(unfinished, mirror) if current in (unfinished, None) else current

    async def look(self, publication: Publication) -> Publication:
        """With the state that its request has at the forge now."""
        if publication.stage not in LOOKED_AT or not publication.number:
            return publication
        async with self.forge(publication) as forge:
            found = await forge.get(publication.number)
        async with self.book.at_work(publication):
            return self.note_state(publication, found)

    def note_state(self, publication: Publication, found: Found) -> Publication:
        """For who is at work. What was written since somebody read the publication stays."""
        current = self.book.get(publication.key) or publication
        is_same = current.stage in LOOKED_AT and current.number == found.number
        return self._note(_seen(current, found)) if is_same else current

    async def refuse(self, publication: Publication, error: MusterError | RepoError) -> Publication:
        """Unless somebody has gone on with it since it was read."""
        async with self.book.at_work(publication):
            current = self.book.get(publication.key)
            return self._note(_stopped(publication, error)) if current in (publication, None) else current

    async def give_up(self, publication: Publication) -> Publication:
        """Of what is stuck here, and never became a request. Published again, it begins anew."""
        async with self.book.at_work(publication):
            current = self.book.get(publication.key) or publication
            is_ours = current.stage in STUCK and not current.number
            return self._note(_now(current, Stage.CLOSED, "given up")) if is_ours else current

    def forge(self, publication: Publication) -> AbstractAsyncContextManager[Forge]:
        return open_forge(publication.forge, self._settings(publication), publication.path, self.pace)

    def _settings(self, publication: Publication) -> ForgeSettings:
        settings = self.forges.get(publication.forge)
        if settings is None:
            message = f"the forge {publication.forge!r} is not in the settings any more"
            raise ForgeRefused(message, hint="put it back as [forges.NAME]")
        return settings

    def _note(self, publication: Publication) -> Publication:
        noted = publication.model_copy(update={"changed_at_s": self.pace.now_s()})
        self.book.put(noted)
        return noted

    async def _publish(self, wanted: Publication, mirror: Mirror) -> Publication:
        doing = self._note(_continued(wanted, self.book.get(wanted.key)))
        try:
            return self._note(await self._do(doing, mirror))
        except (OrchestratorError, RepoError) as e:
            # what was written meanwhile is newer than `doing`
            return self._note(_stopped(self.book.get(doing.key) or doing, e))

    def _limits(self, publication: Publication) -> list[Limits]:
        forge = self.forges.get(publication.forge)
        return [publication.terms, *([forge] if forge else [])]

    async def _do(self, doing: Publication, mirror: Mirror) -> Publication:
        if why := window_reason(self._limits(doing), self.pace.now_s()):
            return _held(doing, why)
        if doing.terms.to is Form.PUSH:
            await self._push(doing, mirror, ())
            return _now(doing, Stage.PUSHED)
        async with self.forge(doing) as forge:
            return await self._request(forge, doing, mirror)

    async def _request(self, forge: Forge, doing: Publication, mirror: Mirror) -> Publication:
        found = await _latest(forge, doing)
        theirs = commit_in(found.body, doing.key) if found else None
        if found and found.state not in ALIVE and doing.commit in (theirs, found.head):
            return _seen(doing, found)
        if found and found.state is RequestState.CLOSED:
            message = f"the request {found.url} was closed by somebody"
            raise ForgeRefused(message, hint="publish to another branch, or open it again there")
        is_new = found is None or found.state not in ALIVE
        if is_new and (why := await cap_reason(self._limits(doing), doing, forge, self.book.all())):
            return _held(doing, why)
        if is_new or theirs != doing.commit:  # else it is there, and what people did with it since is theirs
            doing = await _to_be_reviewed(forge, doing)
            await self._push(doing, mirror, () if theirs is None else (theirs,))
        return _seen(doing, await self._ensure(forge, doing))

    async def _push(self, doing: Publication, mirror: Mirror, known: tuple[str, ...]) -> None:
        """`known` are commits of ours beside those that are noted."""
        ours = {*doing.pushed, *known}
        pushed = tuple(dict.fromkeys((*(each for each in doing.pushed if each != doing.commit), doing.commit)))
        self._note(doing.model_copy(update={"pushed": pushed[-MAX_PUSHED:]}))
        if doing.forge:
            self._settings(doing)
        remote = remote_of(Place(read_address(doing.remote), doing.forge), self.forges)
        onto_default = doing.terms.to is Form.PUSH and doing.terms.default_branch
        await push_branch(remote, mirror, doing.branch, doing.commit, known=ours, onto_default=onto_default)

    async def _ensure(self, forge: Forge, doing: Publication) -> Found:
        """The one open request of the branch, made if there is none, that says what we have to say."""
        why: OrchestratorError | None = None
        into = doing.into
        for tries in range(1, CREATE_TRIES + 1):
            found = await _latest(forge, doing)
            if found and found.state in ALIVE:
                body = with_block(found.body, doing.body)
                if body != found.body:
                    await forge.set_body(found.number, body)
                return found
            into = into or await forge.default_branch()
            try:
                return await forge.create(Wanted(doing.branch, into, doing.title, doing.body, doing.terms.draft))
            except ForgeUnsure as e:
                why = e
            except ForgeRefused as e:
                why = _explained(e)
                if not _is_there_already(e):
                    raise why from e
            await self.pace.wait(pause_s(tries, self.pace.chance()), str(why))
        assert why is not None
        raise why


def _continued(wanted: Publication, old: Publication | None) -> Publication:
    """What is known of earlier tries is kept."""
    if old is None:
        return wanted
    return wanted.model_copy(update={"pushed": old.pushed, "number": old.number, "url": old.url})


async def _to_be_reviewed(forge: Forge, doing: Publication) -> Publication:
    """With the branch that it is to go into: a push to that one, or to what everybody begins with, asks nobody."""
    default = await forge.default_branch()
    into = doing.into or default
    if doing.branch in (into, default):
        message = f"a request cannot be made from {doing.branch}: that is what changes go into"
        raise ForgeRefused(message, hint="name a branch of its own: `branch` of [publish], or --branch")
    return doing.model_copy(update={"into": into})


async def _latest(forge: Forge, doing: Publication) -> Found | None:
    """The open one, if there is any; else the last that was. One that we know is asked for by its number."""
    if doing.number:
        known = await _of_number(forge, doing.number)
        if known and known.state in ALIVE and known.branch == doing.branch:
            return known
    found = [each async for each in forge.of_branch(doing.branch)]
    return next((each for each in found if each.state in ALIVE), found[0] if found else None)


async def _of_number(forge: Forge, number: int) -> Found | None:
    """None for one that was removed altogether."""
    try:
        return await forge.get(number)
    except ForgeRefused as e:
        if e.status != 404:
            raise
        return None


def _seen(publication: Publication, found: Found) -> Publication:
    known = publication.model_copy(update={"number": found.number, "url": found.url, "into": found.into})
    return _now(known, _STAGES[found.state])


def _now(publication: Publication, stage: Stage, reason: str = "", hint: str = "", code: str = "") -> Publication:
    pushed = publication.pushed
    if stage is Stage.PUSHED or publication.number:
        pushed = tuple(dict.fromkeys((*pushed, publication.commit)))[-MAX_PUSHED:]
    update = {"stage": stage, "reason": reason, "hint": hint, "code": code, "pushed": pushed}
    return publication.model_copy(update=update)


def _held(publication: Publication, why: str) -> Publication:
    return publication.model_copy(update={"stage": Stage.HELD, "reason": why, "hint": GO_ON, "code": ""})


def _stopped(publication: Publication, error: MusterError | RepoError) -> Publication:
    """What passes by itself is held; for the rest somebody has to do something."""
    passes = isinstance(error, PASSES)
    stage = Stage.HELD if passes else Stage.REFUSED
    code = ErrorCode.INTERNAL if passes else code_of(error) or ErrorCode.INTERNAL
    hint = error.hint or (GO_ON if passes else "")
    return publication.model_copy(update={"stage": stage, "reason": str(error), "hint": hint, "code": str(code)})


def _taken(known: Publication, wanted: Publication) -> BadInput:
    """Another tenant's names are nobody else's to hear."""
    whose = f"the repository {known.repository}" if known.repository else "a goal"
    if known.batch not in ("", wanted.batch):
        whose = f"{whose} by the batch {known.batch}"
    if known.tenant not in ("", wanted.tenant):
        whose = "another tenant"
    message = f"the branch {known.branch} at {known.remote} holds what was made of {whose}"
    return BadInput(message, hint="publish to another branch, or to the repository's own remote")


def _is_there_already(refused: ForgeRefused) -> bool:
    said = refused.message.lower()
    return refused.status in (409, 422) and ("already exists" in said or "another open merge request" in said)


def _explained(refused: ForgeRefused) -> ForgeRefused:
    if refused.status == 422 and "draft" in refused.message.lower():
        return ForgeRefused(refused.message, hint="publish it with --ready, or `draft = false`", status=refused.status)
    return refused
