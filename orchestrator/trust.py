"""Which repositories a person trusts: by path and by the content of their settings folders, in the state folder.

A repository says nothing about this. A request carries the digest that its submitter trusts (`Workspace.trusted`), and
workers compare it with what they find.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from repo.project import ProjectSettings, project_settings
from transport.state_folder import private_folder

from .errors import BadSettings


@dataclass(frozen=True, slots=True)
class Trusted:
    place: str  # the root of the repository's work tree
    digest: str
    since_ms: int


class TrustStore:
    """One small file; whoever can write it could as well change the configuration."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / "trusted.json"

    def all(self) -> dict[str, Trusted]:
        """By place. `BadSettings` for a file that is not ours."""
        try:
            rows = json.loads(self._file.read_text())
            return {row["place"]: Trusted(**row) for row in rows}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError) as e:
            raise BadSettings(f"{self._file} cannot be read: {e}", hint="remove it, and trust again") from e

    def add(self, place: Path, digest: str) -> Trusted:
        trusted = Trusted(str(place), digest, time.time_ns() // 1_000_000)
        self._write({**self.all(), trusted.place: trusted})
        return trusted

    def remove(self, place: Path) -> bool:
        """False when it was not trusted."""
        known = self.all()
        was_there = known.pop(str(place), None) is not None
        if was_there:
            self._write(known)
        return was_there

    def _write(self, known: dict[str, Trusted]) -> None:
        private_folder(self._file.parent)
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps([asdict(known[place]) for place in sorted(known)], indent=2))
        part.replace(self._file)


async def trusted_digest(store: TrustStore, root: Path, git_dir: Path, commit: str) -> str:
    """What a request for this commit says of trust: empty unless its settings are those that a person has trusted."""
    trusted = store.all().get(str(root))
    if trusted is None:
        return ""
    settings: ProjectSettings = await project_settings(git_dir, commit)
    return trusted.digest if trusted.digest == settings.digest else ""
