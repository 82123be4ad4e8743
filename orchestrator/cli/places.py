"""Where on this machine a batch came from, so that whoever attaches to it later can set its branches."""

from __future__ import annotations

import hashlib
from pathlib import Path

from transport.state_folder import private_folder

from ..batch.spec import BatchSpec
from ..batch.starts import folder_of, named
from ..errors import BadInput
from ..settings import Settings


def repositories_of(spec: BatchSpec, file: Path) -> dict[str, Path]:
    """The folders of a batch's local repositories by their names."""
    local = (repository for repository in spec.repositories if repository.path is not None)
    return {name: folder_of(repository, file) for name, repository in named(local, file).items()}


def remember(settings: Settings, task_id: str, file: Path) -> None:
    """Where the batch came from, and that it is the latest that did."""
    for place, text in ((_note(settings, task_id), str(file.resolve())), (_latest(settings, file), task_id)):
        private_folder(place.parent)
        place.write_text(text)


def latest_of(settings: Settings, file: Path) -> str | None:
    """The batch that this file was last run as, on this machine."""
    place = _latest(settings, file)
    return place.read_text() if place.exists() else None


def _latest(settings: Settings, file: Path) -> Path:
    name = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:32]
    return settings.state_dir / "batches" / "files" / name


def recall(settings: Settings, task_id: str) -> Path:
    """The file of a batch that was started from this machine; `BadInput` when it was not."""
    if (file := known_file(settings, task_id)) is not None:
        return file
    raise BadInput(f"the batch {task_id} was not started here", hint="run its batch file: muster batch run FILE")


def known_file(settings: Settings, task_id: str) -> Path | None:
    """As `recall`; None for a batch that was started elsewhere."""
    place = _note(settings, task_id)
    return Path(place.read_text()) if place.exists() else None


def _note(settings: Settings, task_id: str) -> Path:
    return settings.state_dir / "batches" / task_id
