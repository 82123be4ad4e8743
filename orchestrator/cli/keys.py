"""`muster keys`: the names of the signing keys, and changing them. No command ever shows a key."""

from __future__ import annotations

from typing import Annotated

import typer

from envelope.signature import Keys
from transport import keyring, rotation
from transport.approvals import PRIVATE, PUBLIC, read_public

from ..settings import load_settings
from .console import data, note, warn

app = typer.Typer()

KeyId = Annotated[str, typer.Argument(metavar="KEY", help="A key's name, as `muster keys list` shows it.")]


@app.callback()
def keys() -> None:
    """See and change the keys that sign messages.

    Two kinds: k1, k2, … of all processes; a1, a2, … of those through which people decide (workers have their public
    halves alone). On one machine, `rotate` is all: running processes follow within a second. Where hosts have copies,
    `add` keys, spread the files, then `rotate`. Retire the old key once nothing that it signed waits any more: as
    much later as your longest deadline.
    """


@app.command("list")
def list_keys() -> None:
    """Print each key's name and role, oldest first.

    A key signs, verifies what it signed before, or is next to sign.
    """
    path = load_settings().keyring_path
    private, public = path.with_name(PRIVATE), path.with_name(PUBLIC)
    note(f"keyring {path}")
    for key_id, role in _roles(keyring.read(path)):
        data(f"{key_id}\t{role}")
    if private.exists():
        note(f"approval keys {private}; workers get {public.name}")
        for key_id, role in _roles(keyring.read(private)):
            data(f"{key_id}\t{role}")
    elif public.exists():
        note(f"approval keys of others {public}")
        for key_id in read_public(public).keys:
            data(f"{key_id}\tverifies")
    else:
        warn("people's answers are not signed: there are no approval keys", "make them: muster keys add")


@app.command("add")
def add() -> None:
    """Make a key of each kind; it signs after the next `rotate`."""
    made = rotation.add(load_settings().keyring_path)
    note(f"{' and '.join(made)}: verified from now on; once every host has the files: muster keys rotate")
    for key_id in made:
        data(key_id)


@app.command("rotate")
def rotate() -> None:
    """Sign with the next key of each kind, or a new one.

    The older keys still verify what they signed.
    """
    signing = rotation.rotate(load_settings().keyring_path)
    note(f"{' and '.join(signing)}: signed with from now on")
    for key_id in signing:
        data(key_id)


@app.command("retire")
def retire(key: KeyId) -> None:
    """Forget a key.

    Tasks that it signed and that still wait are refused when their turn comes; answers that no worker has read yet
    must be given again.
    """
    rotation.retire(load_settings().keyring_path, key)
    warn(f"what {key} signed is refused from now on")


def _roles(known: Keys) -> list[tuple[str, str]]:
    following = rotation.following(known)
    roles = {known.current: "signs", following: "next"}
    return [(key_id, roles.get(key_id, "verifies")) for key_id in known.keys]
