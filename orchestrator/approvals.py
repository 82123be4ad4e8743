"""What a person has answered "always" to, kept on their machine for the project: later goals there need not ask again.

One file for each project in the state folder. A request carries what stands in it (`AskTerms.approved`), signed, so
that it holds wherever its tasks run; nothing that a repository holds can add to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from envelope.asks import AskTerms
from envelope.scope import Scope
from transport.state_folder import held

from .errors import BadInput
from .settings import Settings

_GRANTS = TypeAdapter[Scope](Scope)


def ask_terms(settings: Settings, projects: Sequence[Path], *, no_input: bool) -> AskTerms | None:
    """How a task may ask: not at all without input; else what was always allowed in its project is known to it.

    Work on several projects at once keeps to none of them.
    """
    if no_input:
        return None
    project = str(projects[0].resolve()) if len(projects) == 1 else ""
    return AskTerms(project=project, approved=approved_in(settings.state_dir, project))


def approved_in(state_dir: Path, project: str) -> Scope:
    """As `permission:pattern`; nothing for a project that is not known."""
    file = _file(state_dir, project)
    if not project or not file.exists():
        return ()
    try:
        return _GRANTS.validate_python(tuple(json.loads(file.read_text())["approved"]))
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as e:
        raise BadInput(f"{file} cannot be read: {e}", hint="remove it: what it allowed is asked again") from e


def approve_in(state_dir: Path, project: str, grants: Iterable[str]) -> None:
    """Add to what is kept for a project; without one there is nothing to keep it for."""
    new = tuple(grants)
    if not project or not new:
        return
    file = _file(state_dir, project)
    with held(file.parent / "lock"):  # two people, or two terminals, may answer at once
        approved = dict.fromkeys((*approved_in(state_dir, project), *new))
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps({"project": project, "approved": list(approved)}, indent=1))
        temporary.replace(file)


def _file(state_dir: Path, project: str) -> Path:
    return state_dir / "approvals" / f"{hashlib.sha256(project.encode()).hexdigest()[:32]}.json"
