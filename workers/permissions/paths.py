"""Which folders a shell text touches by name. Pure.

Looked at are the arguments of the commands that handle files, where `cd` and its kin and `git -C` lead, and what
redirections name, each from the folder in which it runs. Not seen are variables, and what any other program does with
its arguments: that is the sandbox's business.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sandbox.container import HOME

from .runners import program
from .shell import CommandLine, SimpleCommand
from .words import Word
from .working_directory import destination

FILE_COMMANDS = frozenset({"rm", "cp", "mv", "mkdir", "touch", "chmod", "chown", "cat"})
_GIT_FOLDERS = frozenset({"-C", "--git-dir", "--work-tree"})
_GIT_VALUES = frozenset({"-c", "--namespace", "--config-env", "--attr-source"})  # the next word is no command
# Every shell has these, and they hold nothing.
_STREAMS = re.compile(r"/dev/(?:null|zero|full|u?random|tty|std(?:in|out|err)|fd/\d+)")


@dataclass(frozen=True, slots=True)
class Touched:
    """`folders` are around what the text names, whole and without repeats. `looked_in`: those of what is named behind
    a `cd`, as they are written: it may have led through a link. `is_unknown`: may it touch what only running it
    tells?"""

    folders: tuple[str, ...]
    looked_in: tuple[str, ...]
    is_unknown: bool


def touched(line: CommandLine, start: str) -> Touched:
    """What a text touches that was read with this folder to begin in."""
    named = [each for command in line.commands for each in _of_command(command)]
    named += [(folder, path) for file in line.files for path in _paths(file.path) for folder in _sorted(file.folders)]
    known = [(folder, posixpath.join(folder or "/", path)) for folder, path in named if _is_known(folder, path)]
    known = [(folder, path) for folder, path in known if not _STREAMS.fullmatch(path)]
    found = [_around(path) for _, path in known]
    behind_moves = [_looked_in(path) for folder, path in known if folder != start]
    return Touched(
        tuple(dict.fromkeys(found)), tuple(dict.fromkeys(behind_moves)), not all(_is_known(*each) for each in named)
    )


def _is_known(folder: str | None, path: str) -> bool:
    return folder is not None or path.startswith("/")


def _looked_in(path: str) -> str:
    return path.removesuffix("/./") or "/" if path.endswith("/./") else posixpath.dirname(path)


def _of_command(command: SimpleCommand) -> Iterator[tuple[str | None, str]]:
    """What it names, and from where. A folder ends in a slash."""
    name, runs_in = program(command), _sorted(command.folders)
    if command.leads:
        yield from ((lead, "./") for lead in _sorted(command.leads))
    elif name == "git":
        yield from ((led, "./") for folder in runs_in for led in _of_git(command, folder))
    elif name in FILE_COMMANDS:
        arguments = [_without_flag(word.value) for word in command.words[1:] if word.value is not None]
        paths = [path for argument in arguments if argument for path in _paths(argument)]
        yield from ((folder, path) for path in paths for folder in runs_in)


def _sorted(folders: Iterable[str | None]) -> list[str | None]:
    return sorted(folders, key=str)


def _of_git(command: SimpleCommand, folder: str | None) -> Iterator[str | None]:
    """The folders that git is told to work in, by the options before its own command."""
    words = iter(command.words[1:])
    for word in words:
        if word.value is not None and not word.value.startswith("-"):
            return
        name, equals, value = (word.value or "").partition("=")
        if name in _GIT_VALUES and not equals:
            next(words, None)
        elif name in _GIT_FOLDERS:
            # a tilde is expanded by some shells here
            given = Word(value, None if value.startswith("~") else value, 0) if equals else next(words, None)
            led = destination(given, folder)
            folder = led if name == "-C" else folder
            yield led


def _without_flag(argument: str) -> str:
    """The path in an argument; "" in a flag without one.

    >>> _without_flag("-rf"), _without_flag("--target-directory=/etc"), _without_flag("-t../x"), _without_flag("a-b")
    ('', '/etc', '../x', 'a-b')
    """
    if not argument.startswith("-"):
        return argument
    if "=" in argument:
        return argument.partition("=")[2]
    return argument[2:] if "/" in argument else ""


def _paths(written: str) -> Iterator[str]:
    """The paths that an argument may stand for, each but for what follows its first wildcard."""
    for path in _brace_parts(written):
        whole = re.sub(r"^~([^/]*)", lambda user: f"/home/{user[1]}" if user[1] else HOME, path)
        cut = re.split(r"[*?\[]", whole, maxsplit=1)[0]
        # `a*/../../etc` leaves the folder that its beginning is in
        yield from dict.fromkeys((cut, whole if "/.." in whole[len(cut) :] else cut))


def _brace_parts(written: str) -> list[str]:
    """`{/etc,b}/c` stands for several paths: each part is looked at, alone and after what stands before the brace."""
    start, brace, rest = written.partition("{")
    if not brace or "," not in rest:
        return [written]
    return [start + part for part in re.split(r"[{},]", rest)]


def _around(path: str) -> str:
    """The folder that a path is in. It is one itself when it ends in a slash, or when it stands in the root folder.

    >>> _around("/etc/passwd"), _around("/data/x/"), _around("/tmp"), _around("/a/../etc/x")
    ('/etc', '/data/x', '/tmp', '/etc')
    """
    whole = posixpath.normpath(path)
    folder = posixpath.dirname(whole)
    return whole if path.endswith("/") or folder == "/" else folder
