"""A wall clock that a test may set under running programs, by Debian's faketime. CLOCK_MONOTONIC stays as it is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# The loader puts the machine's own library folder for $LIB. (The command `faketime` sets a time that no file can move.)
LIBRARY = "/usr/$LIB/faketime/libfaketime.so.1"

# To read the file at each look would make programs a hundred times slower.
NOTICED_AFTER_S = 1


class Clock:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.jump(0)

    def jump(self, ahead_s: int) -> None:
        """Set all programs that live by it this far ahead of the true time; negative: behind."""
        draft = self.file.with_suffix(".draft")
        draft.write_text(f"{ahead_s:+d}\n")
        os.replace(draft, self.file)  # a reader sees the one or the other, never half of it


def faked_clock(clock: Clock) -> dict[str, str]:
    """The environment of programs that live by this clock. (Redis never does: its clock is the fleet's.)"""
    return {
        "LD_PRELOAD": LIBRARY,
        "FAKETIME_TIMESTAMP_FILE": str(clock.file),
        "FAKETIME_CACHE_DURATION": str(NOTICED_AFTER_S),
        "DONT_FAKE_MONOTONIC": "1",
    }


def missing() -> str:
    """Why there is no such clock here; empty when there is."""
    return "" if shutil.which("faketime") else "no faketime (apt-get install faketime)"
