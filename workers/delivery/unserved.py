"""What a request may ask for on the wire, and who gets it cannot do. Ignored in silence it would look done."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from envelope.messages import TaskRequest

from ..agents.base import Agent
from ..errors import BadInput

# Field → what the request says of it. A recipe has no model that could read what is referred to, or give an answer of
# some form.
UNSERVED_BY_RECIPES: Mapping[str, Callable[[TaskRequest], object]] = {
    "context_refs": lambda request: request.context_refs,
    "output_schema": lambda request: request.output_schema,
}


def refuse_unserved(request: TaskRequest, agent: Agent) -> None:
    """`BadInput` for the first field that would be ignored."""
    if agent.mode != "recipe":
        return
    for field, value_in in UNSERVED_BY_RECIPES.items():
        if value_in(request):
            raise BadInput(f"a recipe cannot use {field}", hint=f"submit the task without {field}, or to an agent")
