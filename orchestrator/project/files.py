"""The few files at the root of a work tree that tell what a project is made of. Anybody's: bounded, and never run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

READ = (
    *("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pytest.ini"),
    *("requirements.txt", "requirements-dev.txt", "requirements-test.txt", "dev-requirements.txt"),
    *("test-requirements.txt", "requirements_dev.txt"),
    *("package.json", "Cargo.toml", "go.mod", "Makefile", "makefile", "GNUmakefile"),
)
# What agents read of their own accord, and where a repository keeps agents of its own.
INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
AGENT_FOLDERS = (".muster/agents", ".opencode/agents", ".opencode/agent", ".claude/agents")
MAX_FILE_BYTES = 1024 * 1024  # no project's own description is larger; what is counts as not there
MAX_NAMES = 1000


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """`texts` of those in `READ`, by name; `names` of all that lies at the root; `agents` by their files' names."""

    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    names: frozenset[str] = frozenset()
    agents: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        return self.texts.get(name, "")

    def first(self, *names: str) -> str:
        """The first of these that is there; empty when none is."""
        return next((name for name in names if name in self.names), "")

    @classmethod
    def of(cls, root: Path) -> ProjectFiles:
        entries = sorted(root.iterdir())[:MAX_NAMES]
        agents = (path.stem for folder in AGENT_FOLDERS for path in sorted((root / folder).glob("*.md"))[:MAX_NAMES])
        return cls(
            texts={name: text for name in READ if (text := _text(root / name)) is not None},
            names=frozenset(entry.name for entry in entries),
            agents=tuple(dict.fromkeys(agents)),
        )


def _text(path: Path) -> str | None:
    """None for what is no file of a likely size: links lead anywhere, and a device never ends."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
        return None
    return path.read_text(encoding="utf-8", errors="replace")
