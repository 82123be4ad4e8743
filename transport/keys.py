"""Every key that a fleet has in Redis, as data.

All control keys of a cell share one hash tag, so that every script touches one slot of a Redis Cluster. `{}` in a
pattern stands for the ids in the key's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

# Which scripts and keys a fleet speaks. Who finds a higher number in `meta` must be upgraded;
# a fleet with a lower one must be empty before it is.
PROTOCOL = 4

Lifetime = Literal[
    "always", "while it has members", "until its task ends", "until retention", "window", "minutes", "days"
]


@dataclass(frozen=True, slots=True)
class Key:
    pattern: str
    type: Literal["string", "hash", "list", "set", "zset", "stream"]
    owner: str  # the script or module that makes it
    lifetime: Lifetime
    holds: str


CONTROL = (
    Key(
        "meta",
        "hash",
        "connect",
        "always",
        "protocol number, number of cells, replicas that confirm",
    ),
    Key("task:{task}", "hash", "submit", "until retention", "the record, the envelope and the result of one task"),
    Key("children:{task}", "set", "submit", "while it has members", "the task's children that have not ended"),
    Key(
        "trace:{trace}",
        "hash",
        "submit",
        "until retention",
        "root task, first and last entry, money, live tasks, running children",
    ),
    Key("tasks:{trace}", "list", "submit", "until retention", "the trace's tasks in the order of submission"),
    Key(
        "awaits:{task}",
        "set",
        "park, hold",
        "while it has members",
        "children and asks that a waiting task still waits for; `*` among them: the first is enough",
    ),
    Key("answers:{task}", "hash", "answer", "until retention", "ask → the answer that stands, as JSON"),
    Key(
        "session:{session}", "hash", "submit, write", "until retention", "a session's last checkpoint, and who holds it"
    ),
    Key("inbox:{session}", "list", "prompt", "until its task ends", "prompts that no checkpoint holds yet, as JSON"),
    Key("events:{trace}", "stream", "submit, claim, write", "until retention", "encoded messages, field `m`"),
    Key("ended", "zset", "all", "until retention", "traces by the moment of their end: whose events go first"),
    Key("usage", "hash", "all", "always", "bytes and tasks of measured traces that ended, the latest counting most"),
    Key("index", "zset", "submit", "days", "root tasks by the moment of their acceptance"),
    Key("index:{tenant}", "zset", "submit", "days", "the same of one tenant"),
    Key(
        "live",
        "zset",
        "submit",
        "while it has members",
        "root tasks that have not ended, without shards of batches, by the moment of their acceptance",
    ),
    Key("live:{tenant}", "zset", "submit", "while it has members", "the same of one tenant"),
    Key("shards", "zset", "submit", "while it has members", "shards of batches that have not ended, in the same way"),
    Key("shards:{tenant}", "zset", "submit", "while it has members", "the same of one tenant"),
    Key(
        "asking",
        "zset",
        "park, hold",
        "while it has members",
        "tasks that wait for answers of people, by the moment at which they began to",
    ),
    Key("asking:{tenant}", "zset", "park, hold", "while it has members", "the same of one tenant"),
    Key(
        "parked:{pool}",
        "zset",
        "park, answer",
        "while it has members",
        "tasks that wait for children alone, by the moment at which they began to",
    ),
    Key("pools", "set", "submit, announce", "always", "every pool that ever had a task or a worker"),
    Key(
        "pool:{pool}",
        "hash",
        "submit, claim",
        "always",
        "virtual times, its own and its lanes'; how many tasks are ready",
    ),
    Key("lanes:{pool}", "zset", "submit, claim", "while it has members", "the tenants' lanes by virtual time"),
    Key(
        "flows:{pool}:{tenant}", "zset", "submit, claim", "while it has members", "the flows of a lane by virtual time"
    ),
    Key("flow:{pool}:{tenant}:{priority}:{group}", "list", "submit", "while it has members", "ready tasks of one flow"),
    Key("held:tenant:{tenant}", "zset", "claim", "while it has members", "lanes that a tenant's cap holds back"),
    Key("held:trace:{trace}", "zset", "claim", "while it has members", "flows that a trace's cap holds back"),
    Key("flight", "hash", "claim, write", "while it has members", "tenant → how many of its tasks run"),
    Key("tenants", "hash", "allot", "always", "tenant → its weight beside others, and its caps"),
    Key("money:{tenant}", "hash", "write, fund", "always", "what a tenant has spent and reserved, and its cap"),
    Key("short:{tenant}", "hash", "write", "while it has members", "task that waits for a tenant's money → its ask"),
    Key("bell:{pool}", "list", "submit, claim", "while it has members", "at most one token: something is ready"),
    Key("nudge:{worker}", "list", "claim", "minutes", "a token for a worker's own claim: do not wait for the bell"),
    Key(
        "leases:{pool}",
        "zset",
        "claim, renew",
        "while it has members",
        "running tasks by the end of their lease, by the lease clock",
    ),
    Key(
        "reaper",
        "hash",
        "claim, renew, reap",
        "always",
        "the lease clock: the last look, how far it is behind, the last gap",
    ),
    Key("deadlines", "zset", "submit", "while it has members", "live tasks by the moment at which they expire"),
    Key("timers", "zset", "retry, park", "while it has members", "put-off and waiting tasks by the moment they go on"),
    Key(
        "reply:{caller}",
        "string",
        "claim, write",
        "minutes",
        "a caller's last answer: a repeated call is not done twice",
    ),
    Key("wake:{worker}", "list", "cancel", "minutes", "a token for the worker's lease keeper: look at your leases"),
    Key("chores", "list", "all", "while it has members", "tenants that have chores, in turn"),
    Key("chores:{tenant}", "list", "all", "while it has members", "work that is too long for one script: kind and id"),
    Key("chore:{chore}", "hash", "all", "minutes", "how far one of them has come, and why it is done"),
    Key("stack:{task}", "list", "all", "while it has members", "of a tree that is stopped: where the walk stands"),
    Key("pace", "hash", "all", "minutes", "when the last bite of a chore was done, and who comes for the next"),
    Key("queued", "hash", "submit, claim", "while it has members", "tenant → how many of its tasks are in line"),
    Key("capped:{trace}", "hash", "write", "until retention", "task that waits at its trace's cap → its ask"),
    Key("done", "stream", "all", "always", "ids of tasks that ended together, about the last 100,000"),
    Key("news:{process}", "stream", "await", "minutes", "ids of tasks that ended and that this process waits for"),
    Key("dead", "stream", "claim, reap", "always", "dead letters: task, pool, code and why, about the last 10,000"),
    Key(
        "audit",
        "stream",
        "all that decide",
        "always",
        "the audit log: entries as JSON, and hashes, about the last million",
    ),
    Key("audithead", "hash", "all that decide", "always", "number and hash of the log's last entry"),
    Key("auditseal", "hash", "audit", "always", "an end of the log, and where it began, under a key of the fleet's"),
    Key(
        "asked",
        "stream",
        "write",
        "always",
        "tasks that wait for people, and their asks, about the last 10,000",
    ),
    Key("noticemarks", "hash", "notice", "always", "how far the streams done, dead and asked were told to others"),
    Key(
        "notice:{id}",
        "hash",
        "notice",
        "until retention",
        "what somebody outside is told; whole until it has arrived",
    ),
    Key(
        "noticedue",
        "zset",
        "notice",
        "while it has members",
        "notices by the moment at which they are sent",
    ),
    Key("noticedead", "zset", "notice", "while it has members", "notices that nobody tries to send any more"),
    Key(
        "once:{tenant}:{key}",
        "string",
        "submit",
        "window",
        "idempotency key → the first task, and a digest of its work",
    ),
    Key("counters", "hash", "all", "always", "fenced_writes, lost_leases, retries, poisoned"),
    Key(
        "rate:{model}", "hash", "rate", "minutes", "how fast one model may be called with one key, and what is used up"
    ),
    Key("rateline:{model}", "zset", "rate", "minutes", "calls that wait, by virtual time"),
    Key("ratedue:{model}", "zset", "rate", "minutes", "the same by the moment at which they count as gone"),
    Key("rateends:{model}", "zset", "rate", "minutes", "traces by the virtual time at which their last call ends"),
    Key("uploads:{tenant}", "hash", "upload", "days", "hour → bytes that callers from outside have stored"),
    Key("workers", "zset", "announce", "always", "live workers by the moment at which they are forgotten"),
    Key("cards", "hash", "announce", "always", "worker → its card as JSON, signed"),
)

# Outside the tag: large, never touched by a script, free to live on another node.
BLOBS = (
    Key("muster:{fleet}:blob:{digest}", "string", "blobs", "until retention", "content under its own SHA-256"),
    Key(
        "muster:{fleet}:blob:of:{digest}",
        "hash",
        "blobs",
        "until retention",
        "whose the blob is; `*`: everybody's",
    ),
)

# Outside the tag, too: what a worker's user must not reach (`registry.py`).
REGISTRY = Key(
    "muster:{fleet}:registry:{table}",
    "hash",
    "registry",
    "always",
    "tokens of the API, sign-outs, the log's ends",
)


def cell_of(trace_id: str, cells: int = 1) -> int:
    """The cell in which a trace lives: trace ids are random, so their last digits spread evenly."""
    return int(trace_id[-8:], 16) % cells


@dataclass(frozen=True, slots=True)
class CellKeys:
    """The names of one cell's keys.

    >>> CellKeys("main").name("task", "7")
    '{muster:main:0}:task:7'
    """

    fleet: str
    cell: int = 0

    @property
    def prefix(self) -> str:
        return f"{{muster:{self.fleet}:{self.cell}}}"

    def name(self, *parts: str) -> str:
        return ":".join((self.prefix, *parts))

    def key_of(self, name: str) -> Key | None:
        """The row of the table that a name in the server belongs to."""
        rest = name.removeprefix(f"{self.prefix}:")
        return next((key for key in CONTROL if re.fullmatch(_regex(key.pattern), rest)), None)


def _regex(pattern: str) -> str:
    # an idempotency key is the caller's own text; all other ids are free of colons
    wild = {"{key}": ".+"}
    parts = re.split(r"(\{\w+\})", pattern)
    return "".join(wild.get(part, "[^:]+") if part.startswith("{") else re.escape(part) for part in parts)
