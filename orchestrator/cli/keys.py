"""`muster keys`: the names of the signing keys, and changing them. No command ever shows a key."""

from __future__ import annotations

from typing import Annotated

import typer

from envelope.signature import Keys
from transport import keyring, rotation

from ..settings import load_settings
from .console import data, note, warn

app = typer.Typer()

KeyId = Annotated[str, typer.Argument(metavar="KEY", help="A key's name, as `muster keys list` shows it.")]


@app.callback()
def keys() -> None:
    """See and change the keys that sign messages.

    On one machine, `rotate` is all: running processes follow within a second. Where hosts have copies of the keyring,
    `add` a key, spread the file, then `rotate`. Retire the old key once nothing that it signed waits any more: as
    much later as your longest deadline.
    """


@app.command("list")
def list_keys() -> None:
    """Print each key's name and role, oldest first.

    A key signs, verifies what it signed before, or is next to sign.
    """
    path = load_settings().keyring_path
    note(f"keyring {path}")
    for key_id, role in _roles(keyring.read(path)):
        data(f"{key_id}\t{role}")


@app.command("add")
def add() -> None:
    """Make a key that verifies; it signs after the next `rotate`."""
    key_id = rotation.add(load_settings().keyring_path)
    note(f"{key_id} verifies from now on; once every host has the file: muster keys rotate")
    data(key_id)


@app.command("rotate")
def rotate() -> None:
    """Sign with the next key, or a new one.

    The older keys still verify what they signed.
    """
    key_id = rotation.rotate(load_settings().keyring_path)
    note(f"{key_id} signs from now on")
    data(key_id)


@app.command("retire")
def retire(key: KeyId) -> None:
    """Forget a key.

    Tasks that it signed and that still wait are refused when their turn comes.
    """
    rotation.retire(load_settings().keyring_path, key)
    warn(f"what {key} signed is refused from now on")


def _roles(known: Keys) -> list[tuple[str, str]]:
    following = rotation.following(known)
    roles = {known.current: "signs", following: "next"}
    return [(key_id, roles.get(key_id, "verifies")) for key_id in known.keys]
