"""Options of `muster run`, and all of them as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from envelope.gate import GateRules
from envelope.plan import Plan
from envelope.scope import Scope

from ..errors import BadInput
from ..planner.modes import PlanMode
from .completing import agent_names
from .report_forms import Wanted

Goal = Annotated[str, typer.Argument(metavar="GOAL", help="What is to be done, in plain words, or a command: /review.")]
Agent = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        autocompletion=agent_names,
        help="Who does it; plan asks first [default: the setting default_agent, or build].",
    ),
]
GateRule = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="What the gate asks for beside: min_coverage=80.")
]
File = Annotated[
    list[Path] | None, typer.Option(metavar="PATH", help="A file that goes along: a log, a screenshot, an archive.")
]
Branch = Annotated[str, typer.Option(metavar="NAME", help="Set this branch to the change, once it is done.")]
Record = Annotated[bool, typer.Option("--record", help="Keep what `muster replay` needs.")]
How = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        help="How it is planned: layered, light, on-demand, living; or by the steps in a .toml or .json file.",
    ),
]
OfTask = Annotated[str, typer.Option(metavar="TASK", help="Whose session /undo, /redo, /compact or /share is about.")]
Key = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        help="For a day at least, the same key, goal and commit join the first run; other work under it is refused.",
    ),
]
Resume = Annotated[
    str,
    typer.Option(metavar="TASK", help="Go on with the session of this one, which has ended; GOAL is said to it."),
]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The command line, as it was meant."""

    goal: str
    repository: Path
    agent: str
    gate: tuple[str, ...]
    setup: tuple[str, ...]
    allow: Scope
    budget_microusd: int | None
    deadline_s: int | None
    model: str
    branch: str
    detach: bool
    as_json: bool
    no_input: bool
    allow_dirty: bool
    record: bool
    plan: PlanMode
    given_plan: Plan | None
    yes: bool
    files: tuple[Path, ...]
    key: str = ""
    reports: tuple[Wanted, ...] = ()
    gate_rule: tuple[str, ...] = ()
    rules: GateRules = field(default_factory=GateRules)
    default_agent: str = ""  # the repository's
    read_only: bool = False


# Why an option says nothing to a session that goes on. Gate, rules, setup, model, grants and limits may be given anew.
ALONE = {
    "--repo": "the session's work is on the commit that it began with",
    "--allow-dirty": "the session's work is on the commit that it began with",
    "--agent": "the session goes on with its agent",
    "--branch": "set it once the change is done, with: muster publish TASK --branch NAME",
    "--key": "what is said to a session is done each time that it is said",
}


def require_alone(task: str, given: Mapping[str, object]) -> None:
    """`BadInput` for the first of the options that say how a new goal is done, beside --resume."""
    for option in (option for option, value in given.items() if value):
        why = ALONE.get(option, f"it is for new goals; say the words to the session with: muster task resume {task}")
        raise BadInput(f"{option} does not go with --resume", hint=f"leave it out: {why}")
