"""Blobs in a folder of this machine, or of one that several machines mount."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from envelope.errors import told_of_file
from envelope.ids import blob_ref

from ..errors import TransportError
from ..limits import Limits
from ..state_folder import private_folder
from .content import check_size, checked, digest_of, missing
from .life import Clock, Generations, life_ms, wall_clock_ms

# Where files are written before they get their name. A writer takes seconds: what is a day old was left by a dead one.
DRAFTS = "drafts"
DRAFT_LIFE_MS = 24 * 3600 * 1000


class DirectoryBlobs:
    """One file per blob: `<generation>/<2 digits>/<64 digits>`. Files appear whole, and on the disk.

    A renewed blob is a hard link to the same file, so it takes no more room. Errors of the file system (a full disk, no
    permission) are `TransportError`.
    """

    def __init__(self, root: Path, *, retention_ms: int = Limits().retention_ms, clock: Clock = wall_clock_ms) -> None:
        self.root = root
        self._generations = Generations(life_ms(retention_ms))
        self._clock = clock

    async def put(self, content: bytes) -> str:
        check_size(content)
        return await asyncio.to_thread(self._put, content)

    async def put_all(self, contents: Sequence[bytes]) -> list[str]:
        return [await self.put(content) for content in contents]

    async def get(self, ref: str) -> bytes:
        return await asyncio.to_thread(self._get, ref)

    async def collect(self, *, now_ms: int) -> int:
        return await asyncio.to_thread(self._collect, now_ms)

    def _put(self, content: bytes) -> str:
        ref = blob_ref(content)
        with self._translated():
            path = self._path(self._generations.current(self._clock()), digest_of(ref))
            # a file of another length was cut by something else than us: the new one heals it
            if not path.exists() or path.stat().st_size != len(content):
                self._write(path, content)
        return ref

    def _get(self, ref: str) -> bytes:
        digest, now_ms = digest_of(ref), self._clock()
        current = self._generations.current(now_ms)
        with self._translated():
            for generation in self._generations.readable(now_ms):
                path = self._path(generation, digest)
                with suppress(FileNotFoundError):
                    content = checked(ref, path.read_bytes())
                    if generation < current:
                        self._renew(path, self._path(current, digest), content)
                    return content
        raise missing(ref)

    def _renew(self, old: Path, new: Path, content: bytes) -> None:
        private_folder(new.parent)
        try:
            new.hardlink_to(old)
        except FileExistsError:  # another reader was faster
            pass
        except OSError:  # collected in this moment, or a file system without links
            self._write(new, content)

    def _write(self, path: Path, content: bytes) -> None:
        drafts = self.root / DRAFTS
        for folder in (drafts, path.parent):
            private_folder(folder)
        descriptor, draft = tempfile.mkstemp(dir=drafts)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)  # a name that survives a power cut must not stand for half a blob
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise

    def _collect(self, now_ms: int) -> int:
        gone = 0
        with self._translated():
            for folder in self._inside(self.root):
                if self._generations.is_over(folder.name, now_ms):
                    gone += sum(1 for _ in folder.glob("*/*"))
                    shutil.rmtree(folder, onerror=_unless_gone)
            for draft in self._inside(self.root / DRAFTS):
                with suppress(FileNotFoundError):
                    if draft.stat().st_mtime * 1000 + DRAFT_LIFE_MS <= now_ms:
                        draft.unlink()
        return gone

    def _path(self, generation: str, digest: str) -> Path:
        # two digits: a folder with a hundred thousand names is slow to list on some file systems
        return self.root / generation / digest[:2] / digest

    def _inside(self, folder: Path) -> list[Path]:
        with suppress(FileNotFoundError):  # nothing was ever stored
            return list(folder.iterdir())
        return []

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except OSError as e:
            what, hint = f"the folder of blobs {self.root} cannot be used", "see to its disk and its mode"
            message, hint = told_of_file(e, self.root, what, hint)
            raise TransportError(message, hint=hint) from e


def _unless_gone(_function: object, _path: str, fault: tuple[type[BaseException], BaseException, object]) -> None:
    """For `rmtree`: what another collector removed meanwhile is no error."""
    if not isinstance(fault[1], FileNotFoundError):
        raise fault[1]
