"""The count of uploads inside one process: what the Redis script is compared with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from ..limits import Limits
from ..uploads import HOUR_MS, Allowed, count_of


class MemoryUploads:
    def __init__(self, clock: Callable[[], int], limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)  # by tenant: hour → bytes

    async def take(self, tenant: str, size_bytes: int, *, looks: bool = False) -> None:
        allowed = Allowed.of(self._limits, looks=looks)
        allowed.check_one(size_bytes)
        now_ms = self._clock()
        hour, name = now_ms // HOUR_MS, count_of(tenant, looks=looks)
        count = {when: size for when, size in self._counts[name].items() if when > hour - allowed.kept_hours}
        in_hour, in_all = count.get(hour, 0), sum(count.values())
        if allowed.all_bytes and in_all + size_bytes > allowed.all_bytes:
            over, last = in_all + size_bytes - allowed.all_bytes, hour
            for when in sorted(count):
                over, last = over - count[when], when
                if over <= 0:
                    break
            wait_ms, left = (last + allowed.kept_hours) * HOUR_MS - now_ms, allowed.all_bytes - in_all
            raise allowed.spent(tenant, size_bytes, in_all=True, left_bytes=max(0, left), wait_ms=wait_ms)
        if allowed.hour_bytes and in_hour + size_bytes > allowed.hour_bytes:
            wait_ms, left = (hour + 1) * HOUR_MS - now_ms, allowed.hour_bytes - in_hour
            raise allowed.spent(tenant, size_bytes, in_all=False, left_bytes=max(0, left), wait_ms=wait_ms)
        self._counts[name] = {**count, hour: in_hour + size_bytes}
