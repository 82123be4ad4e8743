"""What a store tells of its round trips to whoever counts them."""

from __future__ import annotations

from typing import Protocol


class StoreWatch(Protocol):
    """Called in any thread, for each round trip that ended."""

    def answered(self, command: str, seconds: float) -> None:
        """`command`: a script's name, or `plain` for all others; what blocks on purpose is told without a time."""
        ...

    def reached(self) -> None:
        """The server answered something whose time says nothing."""
        ...

    def failed(self, error: Exception) -> None: ...

    def certificate(self, expires_at_s: float) -> None:
        """Of the server that was connected to over TLS."""
        ...


class Unwatched:
    """Nobody counts."""

    def answered(self, command: str, seconds: float) -> None: ...
    def reached(self) -> None: ...
    def failed(self, error: Exception) -> None: ...
    def certificate(self, expires_at_s: float) -> None: ...


UNWATCHED = Unwatched()
