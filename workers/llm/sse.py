"""Server-sent events: bytes in whatever pieces they come, the data of each event out. Pure.

Names, ids and retry times of events are skipped: all wire formats say everything in the data.
"""

from __future__ import annotations

# A gateway that does not stream may send a whole reply as one event; nobody sends more than this.
MAX_EVENT_BYTES = 8 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class TooLong(Exception):
    """Something without an end; whoever sends it would fill the memory."""


class EventParser:
    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_event_bytes
        self._line: list[bytes] = []  # a line without its end, in pieces
        self._data: list[bytes] = []  # the data lines of an event without its end
        self._held_bytes = 0  # of both; counted anew, thousands of pieces would keep a worker busy
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that ends in this chunk; `TooLong` for one that grows beyond the limit."""
        *lines, rest = self._whole_lines(chunk)
        events: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                data = line[6:] if line[5:6] == b" " else line[5:]
                self._data.append(data)
                self._held_bytes += len(data) + 1
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
                self._held_bytes = 0
        if rest:
            self._line.append(rest)
            self._held_bytes += len(rest)
        self._bound()
        return events

    def end(self) -> list[bytes]:
        """What the last event says when the stream ends without the empty line after it."""
        return self.feed(b"\n\n")

    def _whole_lines(self, chunk: bytes) -> list[bytes]:
        """The lines that end in the chunk, and last what follows their end. A line ends in LF, CR or both."""
        if b"\n" not in chunk and b"\r" not in chunk:
            return [chunk]
        line = b"".join(self._line)
        self._held_bytes -= len(line)
        text = line + chunk
        self._line.clear()
        if not self._begun:
            self._begun, text = True, text.removeprefix(_BOM)
        if b"\r" in text:
            # A CR at the very end may be half of an end that the next chunk completes.
            text, held = (text[:-1], b"\r") if text.endswith(b"\r") else (text, b"")
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        return text.split(b"\n")

    def _bound(self) -> None:
        if self._held_bytes > self._max_bytes:
            raise TooLong(f"an event of more than {self._max_bytes} bytes")
