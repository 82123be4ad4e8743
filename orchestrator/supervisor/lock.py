"""One supervisor per state folder: the kernel holds the lock and lets it go with the process, however that ends."""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .errors import AlreadyRuns


@contextmanager
def state_lock(state_dir: Path) -> Generator[None]:
    """Hold the state folder, or raise `AlreadyRuns` at once."""
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / "supervisor.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            hint = "use the fleet that runs, or stop it with `muster down`"
            raise AlreadyRuns(f"a fleet already runs on {state_dir}", hint=hint) from e
        yield
