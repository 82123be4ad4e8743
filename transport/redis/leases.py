"""Lease renewal for a thread of its own: a blocking client, one connection, one script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import redis
import redis.exceptions as faults
from redis.backoff import NoBackoff
from redis.retry import Retry

from ..base import Lease, Renewal
from .cell import Cell
from .client import translated
from .connections import options
from .script import script

# `wait` blocks at most this much less than the socket's time-out, else quiet would look like a lost server.
SOCKET_MARGIN_S = 5.0


class RedisKeeper:
    """See `LeaseKeeper`. Not for the event loop."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._redis = _connection(cell.client.url, cell.limits.lease_ms / 1000 + SOCKET_MARGIN_S)
        self._waits_for: str | None = None

    def wait(self, worker: str, timeout_s: float) -> None:
        self._waits_for = self._cell.keys.name("wake", worker)
        self._call("BLPOP", self._waits_for, min(timeout_s, self._cell.limits.lease_ms / 1000))

    def renew(self, leases: Sequence[Lease]) -> Renewal:
        if not leases:
            return Renewal()
        rows = [[lease.task_id, lease.attempt, lease.worker] for lease in leases]
        renew, blob = script("renew"), self._cell.arguments(leases=rows)
        with translated():
            try:
                answer = self._execute("EVALSHA", renew.sha, 1, self._cell.keys.prefix, blob)
            except faults.NoScriptError:
                answer = self._execute("EVAL", renew.source, 1, self._cell.keys.prefix, blob)
        lost, cancelled, expired = cast(list[list[bytes]], answer)
        texts = [text.decode() for text in cancelled]
        return Renewal(
            lost=frozenset(task.decode() for task in lost),
            cancelled=dict(zip(texts[::2], texts[1::2], strict=True)),
            expired=frozenset(task.decode() for task in expired),
        )

    def interrupt(self) -> None:
        """By the worker's own doorbell; the connection stays with its thread."""
        if self._waits_for:
            self._call("LPUSH", self._waits_for, 1)
            self._call("EXPIRE", self._waits_for, 60)

    def close(self) -> None:
        self._redis.close()

    def _call(self, *command: str | int | float) -> Any:
        with translated():
            return self._execute(*command)

    def _execute(self, *command: str | int | float | bytes) -> Any:
        return cast(Any, self._redis).execute_command(*command)


def _connection(url: str, timeout_s: float) -> redis.Redis:
    factory = cast(Callable[..., redis.Redis], redis.Redis.from_url)  # pyright: ignore[reportUnknownMemberType]
    return factory(url, retry=Retry(NoBackoff(), 0), socket_timeout=timeout_s, **options(url))
