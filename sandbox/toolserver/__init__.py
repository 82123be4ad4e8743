"""The program that runs inside, and how it gets there. Nothing here imports `server`: it is a file to be mounted."""

from __future__ import annotations

from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("server.py")
# What an engine gets that sees no file of ours; the second is started, and imports the first.
ELSEWHERE = (SOURCE, SOURCE.with_name("elsewhere.py"))
PLACES = SOURCE.with_name("places.py")  # run in a setup's containers, as the input of their python


def install_server(folder: Path) -> Path:
    """A copy for mounting into the one sandbox that this folder is of; every user id may read it.

    Each has its own: by a shared one, a lock or a watch in one sandbox would be seen in another.
    """
    target = folder / "toolserver.py"
    target.write_bytes(_content())
    target.chmod(0o444)
    return target


@cache
def _content() -> bytes:
    """Read once: an upgrade of the package starts no other server than this process speaks to."""
    return SOURCE.read_bytes()
