"""Files that a gate's commands run by name, and files that those run."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, cast

from .names import is_test_file

MAX_SCRIPTS = 50  # that are looked into
_WORD = re.compile(r"[\w./@%+-]+")
_MODULE = re.compile(r"-m\s+([\w.]+)")
_ELSEWHERE = re.compile(r"(?:\bcd|-C|--directory|--prefix)[ =]+([\w./@%+-]+)")
_MODULES_IN = re.compile(r"\bPYTHONPATH=[\"']?([\w./@%+:$-]+)")  # where `-m` looks first
# A script names the code that it builds and runs, too. What is more of the gate than of that:
SCRIPT_SUFFIXES = ("", ".sh", ".bash", ".mk", ".ps1", ".bat")
SCRIPT_FOLDERS = frozenset(("scripts", "script", "bin", "ci", ".ci", "tools", "hack", ".github"))
# program → the files in its folder that tell it what to do
READ_BY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "yarn", "pnpm"), ("package.json",)),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    "composer": ("composer.json",),
}

Read = Callable[[str], Awaitable[bytes | None]]  # a file of the base; None where there is none


async def scripts_of(commands: Iterable[str], *, folder: str, among: Collection[str], read: Read) -> set[str]:
    """Those of the paths `among` that the commands run, directly or through a script that the base has.

    A test file that is named is no script: what becomes of tests is looked at elsewhere.
    """
    known = set(among)
    waiting = [(command, True) for command in commands]
    found: set[str] = set()
    while waiting and len(found) < MAX_SCRIPTS:
        text, is_direct = waiting.pop()
        elsewhere = [
            *_ELSEWHERE.findall(text),
            *(one for found in _MODULES_IN.findall(text) for one in found.split(":")),
        ]
        folders = [folder, *(_joined(folder, inner) for inner in elsewhere if inner)]
        driving = {_joined(place, name) for name in _read_by(text) for place in folders}
        named = {path for place in folders for path in _named_in(text, place) & known if not is_test_file(path)}
        named = {path for path in named if is_direct or _is_script(path)} | (driving & known)
        for path in sorted(named - found)[:MAX_SCRIPTS]:
            found.add(path)
            content = (await read(path) or b"").decode("utf-8", "replace")
            waiting += _told(path, content)
    return found


def _told(path: str, content: str) -> list[tuple[str, bool]]:
    """What a file tells its reader to run; of a package's description, its scripts alone."""
    if posixpath.basename(path) not in ("package.json", "composer.json"):
        return [(content, False)]
    try:
        found = cast("dict[str, Any]", json.loads(content))["scripts"]
        return [(text, True) for text in found.values() if isinstance(text, str)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def _read_by(text: str) -> set[str]:
    return {name for program in set(_WORD.findall(text)) for name in READ_BY.get(program, ())}


def _named_in(text: str, folder: str) -> set[str]:
    """Paths that a command or a script may mean, run in `folder`; most of them are no paths at all."""
    words = {_joined(folder, word) for word in _WORD.findall(text)}
    for module in _MODULE.findall(text):
        place = posixpath.join(folder, module.replace(".", "/"))
        words |= {f"{place}.py", f"{place}/__main__.py"}
    return words


def _joined(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path))


def _is_script(path: str) -> bool:
    *folders, name = path.split("/")
    return posixpath.splitext(name)[1] in SCRIPT_SUFFIXES or not SCRIPT_FOLDERS.isdisjoint(folders)
