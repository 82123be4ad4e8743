"""What was published, and what is to be: a file for each publication, in the user's state folder.

The file is written before anything is done outside, and after. The truth is at the remote: a file that is lost is made
again from what is found there.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, ValidationError

from envelope.ids import digest_of
from envelope.logs import get_logger
from repo.lock import file_lock
from transport.state_folder import private_folder

from .terms import Terms

MAX_PUSHED = 20  # commits of ours that a branch may still be found at

_log = get_logger("publication")


class Stage(StrEnum):
    INTENDED = "intended"  # begun; killed here it is begun again
    HELD = "held"  # it waits for its hours, for others to be merged, or for the forge
    REFUSED = "refused"  # somebody must do something first
    PUSHED = "pushed"  # the branch is there; all that was wanted, unless a request is
    DRAFT = "draft"
    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


UNFINISHED = frozenset({Stage.INTENDED, Stage.HELD})
STUCK = frozenset({Stage.HELD, Stage.REFUSED})
WAITS_FOR_PEOPLE = frozenset({Stage.DRAFT, Stage.OPEN})


class Publication(BaseModel):
    """One branch of one remote repository. `pushed`: the commits that we set it to, or were about to, latest last.

    `bundle` names the attachment of the task's result that holds `commit`. `batch` and `tenant`: whose it is; empty in
    what was written before these were noted.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    key: str
    remote: str
    forge: str = ""
    path: str = ""
    branch: str
    into: str = ""
    terms: Terms
    task_id: str
    tenant: str = ""
    batch: str = ""
    repository: str = ""
    bundle: str
    base: str
    commit: str
    title: str
    body: str = ""
    pushed: tuple[str, ...] = ()
    number: int = 0
    url: str = ""
    stage: Stage = Stage.INTENDED
    reason: str = ""
    hint: str = ""
    code: str = ""  # of the error that stopped it
    changed_at_s: float = 0.0


def is_anothers(known: Publication, wanted: Publication) -> bool:
    """Does the branch hold the change of another repository, batch or tenant?"""
    is_other = any(getattr(known, whose) not in ("", getattr(wanted, whose)) for whose in ("tenant", "batch"))
    return is_other or known.repository != wanted.repository


def key_of(repository: str, branch: str) -> str:
    """The same branch of the same repository (`Address.repository`) is one publication, whatever task its change comes
    from, and however its address is written."""
    return digest_of("publication", "of", repository, branch)[:32]


def _earlier_key(remote: str, branch: str) -> str:
    """Of releases that knew a repository by what its address looked like."""
    return digest_of("publication", remote, branch)[:32]


class Book:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> Publication | None:
        try:
            return Publication.model_validate_json((self._folder / f"{key}.json").read_bytes())
        except FileNotFoundError:
            return None
        except (ValidationError, UnicodeDecodeError):
            _log.warning("publication_unreadable", key=key)  # what there is to know is at the remote
            return None

    def as_known(self, wanted: Publication) -> Publication:
        """With the key under which it was published first, as its request says."""
        earlier = _earlier_key(wanted.remote, wanted.branch)
        if self.get(wanted.key) is not None or self.get(earlier) is None:
            return wanted
        return wanted.model_copy(update={"key": earlier, "body": wanted.body.replace(wanted.key, earlier)})

    def all(self) -> list[Publication]:
        """The latest changed first."""
        keys = (path.stem for path in self._folder.glob("*.json"))
        found = [each for key in keys if (each := self.get(key)) is not None]
        return sorted(found, key=lambda each: -each.changed_at_s)

    def put(self, publication: Publication) -> None:
        """On the disk when this returns, whole."""
        private_folder(self._folder)
        part = self._folder / f".{publication.key}.{uuid4().hex}.part"
        descriptor = os.open(part, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(publication.model_dump_json(indent=1).encode())
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(self._folder / f"{publication.key}.json")
        finally:
            part.unlink(missing_ok=True)

    @asynccontextmanager
    async def at_work(self, publication: Publication) -> AsyncGenerator[None]:
        """A tenant's one command after another: caps are counted, and forges ask for changes one at a time. Another's
        push may take half an hour; it keeps nobody waiting but who publishes the same."""
        of_tenant = digest_of("publications of", publication.tenant)[:32]
        async with file_lock(self._folder / f"lock-{of_tenant}"), file_lock(self._folder / f"lock-{publication.key}"):
            yield
