"""Which folders a shell text touches by name. Pure.

Looked at are the arguments of the commands that handle files, and what redirections name. Not seen are variables,
links, and what any other program does with its arguments: that is the sandbox's business.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from sandbox.container import HOME

from .runners import program
from .shell import CommandLine, SimpleCommand

FILE_COMMANDS = frozenset({"cd", "pushd", "rm", "cp", "mv", "mkdir", "touch", "chmod", "chown", "cat"})
_INTO_FOLDERS = frozenset({"cd", "pushd"})  # their argument is the folder itself
# Every shell has these, and they hold nothing.
_STREAMS = re.compile(r"/dev/(?:null|zero|full|u?random|tty|std(?:in|out|err)|fd/\d+)")


def touched_folders(line: CommandLine, cwd: str) -> list[str]:
    """The folders around what the text names, whole and without repeats; `cwd` is a whole path."""
    found = [folder for command in line.commands for folder in _of_command(command, cwd)]
    found += [_around(path) for file in line.files for path in _paths(file, cwd)]
    return list(dict.fromkeys(found))


def _of_command(command: SimpleCommand, cwd: str) -> Iterator[str]:
    name = program(command)
    if name not in FILE_COMMANDS:
        return
    values = [word.value for word in command.words[1:] if word.value is not None]
    if name == "cd" and len(command.words) == 1:
        values = [HOME]
    for value in values:
        if argument := _without_flag(value):
            for path in _paths(argument, cwd):
                yield posixpath.normpath(path) if name in _INTO_FOLDERS else _around(path)


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


def _paths(written: str, cwd: str) -> Iterator[str]:
    """The whole paths that an argument may stand for, each but for what follows its first wildcard."""
    for path in _brace_parts(written):
        expanded = re.sub(r"^~([^/]*)", lambda user: f"/home/{user[1]}" if user[1] else HOME, path)
        whole = posixpath.join(cwd, expanded)
        cut = re.split(r"[*?\[]", whole, maxsplit=1)[0]
        # `a*/../../etc` leaves the folder that its beginning is in
        for candidate in dict.fromkeys((cut, whole if "/.." in whole[len(cut) :] else cut)):
            if not _STREAMS.fullmatch(candidate):
                yield candidate


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
