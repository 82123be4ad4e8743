"""Which commands there are: Muster's own, the repository's, and the user's, which go before those of the same name."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from envelope.agents import CommandCard
from sandbox.base import WORKSPACE, Sandbox
from sandbox.errors import PathError

from ..errors import BadInput
from ..hints import nearest
from ..project.files import is_settings
from .files import FOLDERS, Command, parse_command, read_commands
from .of_sessions import OF_SESSIONS
from .of_sessions import cards as of_sessions

MAX_COMMANDS = 200  # of one folder
MAX_COMMAND_BYTES = 64 * 1024
PLACES = tuple(f"{folder}/{name}" for folder in FOLDERS for name in ("command", "commands"))


@dataclass(frozen=True, slots=True)
class Known:
    """A command and where it is from: `builtin`, `repository` or `user`."""

    command: Command
    source: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """By name; and of the files that cannot be used (by path) why not."""

    known: Mapping[str, Known]
    faults: Mapping[str, str]

    def named(self, name: str) -> Known:
        """`BadInput` for one that is not there, or whose file is wrong."""
        if name in self.known:
            return self.known[name]
        for path, why in self.faults.items():
            if path.endswith(f"/{name}.md"):
                raise BadInput(f"the command /{name} cannot be used: {why}", hint=f"correct {path}")
        if name in OF_SESSIONS:
            raise BadInput(f"/{name} is for a session that there is", hint=f"muster run /{name} --task TASK")
        hint = nearest(name, sorted(self.known), called="there are")
        raise BadInput(
            f"there is no command /{name}", hint=f"{hint}; for a prompt that begins so put a space before it"
        )

    def cards(self) -> list[CommandCard]:
        """For whoever offers commands to people, those of sessions among them."""
        files = [
            CommandCard(
                name=name,
                description=known.command.description,
                agent=known.command.agent,
                model=known.command.model,
                subtask=known.command.subtask,
                source=known.source,
            )
            for name, known in self.known.items()
        ]
        return sorted([*files, *of_sessions()], key=lambda card: card.name)

    def listing(self) -> str:
        """For people, one a line."""
        return "\n".join(f"/{card.name}  {card.description} ({card.source})" for card in self.cards())


def catalogue(*, repository: Mapping[str, str], users: Mapping[str, str]) -> Catalogue:
    """From the texts of the repository's and the user's files by their paths. A repository cannot take a name of the
    user's away."""
    known = {name: Known(command, "builtin") for name, command in builtin().items()}
    faults: dict[str, str] = {}
    for source, texts in (("repository", repository), ("user", users)):
        read = read_commands(texts, taken=OF_SESSIONS)
        known |= {name: Known(command, source) for name, command in read.commands.items()}
        faults |= read.faults
    return Catalogue(known, faults)


@cache
def builtin() -> Mapping[str, Command]:
    """The commands that Muster brings, by name."""
    folder = files("workers.commands") / "builtin"
    named = {file.name.removesuffix(".md"): file for file in folder.iterdir() if file.name.endswith(".md")}
    return {name: parse_command(name, file.read_text("utf-8")) for name, file in sorted(named.items())}


async def texts_in_sandbox(sandbox: Sandbox) -> dict[str, str]:
    """The command files of a workspace by their paths. Only the named folders are looked into."""
    listed = await asyncio.gather(*(_paths(sandbox, posixpath.join(WORKSPACE, place)) for place in PLACES))
    paths = [path for paths in listed for path in paths]
    contents = await asyncio.gather(*(_content(sandbox, path) for path in paths))
    return _texts(zip(paths, contents, strict=True))


def texts_in_folder(root: Path, places: Iterable[str] = PLACES) -> dict[str, str]:
    """The same from a folder of this machine. Links are left out: they could lead anywhere."""
    paths = [path for place in places for path in sorted((root / place).rglob("*.md"))[:MAX_COMMANDS]]
    return _texts((str(path), _head(path)) for path in paths if path.is_file() and not path.is_symlink())


def texts_of_user(user_dir: Path | None) -> dict[str, str]:
    """The user's own, by the paths that they would have in a repository."""
    if user_dir is None:
        return {}
    found = texts_in_folder(user_dir, ("command", "commands"))
    return {f".muster/{Path(path).relative_to(user_dir).as_posix()}": text for path, text in found.items()}


async def _paths(sandbox: Sandbox, folder: str) -> list[str]:
    try:
        return (await sandbox.glob("*.md", folder, limit=MAX_COMMANDS))[0]
    except PathError:
        return []


async def _content(sandbox: Sandbox, path: str) -> bytes:
    """Nothing for one that a link leads out of the folders of settings: the task may not be let read it."""
    try:
        if not await is_settings(sandbox, path):
            return b""
        return await sandbox.read(path, max_bytes=MAX_COMMAND_BYTES + 1)
    except PathError:
        return b""


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            return opened.read(MAX_COMMAND_BYTES + 1)
    except OSError:
        return b""


def _texts(contents: Iterable[tuple[str, bytes]]) -> dict[str, str]:
    """What is too long is no command: it is read as the empty file that it might as well be."""
    return {
        path: content.decode("utf-8", "replace") if len(content) <= MAX_COMMAND_BYTES else ""
        for path, content in contents
    }
