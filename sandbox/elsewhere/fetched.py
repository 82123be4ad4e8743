"""A workspace elsewhere, as a view on this host: what changed is fetched, the rest is known from its checkout."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import struct
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from repo.collect import Touched, not_ignored
from repo.errors import PatchRefused
from repo.seed import Seed
from repo.temporary import temporary_folder
from repo.wording import each, readable

from ..base import MIB
from ..channel import Channel
from ..errors import LimitExceeded, SandboxError, SandboxLost
from ..setup_files import NEVER
from ..unfit import full_disk
from ..view import View
from .changes import Changes, changes_of, parents, status_in
from .shadow import Shadow

LENGTH = struct.Struct("!Q")
TIMEOUT_S = 120.0  # 64 MiB over a slow line; a batch is smaller
BATCH_BYTES = 8 * MIB
BATCH_PATHS = 1000
# What travels and is compared by git on this host; eight times the largest patch there is.
MAX_FETCHED_BYTES = 512 * MIB
MAX_RULES_BYTES = 1 * MIB  # of one .gitignore; more is nobody's rules
UNREADABLE = "cannot be read and was left out"
SETTLE_TIMEOUT_S = 30.0


@asynccontextmanager
async def fetched_view(
    channel: Channel, checkout: Path | None, git_dir: Path, seed: Seed | None, *, whole: bool
) -> AsyncGenerator[View]:
    """See `view.Keeper`. Unless `whole` is asked for, or what changed is odd, the folder has what changed alone."""
    with temporary_folder("view") as folder:
        try:
            changes = await changes_of(channel)
            fetching = _Fetching(channel, checkout, git_dir, seed, changes, Shadow(folder))
            tracked, new = await asyncio.to_thread(fetching.told_apart)
            if whole or seed is None or checkout is None or await asyncio.to_thread(fetching.is_odd):
                await fetching.everything(new)
                view = View(folder, None, tuple(each(changes.unreadable, UNREADABLE)))
            else:
                view = View(folder, await fetching.only(tracked, new), partial=True)
        except OSError as error:  # a path that this host takes for too long
            raise full_disk(error) or SandboxError(
                f"What changed in the workspace cannot be laid out here: {error.strerror}."
            ) from error
        finally:
            await channel.call("settle", {}, timeout_s=SETTLE_TIMEOUT_S, max_bytes=0)
        yield view


async def fetch_setup_files(channel: Channel, checkout: Path, target: Path) -> None:
    """See `view.Keeper`."""
    with temporary_folder("view") as folder:
        changes = await changes_of(channel)
        fetching = _Fetching(channel, checkout, checkout / ".git", None, changes, Shadow(folder))
        _, new = await asyncio.to_thread(fetching.told_apart)
        wanted = [path for path in new if NEVER.isdisjoint(path.split(b"/"))]
        in_patch = set(await fetching.without_ignored(wanted))
        kept = [path for path in wanted if path not in in_patch]
        if lost := [path for path in kept if not changes.changed[path].fits]:
            hint = "have it made somewhere else, such as in the image's own folders"
            message = f"{readable(lost[0])}, which setup wrote, cannot be fetched from the engine."
            raise LimitExceeded(message, hint=hint)
        into = _Fetching(channel, None, checkout / ".git", None, changes, Shadow(target))
        try:
            await into.fetch(kept)
        except PatchRefused as error:
            raise LimitExceeded(f"What setup wrote to the workspace is too much: {error}.", hint=error.hint) from error
        for path in kept:
            if not stat.S_ISLNK(changes.changed[path].mode):
                os.chmod(os.path.join(os.fsencode(target), path), stat.S_IMODE(changes.changed[path].mode) & 0o777)


@dataclass(frozen=True, slots=True)
class _Fetching:
    channel: Channel
    checkout: Path | None
    git_dir: Path
    seed: Seed | None
    changes: Changes
    shadow: Shadow

    def told_apart(self) -> tuple[list[bytes], list[bytes]]:
        """What the checkout has, and what it has not. A folder counts where it is empty: it is a submodule's, which git
        knows by its path."""
        tracked, new = list[bytes](), list[bytes]()
        for path in (*self.changes.changed, *self.changes.gone):
            status = self._before(path)
            if status is None:
                new.append(path)
            elif not stat.S_ISDIR(status.st_mode) or self._is_empty(path):
                tracked.append(path)
        return tracked, [path for path in new if path in self.changes.changed]

    def is_odd(self) -> bool:
        """Not to be told from the changes alone: something that no patch holds, a repository inside, a folder where a
        file was, or the other way."""
        changed, gone = self.changes.changed, self.changes.gone
        return bool(self.changes.unreadable) or any(
            not look.fits
            or path.endswith(b"/.git")
            or not gone.isdisjoint(parents(path))
            or ((before := self._before(path)) is not None and stat.S_ISDIR(before.st_mode))
            for path, look in changed.items()
        )

    async def only(self, tracked: Sequence[bytes], new: Sequence[bytes]) -> Touched:
        assert self.seed is not None and self.checkout is not None
        kept = await self.without_ignored(new)
        touched = Touched(tracked, kept)
        seen = self.seed.seen_from_base(touched)
        await self.fetch(path for path in (*tracked, *kept) if path in self.changes.changed)
        await asyncio.to_thread(self._copy, [*seen.tracked, *seen.new])
        return touched

    async def everything(self, new: Sequence[bytes]) -> None:
        if self.checkout is not None:
            await asyncio.to_thread(self.shadow.start_from, self.checkout, self.changes.gone)
        known = self.changes.changed.keys() - set(new)
        kept = await self.without_ignored(new)
        for path in (*known, *kept):
            look = self.changes.changed[path]
            if path.endswith(b"/.git") or not look.fits:
                self.shadow.put_mark(path, look)
        await self.fetch(path for path in (*known, *kept) if self._is_fetched(path))

    async def without_ignored(self, new: Sequence[bytes]) -> list[bytes]:
        """By the rules of the workspace as it is now. What the base has is never ignored."""
        present = self.seed.present if self.seed is not None else frozenset[bytes]()
        places = {b"", *(parent + b"/" for path in new for parent in parents(path))}
        rules = [place + b".gitignore" for place in places]
        await self.fetch(path for path in rules if self._is_fetched(path) and self._size(path) <= MAX_RULES_BYTES)
        await asyncio.to_thread(self._copy, rules)
        asked = [path for path in new if path not in present]
        marks = [path for path in asked if path.endswith(b"/.git")]  # git has no opinion of these
        kept = await not_ignored(self.git_dir, self.shadow.folder, [path for path in asked if path not in marks])
        return [*kept, *marks, *(path for path in new if path in present)]

    async def fetch(self, paths: Iterable[bytes]) -> None:
        wanted = [path for path in paths if self._is_fetched(path)]
        total = sum(map(self._size, wanted))
        if total > MAX_FETCHED_BYTES:
            hint = "have generated files ignored"
            raise PatchRefused(f"What changed has {total} bytes, more than {MAX_FETCHED_BYTES}", hint=hint)
        for batch in self._batches(wanted):
            size = sum(LENGTH.size + self._size(path) for path in batch)
            names = json.dumps([os.fsdecode(path) for path in batch]).encode()
            reply = await self.channel.call("fetch", {}, body=names, timeout_s=TIMEOUT_S, max_bytes=size)
            await asyncio.to_thread(self._put, batch, reply.body)

    def _batches(self, paths: Iterable[bytes]) -> Iterator[list[bytes]]:
        batch, size = list[bytes](), 0
        for path in paths:
            if batch and (len(batch) == BATCH_PATHS or size + self._size(path) > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(path)
            size += self._size(path)
        if batch:
            yield batch

    def _put(self, paths: Sequence[bytes], body: bytes) -> None:
        at = 0
        for path in paths:
            size = self._size(path)
            start, end = at + LENGTH.size, at + LENGTH.size + size
            if len(body) < end or LENGTH.unpack_from(body, at) != (size,):
                raise SandboxLost("The sandbox's files are not as long as it says.")
            self.shadow.put(path, self.changes.changed[path], body[start:end])
            at = end

    def _copy(self, paths: Iterable[bytes]) -> None:
        for path in paths:
            if self.checkout is not None and path not in self.changes.changed and path not in self.changes.gone:
                self.shadow.copy_from(self.checkout, path)

    def _is_fetched(self, path: bytes) -> bool:
        look = self.changes.changed.get(path)
        return look is not None and look.fits and not path.endswith(b"/.git")

    def _size(self, path: bytes) -> int:
        return self.changes.changed[path].size_bytes

    def _before(self, path: bytes) -> os.stat_result | None:
        return None if self.checkout is None else status_in(self.checkout, path)

    def _is_empty(self, path: bytes) -> bool:
        assert self.checkout is not None
        return not os.listdir(os.path.join(os.fsencode(self.checkout), path))
