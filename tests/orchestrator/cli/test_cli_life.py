"""A life, told in lines. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

from envelope.errors import ErrorCode
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskResult
from orchestrator.life_lines import MAX_ATTEMPTS, Told, life_lines
from orchestrator.submit import DRIVERS
from orchestrator.task_life import Life, Phase
from transport.base import TaskRecord

TRACE, TASK, CHILD = new_trace_id(), new_task_id(), new_task_id()
RECORD = TaskRecord(TASK, TRACE, "build", "build", State.RUNNING, 2, accepted_at_ms=0, expires_at_ms=3_600_000)
PHASES = (
    Phase(State.PENDING, 0, 0, 2_000),
    Phase(State.RUNNING, 1, 2_000, 62_000, worker="w1"),
    Phase(State.PENDING, 1, 62_000, 65_000, reason="its worker was lost"),
    Phase(State.RUNNING, 2, 65_000, worker="w2"),
)


def told(record: TaskRecord = RECORD, life: Life = Life(PHASES), *children: TaskRecord, now_ms: int = 75_000):
    return list(life_lines(Told(record, life, children, now_ms), zone=UTC))


def test_a_running_task_tells_its_attempts_and_what_is_left():
    assert told(replace(RECORD, lost_leases=1)) == [
        ("accepted", "1970-01-01 00:00:00, started 2.0 s later"),
        ("attempt 1", "00:00:02 – 00:01:02 (1 m 00 s) on w1: lost, the worker did not renew its lease"),
        ("attempt 2", "00:01:05 (10.0 s) on w2: runs"),
        ("in all", "5.0 s in line, 1 m 10 s running; 1 lost lease"),
        ("deadline", "1 h 00 m from its acceptance; 58 m 45 s left"),
    ]


def test_a_waiting_task_tells_for_how_long_and_for_whom():
    waiting = Phase(State.WAITING, 1, 62_000, reason="waits for 1 children, 0 asks")
    record = replace(RECORD, state=State.WAITING, waits_for=(CHILD,))
    child = replace(RECORD, task_id=CHILD, agent="explore", intent="find callers")

    lines = told(record, Life((*PHASES[:2], waiting)), child)

    assert ("attempt 1", "00:00:02 – 00:01:02 (1 m 00 s) on w1: parked, waits for 1 child") in lines
    assert ("waiting", f"for 13.0 s: waits for 1 child ({CHILD[-8:]})") in lines
    assert lines[-2:] == [("children", "1: 1 running"), ("", f"● {CHILD[-8:]} explore find callers")]


def test_of_many_attempts_the_latest_are_told_and_the_others_counted():
    phases = []
    for number in range(1, MAX_ATTEMPTS + 31):
        phases += [Phase(State.RUNNING, number, number * 10, number * 10 + 5, worker="w")]
        phases += [Phase(State.PENDING, number, number * 10 + 5, number * 10 + 10, reason="its worker was lost")]

    lines = told(life=Life((Phase(State.PENDING, 0, 0, 10), *phases)))

    assert ("attempts", "… 30 earlier (30 lost)") in lines
    assert sum(about.startswith("attempt ") for about, _ in lines) == MAX_ATTEMPTS


def test_an_ended_task_tells_what_was_left_and_who_may_go_on_with_it():
    poison = ErrorInfo.of(ErrorCode.POISON, "the task was given up after 3 lost leases")
    said = {"trace_id": TRACE, "task_id": TASK, "attempt": 2}
    result = TaskResult(**said, status=State.ERROR, errors=(poison,), resume_token=TASK)
    record = replace(RECORD, state=State.ERROR, finished_at_ms=70_000)
    ended = (*PHASES[:3], replace(PHASES[3], until_ms=70_000))

    lines = told(record, Life(ended, result=result))

    assert ("attempt 2", "00:01:05 – 00:01:10 (5.0 s) on w2: error (poison)") in lines
    assert ("deadline", "1 h 00 m from its acceptance; 58 m 50 s were left") in lines
    assert ("ended", "00:01:10 as error, 1 m 10 s after its acceptance") in lines
    assert lines[-1][0] == "session"
    assert TASK in lines[-1][1]


def test_a_cancelled_task_tells_by_whom_and_why_also_when_only_its_result_knows():
    error = ErrorInfo.of(ErrorCode.CANCELLED, "its parent ended")
    result = TaskResult(trace_id=TRACE, task_id=TASK, attempt=0, status=State.CANCELLED, errors=(error,))

    by_ann = replace(RECORD, cancelled_by="ann", cancel_reason="enough")
    assert ("cancelled", "by ann: enough") in told(by_ann)
    assert ("cancelled", "its parent ended") in told(RECORD, Life(PHASES, result=result))


def test_what_is_missing_of_a_life_is_said():
    lines = told(life=Life(PHASES[1:], whole=False))

    assert lines[1] == ("", "earlier events are no longer kept: the first attempts and waits are missing here")


def test_what_a_driver_has_saved_is_no_session_to_go_on_with():
    saved = replace(RECORD, checkpoint=f"sha256:{'0' * 64}")

    assert "session" in dict(told(saved))
    assert "session" not in dict(told(replace(saved, pool=DRIVERS)))
