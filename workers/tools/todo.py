"""`todowrite` and `todoread`: the agent's own list of what is to do.

The list needs no store of its own: every write holds the whole of it, and the calls are in the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from envelope.events import Todo, TodoUpdated

from .base import Target, ToolContext, ToolResult
from .errors import ToolError
from .schema import parameters, text

STATUSES: tuple[str, ...] = get_args(Todo.model_fields["status"].annotation)
PRIORITIES: tuple[str, ...] = get_args(Todo.model_fields["priority"].annotation)
OVER = frozenset({"completed", "cancelled"})
# The list travels in one event of at most 1 MiB, and is read by people: these leave much room for both.
MAX_TODOS = 100
MAX_CONTENT_CHARS = 1000

WRITE = "todowrite"
# Keys beyond these are let pass: models have learned several forms of such lists, and no key of theirs does harm.
_ITEM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "content": text("what is to do, in one sentence"),
        "status": {"type": "string", "enum": [*STATUSES], "description": "where it is"},
        "priority": {"type": "string", "enum": [*PRIORITIES], "description": "how much it matters (default medium)"},
    },
    "required": ["content", "status"],
}


class TodoWrite:
    name = WRITE
    description = (
        "Keep a list of the steps of a task that has three or more. Every call replaces the whole list: send all items,"
        " also those that are done. Have one item in_progress while you work on it, and mark it completed at once when"
        " it is done and checked; cancelled is for what is no longer needed."
    )
    parameters = parameters(["todos"], todos={"type": "array", "items": _ITEM, "description": "the whole new list"})

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [Target(self.name, "*")]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return _title(todos_in(arguments))

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        todos = todos_in(arguments)
        if fault := _fault(todos):
            raise ToolError(f"the list was not changed: {fault}")
        context.todos = todos
        context.emit(TodoUpdated(todos=todos))
        return ToolResult(listed(todos), _title(todos))


class TodoRead:
    name = "todoread"
    description = "Your list of what is to do, as todowrite last left it."
    parameters = parameters([])

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [Target(self.name, "*")]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return "todo list"

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult(listed(context.todos), _title(context.todos))


def todos_in(arguments: Mapping[str, Any]) -> tuple[Todo, ...]:
    """The list in the arguments of a write; an item's text is one line."""
    todos = (Todo.model_validate(item) for item in arguments["todos"])
    return tuple(todo.model_copy(update={"content": " ".join(todo.content.split())}) for todo in todos)


def listed(todos: Sequence[Todo]) -> str:
    """The list for the model.

    >>> print(listed([Todo(content="Write the test.", status="completed"), Todo(content="Run it.", priority="high")]))
    1. [completed] Write the test. (medium)
    2. [pending] Run it. (high)
    """
    lines = (f"{number}. [{todo.status}] {todo.content} ({todo.priority})" for number, todo in enumerate(todos, 1))
    return "\n".join(lines) or "The list is empty."


def _title(todos: Sequence[Todo]) -> str:
    """For people, in a live tree: how much is left."""
    return f"{sum(todo.status not in OVER for todo in todos)} of {len(todos)} todos open" if todos else "no todos"


def _fault(todos: Sequence[Todo]) -> str:
    if len(todos) > MAX_TODOS:
        return f"it has {len(todos)} items; keep to {MAX_TODOS}, larger steps or fewer at a time"
    for number, todo in enumerate(todos, 1):
        if not todo.content:
            return f"item {number} has no text; say what is to do"
        if len(todo.content) > MAX_CONTENT_CHARS:
            return f"item {number} has {len(todo.content)} characters; say it in {MAX_CONTENT_CHARS}"
    return ""
