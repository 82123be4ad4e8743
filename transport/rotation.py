"""Changing the signing keys of a fleet that runs: its keyring, and its approval keys where these are held.

On one machine `rotate` is enough: every process follows the file. Where each host has a copy of its own, `add` a key,
spread the files, and only then `rotate` to it: a worker that has not heard of a key refuses what it signs.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from envelope.errors import told_of_file
from envelope.signature import Keys

from . import approvals
from .errors import Misconfigured
from .keyring import KEY_BYTES, read, text_of
from .state_folder import folder_held

_NUMBERED = re.compile(r"[ka](\d+)")


def add(path: Path) -> list[str]:
    """Add a key of each kind that verifies but does not sign yet; their ids. Errors as `retire`'s.

    A fleet of an earlier release, without approval keys, gets them; a host that has the public ones alone does not.
    """
    with _changing(path) as held:
        made: list[str] = []
        for file, keys in held:
            changed, key_id = _with_new_key(keys)
            _replace(file, changed)
            made.append(key_id)
        has_none = len(held) == 1 and approvals.create(path, since_ms=time.time_ns() // 1_000_000)
        return [*made, approvals.FIRST_ID] if has_none else made


def rotate(path: Path) -> list[str]:
    """Sign with the next keys from now on, those that were added or new ones; their ids. Older keys stay good.

    Errors as `retire`'s.
    """
    with _changing(path) as held:
        signing: list[str] = []
        for file, keys in held:
            key_id = following(keys)
            if key_id is None:
                keys, key_id = _with_new_key(keys)
            _replace(file, replace(keys, current=key_id))
            signing.append(key_id)
        return signing


def retire(path: Path, key_id: str) -> None:
    """Forget a key: what it signed is refused from now on. (What the audit log has under it still verifies.)

    `Misconfigured` for a key that signs, for one that is not there, and for a file that is missing, is no keyring,
    or cannot be changed from here.
    """
    with _changing(path) as held:
        for file, keys in held:
            if key_id == keys.current:
                raise Misconfigured(f"the key {key_id!r} signs; it cannot be retired", hint="run: muster keys rotate")
            if key_id in keys.keys:
                _replace(file, Keys(keys.current, {name: key for name, key in keys.keys.items() if name != key_id}))
                return
        known = ", ".join(name for _, keys in held for name in keys.keys)
        raise Misconfigured(f"the keyring has no key {key_id!r}", hint=f"it has: {known}")


def following(keys: Keys) -> str | None:
    """The key after the one that signs, if one was added; keys stand in the order in which they were made."""
    ids = list(keys.keys)
    return next(iter(ids[ids.index(keys.current) + 1 :]), None)


def _with_new_key(keys: Keys) -> tuple[Keys, str]:
    numbers = [int(found[1]) for found in map(_NUMBERED.fullmatch, keys.keys) if found]
    key_id = f"{keys.current[:1]}{max(numbers, default=0) + 1}"
    return Keys(keys.current, {**keys.keys, key_id: secrets.token_bytes(KEY_BYTES)}), key_id


@contextmanager
def _changing(path: Path) -> Generator[list[tuple[Path, Keys]]]:
    """The files themselves with their keys, while nobody else changes them. The lock is their folder's, since a file is
    replaced."""
    try:
        file = path.resolve()
        read(file)  # a file that is none is told as that
        private = path.with_name(approvals.PRIVATE).resolve()
        with folder_held(file.parent) as folder:
            yield [(each, read(each)) for each in (file, private) if each is file or each.exists()]
            os.fsync(folder)
    except OSError as e:
        hint = "change it where it comes from (a mounted secret, say), or name another with MUSTER_KEYRING"
        message, hint = told_of_file(e, path.parent, f"the keyring {path} cannot be changed", hint)
        raise Misconfigured(message, hint=hint) from e


def _replace(file: Path, keys: Keys) -> None:
    """Readers see the old file or the new one, never a half; who verifies knows a key before it signs."""
    if file.name == approvals.PRIVATE:
        public = file.with_name(approvals.PUBLIC)
        before = approvals.read_public(public) if public.exists() else None
        approvals.write_public(public, approvals.public_of(keys, before))
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
