"""The fleet's signing keys: one file, made at first start, readable by its owner only."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from pathlib import Path

from envelope.signature import Keyring

from .errors import Misconfigured

KEY_BYTES = 32  # as long as the SHA-256 that it keys


def load_or_create(path: Path) -> Keyring:
    """The keyring in the file `{"current": id, "keys": {id: hex}}`; made, mode 600, when there is none.

    Two processes that start at once get the same one. `Misconfigured` when the file is not a keyring or others may
    read it.
    """
    if not path.exists():
        _create(path)
    if path.stat().st_mode & 0o077:
        raise Misconfigured(f"others may read the keyring {path}", hint=f"run: chmod 600 {path}")
    try:
        content = json.loads(path.read_text())
        return Keyring(content["current"], {name: bytes.fromhex(key) for name, key in content["keys"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Misconfigured(f"{path} is not a keyring", hint="restore it, or remove it to make a new one") from error


def fresh() -> Keyring:
    """A keyring of one new key, for a fleet that lives in one process."""
    return Keyring("k1", {"k1": secrets.token_bytes(KEY_BYTES)})


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    content = {"current": "k1", "keys": {"k1": secrets.token_hex(KEY_BYTES)}}
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".keyring-") as draft:  # made with mode 600
        draft.write(json.dumps(content))
        draft.flush()
        os.fsync(draft.fileno())
        try:
            # a link, unlike a rename, never replaces the keyring of a process that was quicker
            os.link(draft.name, path)
        except FileExistsError:
            return
