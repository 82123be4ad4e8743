"""Options that several commands share, and how their words become values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from envelope.budget import MICROUSD_PER_USD
from envelope.messages import MAX_DEADLINE_MS
from envelope.scope import Scope

from ..errors import BadInput
from ..looking import require_writing
from ..settings import Settings, load_settings
from ..units import parse_duration_s
from .completing import task_ids


def _seconds(text: str) -> int:
    try:
        seconds = parse_duration_s(text)
    except ValueError as e:
        raise typer.BadParameter(str(e)) from e
    if seconds < 1:
        raise typer.BadParameter("it must be at least one second")
    if seconds * 1000 > MAX_DEADLINE_MS:
        raise typer.BadParameter("a task may take 30 days at most")
    return seconds


Deadline = Annotated[
    int | None,
    typer.Option("--deadline", parser=_seconds, metavar="TIME", help="End after this long: 90s, 1h30m, 2d."),
]
Budget = Annotated[float | None, typer.Option("--budget", min=0, metavar="USD", help="Spend no more than this.")]
Json = Annotated[bool, typer.Option("--json", help="Events as JSON Lines on stdout.")]
OneJson = Annotated[bool, typer.Option("--json", help="For programs: one JSON object on stdout.")]
JsonLines = Annotated[bool, typer.Option("--json", help="For programs: JSON Lines on stdout.")]
Detach = Annotated[bool, typer.Option("--detach", help="Do not wait: print the task's id and leave.")]
NoInput = Annotated[
    bool, typer.Option("--no-input", help="Nobody answers: what a rule asks is denied, an interrupt cancels.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask whether it may be as much as it is.")]
AllowDirty = Annotated[bool, typer.Option("--allow-dirty", help="Work on the last commit, without later changes.")]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="GRANT", help="A grant beyond the agent's own: webfetch:https://…"),
]
ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="Only look: for what strangers sent. Also: MUSTER_READ_ONLY=1.")
]
Gate = Annotated[
    list[str] | None,
    typer.Option("--gate", metavar="COMMAND", help="The project's own tests: they prove the change."),
]
Setup = Annotated[
    list[str] | None,
    typer.Option("--setup", metavar="COMMAND", help="Make the project's dependencies available."),
]
Model = Annotated[str, typer.Option("--model", metavar="MODEL", help="Use this model instead of the workers' own.")]
Repo = Annotated[Path, typer.Option("--repo", metavar="PATH", help="The repository to work on.")]


def task_words(text: str) -> str:
    """What a person types of a task's id, checked before anything is started to look for it."""
    if not re.fullmatch(r"[0-9a-f-]{4,36}", text):
        raise BadInput(f"{text!r} is not a task's id", hint="see the ids with: muster task list")
    return text


TaskId = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        parser=task_words,
        autocompletion=task_ids,
        help="A task's id, or its end as `task list` shows it.",
    ),
]


def settings_for(*, read_only: bool) -> Settings:
    """The settings of one command, whose `--read-only` takes nothing back that the settings say."""
    settings = load_settings()
    return settings.model_copy(update={"read_only": True}) if read_only else settings


def writing_settings(what: str) -> Settings:
    """The settings of a command that does `what`; `WouldWrite` where they let it only look."""
    settings = load_settings()
    require_writing(settings, what)
    return settings


def microusd(usd: float | None) -> int | None:
    return None if usd is None else round(usd * MICROUSD_PER_USD)


def grants(texts: Sequence[str] | None) -> Scope:
    """What `--allow` says; `BadInput` for what is no grant."""
    try:
        return TypeAdapter[Scope](Scope).validate_python(tuple(texts or ()))
    except ValidationError as e:
        wrong = e.errors()[0]["input"]
        raise BadInput(f"{wrong!r} is not a grant", hint="grants are `tool:pattern`, such as edit:src/**") from e
