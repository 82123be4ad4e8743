"""The commands that somebody at this machine can type, without a fleet: those of a checkout, the user's, and ours."""

from __future__ import annotations

from pathlib import Path

from envelope.agents import CommandCard
from transport.settings import user_file

from ..own_folders import own_folders
from .catalogue import PLACES, Catalogue, catalogue, texts_in_folder, texts_of_user


def local_catalogue(repository: Path) -> Catalogue:
    user_dir = user_file().expanduser().absolute().parent
    return catalogue(
        repository=texts_in_folder(repository, own_folders(repository, PLACES)), users=texts_of_user(user_dir)
    )


def cards(repository: Path) -> list[CommandCard]:
    """What `muster run` needs to know of commands; it finds this by its entry point."""
    return local_catalogue(repository).cards()
