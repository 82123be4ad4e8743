"""The count of uploads on Redis: each tenant's is in one cell, whichever server asks."""

from __future__ import annotations

import hashlib

from ..uploads import Allowed, count_of
from .cells import Cells


class RedisUploads:
    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    async def take(self, tenant: str, size_bytes: int, *, looks: bool = False) -> None:
        allowed = Allowed.of(self._cells.limits, looks=looks)
        allowed.check_one(size_bytes)
        name = count_of(tenant, looks=looks)
        cell = self._cells.of_trace(hashlib.sha256(name.encode()).hexdigest())
        limits = {"hour_bytes": allowed.hour_bytes, "all_bytes": allowed.all_bytes, "kept_hours": allowed.kept_hours}
        # again after an answer that was lost: then these bytes count twice, which is the safe way
        over, *told = await cell.run("upload", repeatable=True, tenant=name, size=size_bytes, **limits)
        if over:
            left, wait_ms = map(int, told)
            raise allowed.spent(tenant, size_bytes, in_all=over == 2, left_bytes=left, wait_ms=wait_ms)
