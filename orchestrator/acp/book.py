"""The editor's sessions, a small file each in the state folder: where each is, and the tasks of its prompts.

What was said and done stands in the fleet's records, and is gone with these; here is only how to find it.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import Field, ValidationError

from envelope.ids import new_task_id
from envelope.wire import Wire
from repo.lock import file_lock
from transport.errors import NotFound
from transport.state_folder import held, private_folder

MAX_KEPT = 500  # the latest: of older ones the fleet has forgotten what they were about
_ID = re.compile(r"[0-9a-f-]{36}")


class Kept(Wire):
    """`tasks`: one for each prompt, in order; `costs`, in micro-dollars, of those that have ended. `session`: Muster's,
    once an agent has begun one, in the trace `near`.

    `applied`: the blob of the session's change as far as it is in the person's files.
    """

    session_id: str
    cwd: str
    root: str  # of the repository around it
    mode: str
    title: str = ""
    updated_at_ms: int = 0
    tasks: tuple[str, ...] = ()
    costs: dict[str, int] = Field(default_factory=dict[str, int])
    session: str = ""
    near: str = ""
    applied: str = ""

    def with_task(self, task_id: str, title: str) -> Kept:
        return self.model_copy(update={"tasks": (*self.tasks, task_id), "title": self.title or title})

    def with_cost(self, task_id: str, microusd: int) -> Kept:
        return self.model_copy(update={"costs": {**self.costs, task_id: microusd}})


class Book:
    """Several editors may have the same session open: what each writes down goes on top of what the others have."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "editor-sessions"

    def begin(self, cwd: str, root: str, mode: str) -> Kept:
        """A session that is written down with its first prompt: most that an editor begins never have one."""
        return Kept(session_id=new_task_id(), cwd=cwd, root=root, mode=mode)

    def latest(self, kept: Kept) -> Kept:
        """As it is written down now, or as it is known if it is not."""
        try:
            return self.get(kept.session_id)
        except NotFound:
            return kept

    def change(self, kept: Kept, changed: Callable[[Kept], Kept]) -> Kept:
        """`changed` of what is written down by now is written down: all of it or, if we die meanwhile, nothing."""
        with held(self._folder / "lock"):
            now = changed(self.latest(kept)).model_copy(update={"updated_at_ms": time.time_ns() // 1_000_000})
            file = self._file(now.session_id)
            new = file.with_suffix(".new")
            new.write_text(now.model_dump_json())
            new.replace(file)
        return now

    @asynccontextmanager
    async def applying(self) -> AsyncGenerator[None]:
        """Nobody else puts a session's change into files meanwhile."""
        async with file_lock(private_folder(self._folder) / "applying"):
            yield

    def get(self, session_id: str) -> Kept:
        """`NotFound` for one that nobody wrote down, or that cannot be read."""
        try:
            if _ID.fullmatch(session_id):
                return Kept.model_validate_json(self._file(session_id).read_text())
        except (OSError, ValidationError):
            pass
        raise NotFound(f"there is no session {session_id[:40]!r}", hint="begin a new one")

    def all(self, cwd: str | None) -> list[Kept]:
        """The latest first; of one folder, or of all."""
        found: list[Kept] = []
        for file in self._folder.glob("*.json"):
            try:
                found.append(Kept.model_validate_json(file.read_text()))
            except (OSError, ValidationError):
                continue
        found.sort(key=lambda kept: kept.updated_at_ms, reverse=True)
        for old in found[MAX_KEPT:]:
            self._file(old.session_id).unlink(missing_ok=True)
        return [kept for kept in found[:MAX_KEPT] if cwd is None or kept.cwd == cwd]

    def _file(self, session_id: str) -> Path:
        return self._folder / f"{session_id}.json"
