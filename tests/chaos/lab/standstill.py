"""How long this machine stood still: by so much a measured time may be longer, through no fault of what is measured."""

from __future__ import annotations

import threading
import time
from typing import Self

TICK_S = 0.05
# What a thread may come too late on a machine that is only busy.
BUSY_S = 0.1


class Standstill:
    """As a context: a thread that wants to run every `TICK_S` notes by how much it came too late."""

    def __init__(self) -> None:
        self.ms = 0  # in all
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        began_s = time.monotonic()
        while not self._over.wait(TICK_S):
            late_s = time.monotonic() - began_s - TICK_S
            self.ms += int(late_s * 1000) if late_s > BUSY_S else 0
            began_s = time.monotonic()
