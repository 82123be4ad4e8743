"""What a request may ask for on the wire, and this version cannot do. Ignored in silence it would look done."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from envelope.messages import TaskRequest

from .agents.base import Agent
from .errors import BadInput

# Field → what the request says of it. A recipe has no model that could read what is referred to, or give an answer of
# some form.
UNSERVED_BY_RECIPES: Mapping[str, Callable[[TaskRequest], object]] = {
    "context_refs": lambda request: request.context_refs,
    "output_schema": lambda request: request.output_schema,
}
# Recipes run their commands in the folder; an agent's tools and its prompt know the whole workspace alone.
UNSERVED_BY_AGENTS: Mapping[str, Callable[[TaskRequest], object]] = {
    "workspace.subpath": lambda request: request.workspace and request.workspace.subpath,
}


def refuse_unserved(request: TaskRequest, agent: Agent) -> None:
    """`BadInput` for the first field that would be ignored."""
    table = UNSERVED_BY_RECIPES if agent.mode == "recipe" else UNSERVED_BY_AGENTS
    for field, value_in in table.items():
        if value_in(request):
            raise BadInput(f"this worker cannot use {field} yet", hint=f"submit the task without {field}")
