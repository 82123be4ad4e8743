"""Whose sandbox one is that was opened before it had a task: a note in its folder, which stands in for its labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

NOTE = "handed.json"


def note_labels(folder: Path, labels: Mapping[str, str]) -> None:
    part = folder / f"{NOTE}.part"
    part.write_text(json.dumps(dict(labels)))
    part.replace(folder / NOTE)


def noted_labels(folder: Path) -> dict[str, str] | None:
    """None for one that has been its task's from the start, or has none yet."""
    try:
        return {str(name): str(value) for name, value in json.loads((folder / NOTE).read_text()).items()}
    except (FileNotFoundError, NotADirectoryError):
        return None
