"""Blanks words out of a stream of bytes, wherever the stream is cut into chunks."""

from __future__ import annotations

from collections.abc import Iterable


class Veil:
    """What is blanked out keeps its length, so that a length that was announced stays true."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = [word.encode() for word in words]
        self._held = b""

    def whole(self, data: bytes) -> bytes:
        """Of what is not part of the stream."""
        for word in self._words:
            data = data.replace(word, b"*" * len(word))
        return data

    def feed(self, data: bytes) -> bytes:
        """What can be let go: all but an end that may be the beginning of a word."""
        data = self.whole(self._held + data)
        at = len(data) - self._begun(data)
        self._held = data[at:]
        return data[:at]

    def rest(self) -> bytes:
        held, self._held = self._held, b""
        return held

    def _begun(self, data: bytes) -> int:
        longest = max(map(len, self._words), default=1) - 1
        sizes = range(min(longest, len(data)), 0, -1)
        return next((size for size in sizes if any(word.startswith(data[-size:]) for word in self._words)), 0)
