"""The fleet's signing keys: one file, made at first start, readable by its owner only. `rotation.py` changes it.

`approvals.py` has the keys of what workers may only verify; their private file is written as this one is.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from envelope.errors import BadSignature
from envelope.logs import get_logger
from envelope.signature import Keys

from .errors import Misconfigured
from .state_folder import private_folder

KEY_BYTES = 32  # as long as the SHA-256 that it keys
# To look at a file costs a tenth of decoding a request, so it is not done for each; an old key stays good anyway.
LOOK_S = 1.0

_log = get_logger("keyring")

T = TypeVar("T")


class Followed(Generic[T]):
    """What a file holds, followed while it changes: a process need not be started again to learn of a new key.

    It is looked at once a second at most, and at once when `has_changed` is asked. When the file is gone or no longer
    readable, what was read last stays, and a warning says so. Never writes.
    """

    def __init__(
        self, path: Path, read: Callable[[Path], T], *, absent: T | None = None, clock: Callable[[], float]
    ) -> None:
        """`absent`: what stands for a file that is not there yet; None: it must be there."""
        self.path = path
        self._read = read
        self._clock = clock
        self._looked_at_s = clock()
        self._version = _version(path)
        self.content = absent if absent is not None and self._version is None else read(path)

    def look(self) -> T:
        now_s = self._clock()
        if now_s - self._looked_at_s >= LOOK_S:
            self._looked_at_s = now_s
            self.has_changed()
        return self.content

    def has_changed(self) -> bool:
        version = _version(self.path)
        if version == self._version:
            return False
        self._version = version
        try:
            self.content = self._read(self.path)
        except (OSError, Misconfigured) as error:
            _log.warning("keyring_unreadable", path=str(self.path), reason=str(error))
            return False
        return True


class KeyFile:
    """The keyring in a file, followed while it changes: what is not good by the keys that were read last is judged once
    more when there are others."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = Followed(path, read, clock=clock)

    @property
    def keys(self) -> Keys:
        return self._file.content

    def sign(self, body: bytes) -> tuple[str, bytes]:
        return self._file.look().sign(body)

    def verify(self, body: bytes, key_id: str, mac: bytes) -> None:
        try:
            self._file.look().verify(body, key_id, mac)
        except BadSignature:
            if not self._file.has_changed():
                raise
            self.keys.verify(body, key_id, mac)


def load_or_create(path: Path) -> KeyFile:
    """The keyring in the file `{"current": id, "keys": {id: hex}}`; made, mode 600, when there is none.

    Two processes that start at once get the same one. `Misconfigured` when the file is not a keyring or others may
    read it.
    """
    if not path.exists():
        create(path, fresh())
    return KeyFile(path)


def read(path: Path) -> Keys:
    """The file's keys as they are now; `Misconfigured` as above and when there is none, `OSError` when unreadable."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        hint = "the first process of a fleet makes one: muster up"
        raise Misconfigured(f"there is no keyring {path}", hint=hint) from error
    # A mounted secret is written by nobody, and belongs to root: a pod reads it as one of the file's group.
    others = 0o077 if mode & stat.S_IWUSR else 0o037
    if mode & others:
        raise Misconfigured(f"others may read the keyring {path}", hint=f"run: chmod 600 {path}")
    try:
        content = json.loads(path.read_text())
        return Keys(content["current"], {key_id: bytes.fromhex(key) for key_id, key in content["keys"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "restore it, or remove it to make a new one; a key is written in hex digits"
        raise Misconfigured(f"{path} is not a keyring", hint=hint) from error


def fresh(key_id: str = "k1") -> Keys:
    """A keyring of one new key."""
    return Keys(key_id, {key_id: secrets.token_bytes(KEY_BYTES)})


def text_of(keys: Keys) -> str:
    """What stands in the file; secret."""
    return json.dumps({"current": keys.current, "keys": {key_id: key.hex() for key_id, key in keys.keys.items()}})


def _version(path: Path) -> tuple[int, int, int] | None:
    """Differs whenever the file was replaced, written or given another mode; None when it is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns, found.st_size


def create(path: Path, keys: Keys) -> None:
    """Where there is none yet; mode 600."""
    private_folder(path.parent)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".keyring-") as draft:  # made with mode 600
        draft.write(text_of(keys))
        draft.flush()
        os.fsync(draft.fileno())
        try:
            # a link, unlike a rename, never replaces the keyring of a process that was quicker
            os.link(draft.name, path)
        except FileExistsError:
            return
