"""A tree and its cost as JSON: what the API answers, and the commands print for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transport.money import Ledger

from ..budgets import Funds
from ..costs import Cost
from .fold import Session
from .task import Spent, TaskView


def tree_as_json(session: Session, trace_id: str) -> dict[str, Any]:
    """`cursor` is where to follow the trace from."""
    tasks = {task_id: task_as_json(task) for task_id, task in session.tasks.items()}
    return {"root": session.root, "trace_id": trace_id, "cursor": session.cursor(trace_id), "tasks": tasks}


def task_as_json(task: TaskView) -> dict[str, Any]:
    """The values as they are in the view, not copied: it is written out at once."""
    return {
        "task_id": task.task_id,
        "trace_id": task.trace_id,
        "parent": task.parent,
        "children": task.children,
        "agent": task.agent,
        "model": task.model,
        "title": task.title,
        "state": task.state,
        "reason": task.reason,
        "attempt": task.attempt,
        "worker": task.worker,
        "turn": task.turn,
        "tool_calls": task.tool_calls,
        "running_tools": [{"tool": tool.tool, "title": tool.title} for tool in task.running_tools.values()],
        "usage": vars(task.usage),
        "cost_microusd": task.cost_microusd,
        "started_at_ms": task.started_at_ms,
        "ended_at_ms": task.ended_at_ms,
        "files": task.files,
        "asks": task.asks,
        "stopped_by": None if task.stopped_by is None else task.stopped_by.model_dump(mode="json"),
        "error": task.error,
        "hint": task.hint,
    }


def cost_as_json(cost: Cost) -> dict[str, Any]:
    """Tables are by cost, the dearest first; `reserved` is by task."""
    return {
        "spent_microusd": cost.spent_microusd,
        "tokens": cost.tokens,
        "ledger": ledger_as_json(cost.ledger),
        "by_model": _table(cost.by_model),
        "by_agent": _table(cost.by_agent),
        "reserved": dict(cost.reserved),
    }


def ledger_as_json(ledger: Ledger) -> dict[str, int | None]:
    """`cap_microusd` is None where there is no cap."""
    return {
        "spent_microusd": ledger.spent_microusd,
        "reserved_microusd": ledger.reserved_microusd,
        "cap_microusd": ledger.cap_microusd,
    }


def funds_as_json(funds: Funds) -> dict[str, Any]:
    return {
        "ledger": ledger_as_json(funds.ledger),
        "parts": {task_id: ledger_as_json(part) for task_id, part in funds.parts.items()},
        "reserved": dict(funds.reserved),
        "waiting": list(funds.waiting),
    }


def _table(rows: Mapping[str, Spent]) -> dict[str, dict[str, Any]]:
    return {
        name: {"cost_microusd": spent.cost_microusd, "usage": dict(spent.usage)}
        for name, spent in sorted(rows.items(), key=lambda row: (-row[1].cost_microusd, row[0]))
    }
