"""Files that a gate's commands run by name, and files that those run."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from .commands import environments_in, makes_in, scripts_in, without_files_read
from .makefiles import MAKEFILES, text_that_goals_reach
from .names import is_test_file
from .settings_of import reached_entries

MAX_SCRIPTS = 50  # that are looked into
MAX_ROUNDS = 8  # until what a script asks for is what was followed
_PROGRAM = re.compile(r"[A-Za-z][\w]*(?:-[A-Za-z]\w*)*")
# Programs that run what their own settings name, which are not followed.
UNCLEAR = frozenset(
    (
        *("hatch", "pdm", "poe", "poethepoet", "invoke", "inv", "doit", "trunk", "moon", "bazel", "nx", "turbo"),
        *("lefthook", "husky", "lint-staged", "mise", "rtx", "earthly", "dagger", "act", "pants", "buck2", "scons"),
        *("waf", "paver"),
    )
)
# Scripts that say all that they run: in other languages they may import it.
FOLLOWED = ("", ".sh", ".bash", ".mk", ".yml", ".yaml", ".json", ".ini", ".cfg", ".toml")
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
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    **dict.fromkeys(("pre-commit", "prek"), (".pre-commit-config.yaml",)),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    "composer": ("composer.json",),
}

Read = Callable[[str], Awaitable[bytes | None]]  # a file of the base; None where there is none


@dataclass(frozen=True, slots=True)
class Invoked:
    """What a gate's commands lead to: `scripts`, and the `texts` of the commands and of all these.

    `goals`, `entries`, `environments`: what `make`, a package.json's managers and tox are asked for, and `words`: what
    programs there may be. None: it cannot be told, so that it may be anything.
    """

    scripts: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()
    goals: frozenset[str] | None = None
    entries: frozenset[str] | None = None
    environments: frozenset[str] | None = None
    words: frozenset[str] | None = None

    def runs(self, program: str) -> bool:
        return self.words is None or program in self.words


ANYTHING = Invoked()


async def invoked_by(
    commands: Iterable[str],
    *,
    folder: str,
    among: Collection[str],
    read: Read,
    is_test: Callable[[str], bool] = is_test_file,
) -> Invoked:
    """Those of the paths `among` that the commands run, directly or through a script that the base has.

    A file that `is_test` is no script where it is named: what becomes of tests is looked at elsewhere. Nor is a file
    that a checker is given to look at.
    """
    commands, known = tuple(commands), frozenset(among)
    tests = frozenset(filter(is_test, known))
    contents: dict[str, str] = {}

    async def text_of(path: str) -> str:
        if path not in contents:
            contents[path] = (await read(path) or b"").decode("utf-8", "replace")
        return contents[path]

    invoked = _asked_for(frozenset(), commands)
    for _ in range(MAX_ROUNDS):
        before, invoked = invoked, await _followed(commands, folder, known, tests, text_of, invoked)
        if (before.goals, before.entries) == (invoked.goals, invoked.entries):
            return invoked
    return await _followed(commands, folder, known, tests, text_of, ANYTHING)


def _asked_for(scripts: frozenset[str], texts: Sequence[str]) -> Invoked:
    words = programs_in(texts)
    is_followed = all(posixpath.splitext(path)[1] in FOLLOWED for path in scripts)
    is_clear = is_followed and words.isdisjoint(UNCLEAR) and len(scripts) < MAX_SCRIPTS
    return Invoked(
        scripts, tuple(texts), makes_in(texts), scripts_in(texts), environments_in(texts), words if is_clear else None
    )


def programs_in(texts: Iterable[str]) -> frozenset[str]:
    """Every word that might be a program's name, and its parts: `pytest-mypy` runs mypy."""
    found = frozenset(_PROGRAM.findall("\n".join(texts)))
    return found | {part for word in found for part in re.split("[-_]", word)}


async def _followed(
    commands: Sequence[str],
    folder: str,
    known: frozenset[str],
    tests: frozenset[str],
    text_of: Callable[[str], Awaitable[str]],
    asked: Invoked,
) -> Invoked:
    """Once, as far as what is `asked` for goes."""
    waiting = [(command, True, folder) for command in commands]
    scripts: set[str] = set()
    texts: list[str] = []
    while waiting and len(scripts) < MAX_SCRIPTS:
        text, is_direct, own = waiting.pop()
        texts.append(text)
        text = without_files_read(text)
        paths = (one for found in _MODULES_IN.findall(text) for one in found.split(":"))
        elsewhere = [inner for inner in (*_ELSEWHERE.findall(text), *paths) if inner]
        folders = [folder, own, *(_joined(folder, inner) for inner in elsewhere)]
        driving = {_joined(place, name) for name in _read_by(text) for place in folders}
        named = {path for place in folders for path in _named_in(text, place) & known - tests}
        named = {path for path in named if is_direct or _is_script(path)} | (driving & known)
        for path in sorted(named - scripts)[:MAX_SCRIPTS]:
            scripts.add(path)
            told = _told(path, await text_of(path), asked)
            waiting += [(text, is_direct, posixpath.dirname(path)) for text, is_direct in told]
    return _asked_for(frozenset(scripts), texts)


def _told(path: str, content: str, asked: Invoked) -> list[tuple[str, bool]]:
    """What a file tells its reader to run; of a package's description, its scripts alone."""
    name = posixpath.basename(path)
    if name in MAKEFILES and asked.goals is not None:
        return [(text_that_goals_reach(content, asked.goals), False)]
    if name not in ("package.json", "composer.json"):
        return [(content, False)]
    try:
        found = cast("dict[str, Any]", json.loads(content))["scripts"]
        entries = asked.entries if name == "package.json" else None
        return [(text, True) for text in reached_entries(found, entries).values() if isinstance(text, str)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def _read_by(text: str) -> set[str]:
    return {name for program in set(_WORD.findall(text)) for name in READ_BY.get(program, ())}


def _named_in(text: str, folder: str) -> set[str]:
    """Paths that a command or a script may mean, run in `folder`; most of them are no paths at all."""
    words = {_joined(folder, word.lstrip("/")) for word in _WORD.findall(text)}  # `$HERE/lib.sh`
    for module in _MODULE.findall(text):
        place = posixpath.join(folder, module.replace(".", "/"))
        words |= {f"{place}.py", f"{place}/__main__.py"}
    return words


def _joined(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path))


def _is_script(path: str) -> bool:
    *folders, name = path.split("/")
    return posixpath.splitext(name)[1] in SCRIPT_SUFFIXES or not SCRIPT_FOLDERS.isdisjoint(folders)
