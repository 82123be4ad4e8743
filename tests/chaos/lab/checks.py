"""The promises of the transport as functions from a history to what breaks them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from envelope.lifecycle import NEXT, TERMINAL, State

from .history import Entry, History, Op, Outcome

Check = Callable[[History], list[str]]

# Writes that stand under a lease: none of them may succeed once the next attempt has started.
LEASED = ("emit", "reserve", "checkpoint", "park", "retry", "give_back", "finish", "spawn")
# The server stamps a script with the time at which it began, in whole milliseconds.
CLOCK_GRAIN_MS = 5.0


def violations(history: History, *, without: Iterable[Check] = ()) -> list[str]:
    """Every broken promise, one sentence each, led by its check's name."""
    left_out = set(without)
    return [f"{check.__name__}: {text}" for check in CHECKS if check not in left_out for text in check(history)]


def lost(history: History) -> list[str]:
    """An acknowledged submission ends in a terminal record and one result that the stream gives its readers."""
    results = {entry.task_id for entry in _entries(history) if entry.is_result}.union(*history.trimmed.values())
    found: list[str] = []
    for task_id in _accepted(history, "submit", "spawn"):
        record = history.records.get(task_id)
        if record is None:
            found.append(f"{task_id} was accepted, and is not known")
        elif record.state not in TERMINAL:
            found.append(f"{task_id} was accepted, and is still {record.state}")
        elif task_id not in results:
            found.append(f"{task_id} is {record.state} without a result in the stream")
    return found


def trimmed(history: History) -> list[str]:
    """A server that has room keeps every event."""
    return [f"events of {trace_id} were dropped" for trace_id in history.trimmed]


def untold(history: History) -> list[str]:
    """Who submitted a task was told how it ended."""
    told = {op.task_id for op in history.of("result")}
    return [f"nobody was told the result of {task}" for task in _accepted(history, "submit") if task not in told]


def ended_twice(history: History) -> list[str]:
    found: list[str] = []
    for task_id, entries in history.tasks().items():
        results = [at for at, entry in enumerate(entries) if entry.is_result]
        if len(results) > 1:
            found.append(f"{task_id} has {len(results)} results")
        elif results and results[0] != len(entries) - 1:
            found.append(f"{task_id} has {len(entries) - 1 - results[0]} entries after its result")
    return found


def one_task_per_key(history: History) -> list[str]:
    """However often a request was sent, it stands for one task."""
    tasks: defaultdict[str, set[str]] = defaultdict(set)
    for op in history.of("submit", "spawn"):
        if op.ok:
            for key, task_id in zip(op.asked["keys"], op.answer["task_ids"], strict=True):
                tasks[key].add(task_id)
    return [f"the key {key} stands for {len(ids)} tasks" for key, ids in tasks.items() if key and len(ids) > 1]


def stale_writes(history: History) -> list[str]:
    """No write is accepted that was asked for after the next attempt started, or after the task's result."""
    starts = history.starts()
    ends = {entry.task_id: entry for entry in _entries(history) if entry.is_result}
    found: list[str] = []
    for op in history.of(*LEASED):
        after = starts.get((op.task_id, op.attempt + 1)) or ends.get(op.task_id)
        # a finish may be sent again: the answer to the first may have been lost
        if op.ok and after and not (after.is_result and op.what == "finish" and after.attempt == op.attempt):
            late_ms = history.server_ms(op.began_ns) - after.at_ms
            if late_ms > CLOCK_GRAIN_MS:
                found.append(f"{op.what} of {op.task_id}, attempt {op.attempt}, was accepted {late_ms:.0f} ms too late")
    return found


def out_of_turn(history: History) -> list[str]:
    """In the stream, what an attempt says stands between its start and the next one's."""
    found: list[str] = []
    for task_id, entries in history.tasks().items():
        running = 0
        for entry in entries:
            if entry.state is State.RUNNING and not entry.is_result:
                if entry.attempt != running + 1:
                    found.append(f"{task_id}: attempt {entry.attempt} starts after attempt {running}")
                running = entry.attempt
            elif entry.seq >= 0 and entry.attempt != running:
                found.append(f"{task_id}: attempt {entry.attempt} speaks in the turn of attempt {running}")
    return found


def overlapping_leases(history: History) -> list[str]:
    """By the server's time and word, an attempt ends before the next one starts."""
    found: list[str] = []
    for task_id, entries in history.tasks().items():
        moves = [entry for entry in entries if entry.state is not None]
        for before, after in pairwise(moves):
            if before.state is State.RUNNING and after.state is State.RUNNING:
                found.append(f"{task_id}: attempts {before.attempt} and {after.attempt} run at once")
            if after.at_ms < before.at_ms:
                found.append(f"{task_id}: {after.state} at {after.at_ms} stands behind {before.at_ms}")
    return found


def illegal_moves(history: History) -> list[str]:
    found: list[str] = []
    for task_id, entries in history.tasks().items():
        # that a trace's first task is in line is told, of the others it goes without saying
        told = [entry.state for entry in entries if entry.state is not None]
        states = told if told[:1] == [State.PENDING] else [State.PENDING, *told]
        found += [f"{task_id} went from {old} to {new}" for old, new in pairwise(states) if new not in NEXT[old]]
    return found


def broken_counts(history: History) -> list[str]:
    """A worker's entries count 0, 1, 2 … within each attempt."""
    seqs: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for entry in _entries(history):
        if entry.seq >= 0:
            seqs[entry.task_id, entry.attempt].append(entry.seq)
    return [
        f"{task_id}, attempt {attempt}, counts {found}"
        for (task_id, attempt), found in seqs.items()
        if found != list(range(len(found)))
    ]


def forgotten_writes(history: History) -> list[str]:
    """What was acknowledged is in the stream: each emit, and as the result the finish that was accepted.

    Of what a full server drops, `lost` looks for the results.
    """
    dropped = {record.task_id for record in history.records.values() if record.trace_id in history.trimmed}
    entries = {(e.task_id, e.attempt, e.seq) for e in _entries(history) if e.seq >= 0}
    results = {(e.task_id, e.attempt) for e in _entries(history) if e.is_result}
    found = [
        f"emit {op.asked['seq']} of {op.task_id}, attempt {op.attempt}, is gone"
        for op in history.of("emit")
        if op.ok and op.task_id not in dropped and (op.task_id, op.attempt, op.asked["seq"]) not in entries
    ]
    return found + [
        f"the finish of {op.task_id}, attempt {op.attempt}, is gone"
        for op in history.of("finish")
        if op.ok and op.task_id not in dropped and op.answer["ended"] and (op.task_id, op.attempt) not in results
    ]


def lost_checkpoints(history: History) -> list[str]:
    """An attempt starts from the last checkpoint that an earlier one was told is kept, or a later one."""
    made: defaultdict[str, list[Op]] = defaultdict(list)
    for op in history.of("checkpoint"):
        made[op.task_id].append(op)
    found: list[str] = []
    for claim in (claim for op in history.of("claim") if op.ok for claim in op.answer["claims"]):
        earlier = sorted(
            (op for op in made[claim["task_id"]] if op.attempt < claim["attempt"]),
            key=lambda op: (op.attempt, op.began_ns),
        )
        sure = max((at for at, op in enumerate(earlier) if op.ok), default=None)
        possible = {op.asked["blob"] for op in earlier[sure or 0 :] if op.outcome is not Outcome.FAILED}
        if sure is not None and claim["checkpoint"] not in possible:
            found.append(f"attempt {claim['attempt']} of {claim['task_id']} did not start from the last checkpoint")
    return found


def charged_wrongly(history: History) -> list[str]:
    """What a trace has spent is the sum of the charges in its stream, each once."""
    charges = {(op.task_id, op.attempt, op.asked["seq"]): op.asked["charge_microusd"] for op in history.of("emit")}
    found: list[str] = []
    for trace_id, ledger in history.ledgers.items():
        entries = {(e.task_id, e.attempt, e.seq) for e in history.streams[trace_id] if e.seq >= 0}
        spent = sum(charges.get(entry, 0) for entry in entries)
        if trace_id not in history.trimmed and spent != ledger.spent_microusd:
            found.append(f"{trace_id} was charged {ledger.spent_microusd}, its stream holds {spent}")
    return found


def over_budget(history: History) -> list[str]:
    """Nobody ever saw a trace over its cap, and nothing stays set aside when all is over."""
    found: list[str] = []
    for op in history.of("emit", "reserve"):
        money = op.answer.get("ledger") if op.ok else None
        if money and money["cap"] is not None and money["spent"] + money["reserved"] > money["cap"]:
            found.append(f"{op.what} of {op.task_id} saw {money}")
    for trace_id, ledger in history.ledgers.items():
        if ledger.cap_microusd is not None and ledger.spent_microusd > ledger.cap_microusd:
            found.append(f"{trace_id} spent {ledger.spent_microusd} of {ledger.cap_microusd}")
        if ledger.reserved_microusd:
            found.append(f"{trace_id} still has {ledger.reserved_microusd} set aside")
    return found


def _accepted(history: History, *what: str) -> list[str]:
    return sorted({task for op in history.of(*what) if op.ok for task in op.answer["task_ids"]})


def _entries(history: History) -> Iterator[Entry]:
    for stream in history.streams.values():
        yield from stream


# What a server that was made to forget has forgotten, and what no check can see any more.
FORGETFUL: tuple[Check, ...] = (lost, one_task_per_key, forgotten_writes, lost_checkpoints, charged_wrongly)
CHECKS: tuple[Check, ...] = (
    lost,
    trimmed,
    untold,
    ended_twice,
    one_task_per_key,
    stale_writes,
    out_of_turn,
    overlapping_leases,
    illegal_moves,
    broken_counts,
    forgotten_writes,
    lost_checkpoints,
    charged_wrongly,
    over_budget,
)
