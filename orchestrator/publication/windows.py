"""Rollout windows: the hours in which changes may go out. Pure; the time is passed in.

>>> from datetime import UTC, datetime
>>> saturday = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
>>> is_open(["mon-fri 09:00-17:00 Europe/Berlin"], saturday), is_open(["sat,sun 08:00-12:00"], saturday)
(False, True)
>>> next_opening(["mon-fri 09:00-17:00 Europe/Berlin"], saturday).isoformat()
'2026-11-23T09:00:00+01:00'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW = re.compile(r"(?:(?P<days>[a-z,-]+) )?(?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d)(?: (?P<zone>[A-Za-z0-9_+/-]+))?")


@dataclass(frozen=True, slots=True)
class Window:
    """Opens on each of `days` (0 is Monday) at `start`; an `end` that is not later is the next day's."""

    days: frozenset[int]
    start: time
    end: time
    zone: ZoneInfo

    def spans(self, first: date, count: int) -> Iterator[tuple[datetime, datetime]]:
        for day in (first + timedelta(days=number) for number in range(count)):
            if day.weekday() in self.days:
                last = day if self.end > self.start else day + timedelta(days=1)
                yield datetime.combine(day, self.start, self.zone), datetime.combine(last, self.end, self.zone)


def read_window(text: str) -> Window:
    """`ValueError` for what is no window: `[days ]HH:MM-HH:MM[ zone]`, such as `mon-thu,sat 09:00-17:00 UTC`."""
    found = _WINDOW.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no window: write it like 'mon-fri 09:00-17:00 Europe/Berlin'")
    try:
        zone = ZoneInfo(found["zone"] or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise ValueError(f"there is no time zone {found['zone']!r}") from e
    return Window(_days(found["days"] or "mon-sun"), _time(found["start"]), _time(found["end"]), zone)


def is_open(windows: Iterable[str], now: datetime) -> bool:
    """No window at all is always open."""
    read = [read_window(text) for text in windows]
    return not read or any(start <= now < end for window in read for start, end in _around(window, now))


def next_opening(windows: Iterable[str], now: datetime) -> datetime:
    """When one opens that is shut now."""
    starts = [start for text in windows for start, _ in _around(read_window(text), now) if start > now]
    return min(starts, key=lambda start: start.astimezone(UTC))


def _around(window: Window, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Its openings from yesterday on, for a week and a day: each day of a week is among them."""
    return window.spans(now.astimezone(window.zone).date() - timedelta(days=1), 9)


def _time(text: str) -> time:
    return time.fromisoformat("00:00" if text == "24:00" else text)


def _days(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise ValueError(f"{part!r} is no day: write one of {', '.join(DAYS)}, or two with a dash")
        start, end = DAYS.index(first), DAYS.index(last or first)
        found |= {day % 7 for day in range(start, end + 1 if end >= start else end + 8)}
    return frozenset(found)
