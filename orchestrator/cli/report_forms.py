"""`--report FORM=PATH`, as it is asked for. What writes reports is imported once there is something to write."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..errors import BadInput, near_miss

# Those of `batch.formats`, and what the next step of a job goes by.
OUTPUTS = "outputs"
FORMS = ("markdown", "junit", "sarif", "jsonl", "github", "codequality", OUTPUTS)

Report = Annotated[
    list[str] | None,
    typer.Option(
        "--report", metavar="FORM=PATH", help=f"Write a report at the end; as often as you like. {', '.join(FORMS)}."
    ),
]


@dataclass(frozen=True, slots=True)
class Wanted:
    form: str
    path: Path


def wanted_reports(texts: Sequence[str] | None, forms: Collection[str] = FORMS) -> tuple[Wanted, ...]:
    """Checked before anything is started. `BadInput` for a form that there is not."""
    found: list[Wanted] = []
    for text in texts or ():
        form, _, path = text.partition("=")
        require_form(form, forms)
        if not path:
            raise BadInput(f"--report {text} names no file", hint=f"--report {form}=PATH")
        found.append(Wanted(form, Path(path)))
    return tuple(found)


def require_form(form: str, forms: Collection[str] = FORMS) -> None:
    if form not in forms:
        raise BadInput(f"there is no report format {form!r}", hint=near_miss(form, forms))
