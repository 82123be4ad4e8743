"""Changing the signing keys of a fleet that runs.

On one machine `rotate` is enough: every process follows the file. Where each host has a copy of its own, `add` a key,
spread the file, and only then `rotate` to it: a worker that has not heard of a key refuses what it signs.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from envelope.errors import told_of_file
from envelope.signature import Keys

from .errors import Misconfigured
from .keyring import KEY_BYTES, read, text_of
from .state_folder import folder_held

_NUMBERED = re.compile(r"k(\d+)")


def add(path: Path) -> str:
    """Add a key that verifies but does not sign yet; its id. Errors as `retire`'s."""
    with _changing(path) as file:
        keys, key_id = _with_new_key(read(file))
        _replace(file, keys)
        return key_id


def rotate(path: Path) -> str:
    """Sign with the next key from now on, the one that was added or a new one; its id. Older keys stay good.

    Errors as `retire`'s.
    """
    with _changing(path) as file:
        keys = read(file)
        key_id = following(keys)
        if key_id is None:
            keys, key_id = _with_new_key(keys)
        _replace(file, replace(keys, current=key_id))
        return key_id


def retire(path: Path, key_id: str) -> None:
    """Forget a key: what it signed is refused from now on.

    `Misconfigured` for the key that signs, for one that is not there, and for a file that is missing, is no keyring,
    or cannot be changed from here.
    """
    with _changing(path) as file:
        keys = read(file)
        if key_id not in keys.keys:
            raise Misconfigured(f"the keyring has no key {key_id!r}", hint=f"it has: {', '.join(keys.keys)}")
        if key_id == keys.current:
            raise Misconfigured(f"the key {key_id!r} signs; it cannot be retired", hint="run: muster keys rotate")
        _replace(file, Keys(keys.current, {name: key for name, key in keys.keys.items() if name != key_id}))


def following(keys: Keys) -> str | None:
    """The key after the one that signs, if one was added; keys stand in the order in which they were made."""
    ids = list(keys.keys)
    return next(iter(ids[ids.index(keys.current) + 1 :]), None)


def _with_new_key(keys: Keys) -> tuple[Keys, str]:
    numbers = [int(found[1]) for found in map(_NUMBERED.fullmatch, keys.keys) if found]
    key_id = f"k{max(numbers, default=0) + 1}"
    return Keys(keys.current, {**keys.keys, key_id: secrets.token_bytes(KEY_BYTES)}), key_id


@contextmanager
def _changing(path: Path) -> Generator[Path]:
    """The file itself, while nobody else changes it. The lock is its folder's, since the file is replaced."""
    try:
        file = path.resolve()
        read(file)  # a file that is none is told as that
        with folder_held(file.parent) as folder:
            yield file
            os.fsync(folder)
    except OSError as e:
        hint = "change it where it comes from (a mounted secret, say), or name another with MUSTER_KEYRING"
        message, hint = told_of_file(e, path.parent, f"the keyring {path} cannot be changed", hint)
        raise Misconfigured(message, hint=hint) from e


def _replace(file: Path, keys: Keys) -> None:
    """Readers see the old file or the new one, never a half."""
    draft, name = tempfile.mkstemp(dir=file.parent, prefix=".keyring-")  # made with mode 600
    try:
        with os.fdopen(draft, "w") as text:
            text.write(text_of(keys))
            text.flush()
            os.fsync(text.fileno())
        Path(name).replace(file)
    except OSError:
        Path(name).unlink()
        raise
