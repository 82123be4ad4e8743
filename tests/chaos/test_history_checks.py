"""Each check of the history finds what it is there for: a good history is broken in one place, and seen to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from lab import checks
from lab.checks import violations
from lab.history import Entry, History, Op, Outcome

from envelope.lifecycle import State
from transport.base import TaskRecord
from transport.money import Ledger

TASK, TRACE = "task", "trace"
MS = 1_000_000


def op(what: str, at_ms: int, attempt: int = 0, outcome: Outcome = Outcome.OK, **said) -> Op:
    asked = {name: said.pop(name) for name in ("keys", "seq", "charge_microusd", "blob") if name in said}
    return Op("w", what, outcome, at_ms * MS, (at_ms + 1) * MS, TASK if attempt else "", attempt, asked, said)


def entry(at_ms: int, attempt: int, state: State | None = None, *, seq: int = -1, is_result: bool = False) -> Entry:
    return Entry(f"{at_ms}-0", TASK, attempt, seq, state, is_result)


def record(state: State = State.COMPLETED) -> TaskRecord:
    return TaskRecord(TASK, TRACE, "general", "chaos", state, attempt=2, accepted_at_ms=0, expires_at_ms=1_000)


def money(spent: int, reserved: int = 0) -> dict[str, int]:
    return {"spent": spent, "reserved": reserved, "cap": 10}


OPS = (
    op("submit", 5, keys=["k"], task_ids=[TASK]),
    op("submit", 6, keys=["k"], task_ids=[TASK]),
    op("claim", 10, claims=[{"task_id": TASK, "attempt": 1, "checkpoint": None}]),
    op("emit", 20, 1, seq=0, charge_microusd=3, ledger=money(3, 2)),
    op("checkpoint", 25, 1, blob="first"),
    op("checkpoint", 26, 1, Outcome.UNKNOWN, blob="second"),
    op("emit", 95, 1, Outcome.FAILED, seq=1, charge_microusd=3),
    op("claim", 50, claims=[{"task_id": TASK, "attempt": 2, "checkpoint": "second"}]),
    op("emit", 70, 2, seq=0, charge_microusd=4, ledger=money(7)),
    op("finish", 80, 2, ended=True),
    op("finish", 90, 2, ended=True),
    replace(op("result", 91), task_id=TASK),
)
STREAM = (
    entry(5, 0, State.PENDING),
    entry(10, 1, State.RUNNING),
    entry(20, 1, seq=0),
    entry(40, 1, State.PENDING),
    entry(50, 2, State.RUNNING),
    entry(70, 2, seq=0),
    entry(80, 2, State.COMPLETED, is_result=True),
)
GOOD = History(OPS, {TRACE: STREAM}, {TASK: record()}, {TRACE: Ledger(7, 10)})


def with_stream(*stream: Entry) -> History:
    return replace(GOOD, streams={TRACE: stream})


def with_op(added: Op) -> History:
    return replace(GOOD, ops=(*OPS, added))


def without(*positions: int) -> tuple[Entry, ...]:
    return tuple(entry for at, entry in enumerate(STREAM) if at not in positions)


def test_a_good_history_breaks_no_promise():
    assert violations(GOOD) == []


BROKEN: list[tuple[Callable[[History], list[str]], History]] = [
    (checks.lost, replace(GOOD, records={})),
    (checks.lost, replace(GOOD, records={TASK: record(State.RUNNING)})),
    (checks.lost, with_stream(*STREAM[:-1])),
    (checks.lost, replace(GOOD, streams={TRACE: ()}, trimmed={TRACE: frozenset()})),
    (checks.trimmed, replace(GOOD, trimmed={TRACE: frozenset({TASK})})),
    (checks.untold, replace(GOOD, ops=OPS[:-1])),
    (checks.ended_twice, with_stream(*STREAM, entry(81, 2, State.COMPLETED, is_result=True))),
    (checks.ended_twice, with_stream(*STREAM, entry(81, 2, seq=1))),
    (checks.one_task_per_key, with_op(op("submit", 7, keys=["k"], task_ids=["another"]))),
    (checks.stale_writes, with_op(op("emit", 60, 1, seq=1, charge_microusd=0, ledger=money(3)))),
    (checks.stale_writes, with_op(op("checkpoint", 60, 1, blob="late"))),
    (checks.stale_writes, with_op(op("checkpoint", 95, 2, blob="after the result"))),
    (checks.stale_writes, with_op(op("finish", 95, 1, ended=True))),
    (checks.out_of_turn, with_stream(*STREAM[:5], entry(60, 1, seq=1), *STREAM[5:])),
    (checks.out_of_turn, with_stream(*without(1))),
    (checks.overlapping_leases, with_stream(*without(3))),
    (checks.overlapping_leases, with_stream(*STREAM[:4], entry(39, 2, State.RUNNING), *STREAM[5:])),
    (checks.illegal_moves, with_stream(*without(1, 4))),
    (checks.illegal_moves, with_stream(*STREAM[:4], entry(45, 1, State.WAITING), *STREAM[4:])),
    (checks.broken_counts, with_stream(*STREAM[:3], entry(21, 1, seq=2), *STREAM[3:])),
    (checks.broken_counts, with_stream(*STREAM[:3], entry(21, 1, seq=0), *STREAM[3:])),
    (checks.forgotten_writes, with_stream(*without(5))),
    (checks.forgotten_writes, with_stream(*STREAM[:-1])),
    (checks.lost_checkpoints, with_op(op("claim", 60, claims=[{"task_id": TASK, "attempt": 3, "checkpoint": None}]))),
    (checks.charged_wrongly, replace(GOOD, ledgers={TRACE: Ledger(10, 10)})),
    (checks.over_budget, replace(GOOD, ledgers={TRACE: Ledger(11, 10)})),
    (checks.over_budget, replace(GOOD, ledgers={TRACE: Ledger(7, 10, reserved_microusd=1)})),
    (checks.over_budget, with_op(op("reserve", 60, 2, ledger=money(8, 3)))),
]


@pytest.mark.parametrize(
    ("check", "history"), BROKEN, ids=[f"{check.__name__}-{n}" for n, (check, _) in enumerate(BROKEN)]
)
def test_a_broken_promise_is_found(check, history):
    assert check(history)


def test_a_full_server_may_drop_events_and_no_result():
    dropped = replace(GOOD, streams={TRACE: ()}, trimmed={TRACE: frozenset({TASK})})
    assert violations(dropped, without=[checks.trimmed]) == []


def test_every_check_has_a_history_that_breaks_it():
    assert {check for check, _ in BROKEN} == set(checks.CHECKS)


def test_a_write_that_nobody_knows_the_outcome_of_is_no_proof():
    assert violations(with_op(op("emit", 60, 1, Outcome.UNKNOWN, seq=1, charge_microusd=5))) == []
