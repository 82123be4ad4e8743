"""Agent folders: on this machine, and in a repository at a commit. Bounded; no link is followed out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from repo.project import ProjectSettings, SettingsFile, contents
from transport.settings import user_file

from .layers import FOLDERS, AgentFile, Fault

SUFFIX = ".md"
# More agents than anybody tells apart; each has a description in the prompt of `task`.
MAX_FILES = 100
# A prompt of 64,000 tokens would leave no room for the task.
MAX_FILE_BYTES = 256 * 1024


def user_folder() -> Path:
    """`agents`, beside the user's configuration file; it need not exist."""
    return user_file().parent / "agents"


def files_below(folder: Path, *, shown_below: Path | None = None) -> tuple[list[AgentFile], list[Fault]]:
    """The agent files of a folder on this machine, and those that are too large or too many.

    Links that stay inside are files; others are passed over. Paths are shown relative to `shown_below`.
    """
    found, faults = list[AgentFile](), list[Fault]()
    for path in _markdown(folder):
        shown = str(path.relative_to(shown_below) if shown_below else path)
        name = path.relative_to(folder).as_posix().removesuffix(SUFFIX)
        if fault := _refused(shown, name, path.stat().st_size, len(found)):
            faults.append(fault)
        else:
            found.append(AgentFile(shown, name, path.read_bytes()))
    return found, faults


async def files_at(git_dir: Path, settings: ProjectSettings) -> tuple[list[AgentFile], list[Fault]]:
    """The agent files of a repository's settings folders, in the order in which they count."""
    taken, faults = list[tuple[str, SettingsFile]](), list[Fault]()
    for name, file in _placed(settings.files):
        if fault := _refused(file.path, name, file.size_bytes, len(taken)):
            faults.append(fault)
        else:
            taken.append((name, file))
    if not taken:
        return [], faults
    content = await contents(git_dir, [file for _, file in taken])
    return [AgentFile(file.path, name, content[file.path]) for name, file in taken], faults


def _placed(files: Iterable[SettingsFile]) -> list[tuple[str, SettingsFile]]:
    """The agents among a repository's files, with their names; those that count more come later."""
    return [
        (file.path.removeprefix(f"{folder}/").removesuffix(SUFFIX), file)
        for folder in FOLDERS
        for file in files
        if file.path.startswith(f"{folder}/") and file.path.endswith(SUFFIX)
    ]


def _markdown(folder: Path) -> Iterator[Path]:
    inside = folder.resolve()
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(parent, name) for name in sorted(names) if name.endswith(SUFFIX)):
            if path.is_file() and path.resolve().is_relative_to(inside):
                yield path


def _refused(path: str, name: str, size_bytes: int, taken: int) -> Fault | None:
    if size_bytes > MAX_FILE_BYTES:
        kib = MAX_FILE_BYTES // 1024
        return Fault(path, name, f"is larger than {kib} KiB", "put what is long into files that the agent reads")
    if taken >= MAX_FILES:
        return Fault(path, name, f"is one too many: the first {MAX_FILES} agents count", "remove some")
    return None
