"""Commands as files: Markdown, with or without a front matter; the body is the template."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, ValidationError

from ..agents.base import Mode
from ..errors import BadSettings
from ..front_matter import STRINGS, BadFrontMatter, read_front_matter

# Of two files with one name the folder that stands later here wins: ours over those that other programs share.
FOLDERS = (".claude", ".opencode", ".muster")
_PLACE = re.compile(rf"(?=.*\.md\Z)(?:.*/)?({'|'.join(map(re.escape, FOLDERS))})/commands?/(.+)\.md", re.DOTALL)


class FrontMatter(BaseModel):
    """The keys of a command's file. Others are let pass: the same files serve programs that have more."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    description: str = ""
    agent: str = ""
    model: str = ""
    subtask: bool | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """`agent` and `model` are empty where the session's own are meant, `subtask` is None where nothing is said."""

    name: str
    template: str
    description: str = ""
    agent: str = ""
    model: str = ""
    subtask: bool | None = None

    def is_subtask(self, mode: Mode) -> bool:
        """Does a subagent run it? `mode` is that of the agent that the command goes to."""
        return mode == "subagent" if self.subtask is None else self.subtask


@dataclass(frozen=True, slots=True)
class CommandFiles:
    """What could be read, by name, and of the other files (by path) why not."""

    commands: dict[str, Command] = field(default_factory=dict[str, Command])
    faults: dict[str, str] = field(default_factory=dict[str, str])


def read_commands(files: Mapping[str, str], taken: Container[str] = ()) -> CommandFiles:
    """The commands among `files` (path → text); what lies in no command folder is passed over.

    `.opencode/commands/team/fix.md` is the command `team/fix`; a name that is `taken` is a fault. One bad file is no
    reason to miss the others. Whose files are trusted is settled before.
    """
    read = CommandFiles()
    for path, name in sorted(_places(files), key=_rank):
        if name in taken:
            read.faults[path] = f"/{name} is a command of Muster's own; give the file another name"
            continue
        try:
            read.commands[name] = parse_command(name, files[path])
        except BadSettings as e:
            read.faults[path] = str(e)
    return read


def parse_command(name: str, text: str) -> Command:
    """One command from the text of its file; `BadSettings` says what is wrong with it."""
    try:
        keys, template = read_front_matter(text, STRINGS)
        front = FrontMatter.model_validate(
            {key: value for key, value in (keys or {}).items() if value not in ("", "null", "~")}
        )
    except BadFrontMatter as e:
        raise BadSettings(f"command {name!r}: {e}") from e
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:1])
        raise BadSettings(
            f"command {name!r}: {where}: {first['msg']}", hint=f"known keys: {', '.join(FrontMatter.model_fields)}"
        ) from e
    if not template:
        raise BadSettings(f"command {name!r} is empty", hint="write the prompt below the front matter")
    return Command(name, template, **front.model_dump())


def _places(files: Mapping[str, str]) -> list[tuple[str, str]]:
    found = ((path, _PLACE.fullmatch(path)) for path in files)
    return [(path, place[2]) for path, place in found if place]


def _rank(place: tuple[str, str]) -> tuple[int, str]:
    """By folder, then by path: the order in which later ones replace earlier ones of their name."""
    folder = _PLACE.fullmatch(place[0])
    return (FOLDERS.index(folder[1]) if folder else 0), place[0]
