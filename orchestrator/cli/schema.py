"""`muster schema`: the messages as JSON Schema."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter

from envelope.events import Event
from envelope.messages import TaskProgress, TaskRequest, TaskResult
from envelope.plan import Plan

from ..batch.spec import BatchSpec
from ..errors import BadInput, near_miss
from ..evaluation.spec import SuiteSpec
from .console import data

SCHEMAS: dict[str, TypeAdapter[Any]] = {
    "request": TypeAdapter(TaskRequest),
    "progress": TypeAdapter(TaskProgress),
    "result": TypeAdapter(TaskResult),
    "event": TypeAdapter(Event),
    "plan": TypeAdapter(Plan),
    "batch": TypeAdapter(BatchSpec),
    "eval": TypeAdapter(SuiteSpec),
}


def schema(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help=f"One of: {', '.join(SCHEMAS)}. None: all.")] = "",
) -> None:
    """Print the JSON Schema of the messages, and of batch and suite files."""
    if name and name not in SCHEMAS:
        raise BadInput(f"there is no schema {name!r}", hint=near_miss(name, SCHEMAS))
    found = {known: adapter.json_schema() for known, adapter in SCHEMAS.items() if name in ("", known)}
    data(json.dumps(found[name] if name else found, indent=2))
