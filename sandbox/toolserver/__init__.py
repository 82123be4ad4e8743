"""The program that runs inside, and how it gets there. Nothing here imports `server`: it is a file to be mounted."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

SOURCE = Path(__file__).with_name("server.py")
# What an engine gets that sees no file of ours; the second is started, and imports the first.
ELSEWHERE = (SOURCE, SOURCE.with_name("elsewhere.py"))
PLACES = SOURCE.with_name("places.py")  # run in a setup's containers, as the input of their python


def install_server(state_dir: Path) -> Path:
    """A copy for mounting, readable by every user id, named by its content.

    A copy, because the installed package may lie where the engine cannot look, and an upgrade must not change the file
    under a running sandbox.
    """
    content = SOURCE.read_bytes()
    target = state_dir / f"toolserver-{hashlib.sha256(content).hexdigest()[:16]}.py"
    if not target.exists():
        state_dir.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(content)
        part.chmod(0o444)
        part.replace(target)
    return target
