"""What drivers and sandboxes tell to whoever counts it."""

from __future__ import annotations

from typing import Literal, Protocol

Start = Literal["cold", "warm"]  # made now, or stood ready


class SandboxWatch(Protocol):
    def opened(self, start: Start, seconds: float) -> None:
        """One was made (for a task, to stand ready, or for a setup), or one that stood ready was handed over."""
        ...

    def ran(self, seconds: float) -> None:
        """A command has ended, whatever it said."""
        ...


class Unwatched:
    """Nobody counts."""

    def opened(self, start: Start, seconds: float) -> None: ...
    def ran(self, seconds: float) -> None: ...


UNWATCHED = Unwatched()
