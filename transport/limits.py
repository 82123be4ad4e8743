"""Limits: how long things last and how much of them is kept, the same for every implementation of a transport."""

from __future__ import annotations

from dataclasses import dataclass

from envelope.messages import MAX_DEADLINE_MS

DAY_MS = 24 * 3600 * 1000

# A deadline holds within five seconds, whatever the handler does: one of them is the queue's, to notice. Four are
# enough to collect a patch of usual size (about one second) and to store what there is.
GRACE_MS = 4_000
# Less than the grace, so that somebody looks before the grace of a cancelled or expired task is over.
LONGEST_LOOK_MS = 3_750


# About as many dead letters as a cell keeps (`bury` in life.lua).
MAX_DEAD_LETTERS = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    lease_ms: int = 15_000
    # A task that took three workers down will take the fourth.
    poison_after: int = 3
    # So many times as often for one that has told that it gets on: it begins anew, and is long on its way back there.
    way_back: int = 3
    # At least; a key lasts as long as its task, its parent or its batch may live.
    idempotency_ms: int = DAY_MS
    retention_ms: int = 7 * DAY_MS
    # Who has a submission on record cannot send it again later: ten minutes forgive clocks that differ.
    replay_window_ms: int = 10 * 60 * 1000
    # Of one trace, at once; a tree that fans out wider waits its turn and leaves room for others.
    children_per_trace: int = 64
    # A long trace is about 1,000 turns of 30 entries; beyond that the oldest are dropped.
    max_entries: int = 100_000

    # Of a tenant, in a cell, where its allotment says nothing else: tasks in line, and all tasks of one trace.
    max_queued: int = 1_000_000
    max_tree: int = 100_000
    # How many tasks may stand above one. A claim looks at all of them while a tree is being stopped, so that nothing
    # starts below a task that was stopped.
    max_depth: int = 100
    # How many tasks one script moves at most (some 50 us each). Larger work is a chore, done in bites of the same size,
    # `bite_every_ms` apart. So a large tree takes about half of the server's time while it is stopped.
    tasks_per_script: int = 100
    bite_every_ms: int = 10
    # About as many entries the audit log keeps; then the oldest are dropped. 460 bytes each: 460 MB in each cell.
    audit_entries: int = 1_000_000

    # What callers from outside may store for a tenant within an hour, and within the life of a blob (`uploads.py`); 0:
    # no limit. An hour takes 32 of the largest bundles that the API takes; three weeks fill no disk of a usual size.
    upload_hour_bytes: int = 2 * 1024**3
    upload_bytes: int = 20 * 1024**3

    # Submissions are refused beyond this share of the server's `maxmemory`: what is accepted must be able to end.
    memory_share: float = 0.8

    # What is accepted, and what people decide, is acknowledged when so many replicas have it (`WAIT`).
    wait_replicas: int = 0

    @property
    def expiry_grace_ms(self) -> int:
        """A running task may end itself, with what it has, this long after its deadline or its cancellation; then the
        queue ends it."""
        return min(self.lease_ms, GRACE_MS)

    @property
    def look_ms(self) -> int:
        """Whoever is alive looks this often at what is over, idle or busy. The lease clock stands still where nobody
        has looked for a third of a lease (`reaping.lua`), so this must be less."""
        return min(self.lease_ms // 4, LONGEST_LOOK_MS)

    @property
    def max_deadline_ms(self) -> int:
        return longest_deadline_ms(self.retention_ms)


def longest_deadline_ms(retention_ms: int) -> int:
    """The longest deadline of a fleet: as long as it keeps what has ended, for a driver that goes on after a restart
    must find what its first children came to. A day at least, whatever is kept."""
    return min(MAX_DEADLINE_MS, max(DAY_MS, retention_ms))


PRIORITY_WEIGHT = {"high": 16, "normal": 4, "low": 1}
# What a start costs a tenant's lane of virtual time, at a weight of one. Counted in millionths, because Redis stores
# whole numbers compactly and sorts them three times as fast as fractions; a double holds them exactly until a pool has
# started nine million tasks of a tenant with the least weight there is.
LANE_STRIDE = 1_000_000
# What it costs a flow, within its lane: of a high and a low flow, 16 of 17 starts are the high one's.
STRIDE = {priority: 16_000_000 // weight for priority, weight in PRIORITY_WEIGHT.items()}
# What a newcomer's virtual time is behind the last one's: a million of them are no more than one start.
TICK = 1
