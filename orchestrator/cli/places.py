"""Where on this machine a batch came from, so that whoever attaches to it later can set its branches."""

from __future__ import annotations

from pathlib import Path

from ..batch.spec import BatchSpec
from ..errors import BadBatchFile, BadInput
from ..settings import Settings


def repositories_of(spec: BatchSpec, file: Path) -> dict[str, Path]:
    """The folders of a batch's repositories by their names; paths in a batch file are relative to it."""
    found: dict[str, Path] = {}
    for repository in spec.repositories:
        path = (file.parent / repository.path).resolve()
        name = repository.name or path.name
        if name in found:
            raise BadBatchFile(f"{file}: two repositories are named {name!r}", hint="give one of them a `name`")
        found[name] = path
    return found


def remember(settings: Settings, task_id: str, file: Path) -> None:
    note = _note(settings, task_id)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(str(file.resolve()))


def recall(settings: Settings, task_id: str) -> Path:
    """The file of a batch that was started from this machine; `BadInput` when it was not."""
    try:
        return Path(_note(settings, task_id).read_text())
    except FileNotFoundError as e:
        hint = "name its batch file: muster batch attach TASK --file FILE"
        raise BadInput(f"the batch {task_id} was not started here", hint=hint) from e


def _note(settings: Settings, task_id: str) -> Path:
    return settings.state_dir / "batches" / task_id
