"""A plan as somebody wrote it into a file: sections for people, or steps for the planner."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from envelope.plan import Plan, PlanStep
from envelope.plan_sections import section_faults

from ..errors import BadInput, near_miss
from ..strange_toml import read_toml
from .checks import Bounds, Fault, checked, faults_of
from .graph import as_graph
from .modes import PlanMode, mode_named

MAX_FILE_BYTES = 512 * 1024  # half of what an envelope may have
READERS: Mapping[str, Callable[[str], Any]] = {".json": json.loads, ".toml": read_toml}


def mode_or_plan(word: str) -> tuple[PlanMode, Plan | None]:
    """What `--plan` says: a way to plan, or the file of a first plan, whose steps are dispatched."""
    file = Path(word)
    if file.suffix not in READERS:
        return mode_named(word, else_="; or a file of steps that ends in .toml or .json"), None
    return PlanMode.LAYERED, checked(plan_in(file.name, read_plan(file), file.suffix), Bounds())


def read_plan(file: Path) -> str:
    """The text of a plan's file; `BadInput` when it cannot be read as one."""
    try:
        content = file.read_bytes()
    except OSError as e:
        raise BadInput(f"{file} cannot be read: {e.strerror}") from e
    if len(content) > MAX_FILE_BYTES:
        raise BadInput(f"{file} has {len(content)} bytes, more than {MAX_FILE_BYTES}", hint="name a plan")
    try:
        return content.decode()
    except UnicodeDecodeError as e:
        raise BadInput(f"{file} is not UTF-8 text") from e


def file_faults(name: str, text: str, bounds: Bounds = Bounds()) -> list[Fault]:
    """What is wrong with a plan file; `BadInput` when it cannot be read as what its name says."""
    suffix = name[name.rfind(".") :] if "." in name else ""
    if suffix not in READERS:
        return [Fault(fault, "say it under a heading of that name") for fault in section_faults(text)]
    return list(faults_of(plan_in(name, text, suffix), bounds))


def plan_in(name: str, text: str, suffix: str) -> Plan:
    """The structured plan of a file: an object with a goal and steps, or a plain list of steps, which is a chain."""
    try:
        said = READERS[suffix](text)
    except (ValueError, RecursionError) as e:
        raise BadInput(
            f"{name} is no {suffix[1:].upper()}: {e}", hint="an object with a goal and a list of steps"
        ) from e
    whole = cast("dict[str, Any]", said if isinstance(said, dict) else {"steps": said})
    steps = whole.get("steps")
    for what, keys, known in (
        ("the plan", whole, Plan.model_fields),
        *(
            ("a step", step, PlanStep.model_fields)
            for step in (cast("list[Any]", steps) if isinstance(steps, list) else [])
        ),
    ):
        _refuse_unknown(name, what, keys, known)
    try:
        return as_graph(Plan.model_validate({"goal": "", **whole}))
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False)[0]
        raise BadInput(f"{name}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}", hint=STEP_HINT) from e


STEP_HINT = (
    "a step has step_id, title, goal and agent, and may have depends_on, on_failure, auth_scope, budget, deadline_ms"
)


def _refuse_unknown(name: str, what: str, keys: Any, known: Mapping[str, Any]) -> None:
    """A person wrote it, and meant something."""
    if not isinstance(keys, dict):
        raise BadInput(f"{name}: {what} is no object", hint=STEP_HINT)
    for key in cast("dict[str, Any]", keys):
        if key not in known:
            raise BadInput(f"{name}: {what} has no field {key!r}", hint=near_miss(key, known))
