"""Files that a gate's commands run by name, and files that those run."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from itertools import chain
from typing import Any, cast

from ..strange_toml import read_toml
from .build_files import table_in
from .cmake_files import Uses
from .commands import environments_in, makes_in, programs_run, scripts_in, without_files_read
from .followed import PROSE, led_by, untold
from .kinds import is_source_or_data, may_be_included
from .makefiles import MAKEFILES, files_included, what_goals_reach
from .names import READ_BY, TASKFILES, is_test_file
from .settings_of import programs_of, reached_entries

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
_GLOB = re.compile(r"[*?\[]")
_MODULE = re.compile(r"-m\s+([\w.]+)")
_MODULES_IN = re.compile(r"\bPYTHONPATH(?:=|[ \t]*[:?+]?=[ \t]*)[\"']?([\w./@%+:$-]+)")  # where `-m` looks first
MAX_FOLDERS = 60  # of one text; more are as good as unknown
MAX_LOOKED_AT = 1_000_000  # paths that words may mean
MAX_CHARS = 1_000_000  # of all texts, of each time that they are followed
# A script names the code that it builds and runs, too. What is more of the gate than of that:
SCRIPT_SUFFIXES = ("", ".sh", ".bash", ".mk", ".ps1", ".bat")
SCRIPT_FOLDERS = frozenset(("scripts", "script", "bin", "ci", ".ci", "tools", "hack", ".github"))
# What an interpreter, or a program that is not known, may run; a compiler's sources are none.
CODE_SUFFIXES = frozenset(
    (
        *(
            "",
            ".sh",
            ".bash",
            ".zsh",
            ".py",
            ".pyz",
            ".pyw",
            ".js",
            ".mjs",
            ".cjs",
            ".ts",
            ".mts",
            ".cts",
            ".jsx",
            ".tsx",
        ),
        *(".rb", ".pl", ".php", ".lua", ".r", ".R", ".jl", ".tcl", ".exs", ".ps1", ".bat", ".cmd", ".groovy", ".inc"),
    )
)
# Texts that are no list of commands: their words are looked at, wherever they stand.
_OTHER_TEXTS = frozenset(
    (*CODE_SUFFIXES - {"", ".sh", ".bash", ".zsh", ".inc"}, ".yml", ".yaml", ".json", ".ini", ".cfg", ".toml")
)
# Beside the name that a program is given: what Node and Python find by it.
_ENDINGS = (
    "",
    *(
        f"{index}{suffix}"
        for index in ("", "/index")
        for suffix in (".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".json")
    ),
    *(".py", "/__main__.py", "/package.json"),
)
_OF_TASKS = frozenset(
    ("tox", "hatch", "pdm", "poe", "rye", "pixi", "taskipy", "doit", "invoke", "duty")
)  # in pyproject.toml
_RUN_TASKS = frozenset((*_OF_TASKS, "poethepoet", "task", "inv"))
_TABLES = (".yml", ".yaml", ".toml", ".ini", ".cfg")
_KEY = re.compile(r"[ \t]*(?:-[ \t]+)?[\"']?([\w.-]+)[\"']?[ \t]*(?::(?=\s|$)|=)[ \t]*")
_KEYS_OF_SOURCES = frozenset(("files", "exclude", "include", "sources", "generates", "paths", "path", "args", "desc"))
# Files that say what to do, of any program: where nobody can say which is read.
_TASKS = frozenset(posixpath.basename(name) for names in READ_BY.values() for name in names) - {"pyproject.toml"}

Read = Callable[[str], Awaitable[bytes | None]]  # a file of the base; None where there is none


@dataclass(frozen=True, slots=True)
class Invoked:
    """What a gate's commands lead to: `scripts`, and the `texts` of the commands and of all these.

    `goals`, `entries`, `environments`: what `make`, a package.json's managers and tox are asked for, `words`: what
    programs there may be, `places`: folders that they run in. None: it cannot be told, so that it may be anything.
    `targets`: of CMake, what tests may run.
    """

    scripts: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()
    goals: frozenset[str] | None = None
    entries: frozenset[str] | None = None
    environments: frozenset[str] | None = None
    words: frozenset[str] | None = None
    places: frozenset[str] | None = None
    targets: Uses = field(default_factory=Uses)

    def runs(self, program: str) -> bool:
        return self.words is None or program in self.words


ANYTHING = Invoked()


@dataclass(frozen=True, slots=True)
class _Text:
    """`is_direct`: each file that it names is a script. `folder`: of the file that it stands in. `has_commands`: one of
    a shell's in each line, among other things."""

    content: str
    is_direct: bool
    folder: str
    is_shell: bool = True
    has_commands: bool = False


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
    base, led_to, places = _Files(known, tests), dict[_Text, set[str]](), list[Collection[str] | None]()

    async def text_of(path: str) -> str:
        if path not in contents:
            contents[path] = (await read(path) or b"").decode("utf-8", "replace")
        return contents[path]

    def scripts_of(text: _Text) -> set[str]:
        if text not in led_to:
            led_to[text], folders = _scripts_of(text, folder, base)
            places.append(folders)
        return led_to[text]

    invoked = _asked_for(frozenset(), commands, is_all=True)
    try:
        for _ in range(MAX_ROUNDS):
            before, invoked = invoked, await _followed(commands, folder, scripts_of, text_of, invoked)
            if (before.goals, before.entries, before.texts) == (invoked.goals, invoked.entries, invoked.texts):
                told = [some for some in places if some is not None]
                return replace(invoked, places=frozenset(chain(*told)) if len(told) == len(places) else None)
        return await _followed(commands, folder, scripts_of, text_of, ANYTHING)
    except _TooManyError:
        return replace(ANYTHING, scripts=frozenset(filter(_is_code, known - tests)), texts=commands)


def _asked_for(scripts: frozenset[str], texts: Sequence[str], *, is_all: bool) -> Invoked:
    """`is_all`: each of the scripts was looked into."""
    if not is_all:
        return replace(ANYTHING, scripts=scripts, texts=tuple(texts))
    words = programs_in(texts)
    is_followed = all(posixpath.splitext(path)[1] in FOLLOWED or not is_source_or_data(path) for path in scripts)
    is_clear = is_followed and words.isdisjoint(UNCLEAR)
    return Invoked(
        scripts, tuple(texts), makes_in(texts), scripts_in(texts), environments_in(texts), words if is_clear else None
    )


def programs_in(texts: Iterable[str]) -> frozenset[str]:
    """Every word that might be a program's name, and its parts: `pytest-mypy` runs mypy."""
    found = frozenset(_PROGRAM.findall("\n".join(texts)))
    return found | {part for word in found for part in re.split("[-_]", word)}


class _TooManyError(Exception):
    """No project's scripts name so many files."""


class _Files:
    """Those that may be scripts, found by where they are, or by how their paths end."""

    def __init__(self, known: frozenset[str], tests: frozenset[str]) -> None:
        self._known, self._named = known - tests, dict[str, list[str]]()
        self._inside: dict[str, list[str]] = {}
        self._folders: set[str] = set()
        self._left = MAX_LOOKED_AT
        self.driving = known  # a package.json among the tests says what to do, too
        for path in known:
            folder, name = posixpath.split(path)
            self._named.setdefault(name, []).append(path)
            self._inside.setdefault(folder, []).append(name)
            while folder and folder not in self._folders:
                self._folders.add(folder)
                folder = posixpath.dirname(folder)

    def _spend(self, paths: int) -> None:
        self._left -= paths
        if self._left < 0:
            raise _TooManyError

    def of_names(self, names: Iterable[str], places: Iterable[str] | None) -> set[str]:
        """`places`: None is any."""
        if places is not None:
            return {_joined(place, name) for name in names for place in places} & self.driving
        ends = set(names)
        found = (path for name in {posixpath.basename(end) for end in ends} for path in self._named.get(name, ()))
        return {path for path in found if any(path == end or path.endswith(f"/{end}") for end in ends)}

    def at(self, word: str, places: Sequence[str]) -> Iterator[str]:
        name = posixpath.basename(word.rstrip("/"))
        if name in self._named:
            self._spend(len(places))
            yield from (path for place in places if (path := _joined(place, word.lstrip("/"))) in self._known)

    def run_by(
        self, word: str, places: Sequence[str], *, is_anywhere: bool, endings: Sequence[str] = _ENDINGS
    ) -> Iterator[str]:
        """By a word of a command, with the endings that programs find by themselves; maybe behind a variable."""
        is_untold, word = untold(word)
        word = posixpath.normpath(word) if word else ""
        if _GLOB.search(word):
            yield from self._matching(word, None if is_untold or is_anywhere else places)
            return
        for ending in endings if word else ():
            yield from self.at(f"{word}{ending}", places)
            if is_anywhere or is_untold:
                end = f"{word}{ending}".lstrip("./")
                found = self._named.get(posixpath.basename(end), ())
                self._spend(len(found))
                yield from (path for path in found if path in self._known and f"/{path}".endswith(f"/{end}"))

    def included(self, names: Iterable[str] | None, places: Sequence[str], *, is_anywhere: bool) -> set[str]:
        """By `make`, which looks for a name in more than one folder. None is any."""
        if names is None:
            return set(filter(may_be_included, self._known))
        found: set[str] = set()
        for name in names:
            found.update(self.run_by(name, places, is_anywhere=is_anywhere or not _GLOB.search(name), endings=("",)))
        return found

    def below(self, word: str, places: Iterable[str]) -> Iterator[str]:
        tops = tuple(f"{top}/" for place in places if (top := _joined(place, word)) in self._folders)
        if not tops:
            return
        self._spend(len(self._inside) * len(tops))
        for folder in (one for one in self._inside if f"{one}/".startswith(tops)):
            yield from {posixpath.join(folder, one) for one in self._inside[folder]} & self._known

    def _matching(self, pattern: str, places: Iterable[str] | None) -> Iterator[str]:
        above, name = posixpath.split(pattern)
        folders: Iterable[str] = self._inside
        if places is not None:
            folders = [_joined(place, above) for place in places]
            if _GLOB.search(above):
                self._spend(len(self._inside) * len(folders))
                above = re.compile("|".join(map(translate, folders)))
                folders = [one for one in self._inside if one and above.match(one)]
        matches = re.compile(translate(name)).match
        for folder in folders:
            names = self._inside.get(folder, ())
            self._spend(len(names))
            yield from {posixpath.join(folder, one) for one in names if matches(one)} & self._known


async def _followed(
    commands: Sequence[str],
    folder: str,
    scripts_of: Callable[[_Text], set[str]],
    text_of: Callable[[str], Awaitable[str]],
    asked: Invoked,
) -> Invoked:
    """Once, as far as what is `asked` for goes."""
    waiting = [_Text(command, True, folder) for command in commands]
    scripts: set[str] = set()
    texts: list[str] = []
    chars_left, is_all = MAX_CHARS, True
    while waiting:
        text = waiting.pop()
        if not text.has_commands:  # which are told already
            texts.append(text.content)
        found = sorted(scripts_of(text) - scripts)
        for path in found:
            is_all = is_all and len(scripts) < MAX_SCRIPTS and chars_left > 0
            scripts.add(path)
            if is_all:
                told = _told(path, await text_of(path), asked)
                chars_left -= sum(len(one.content) for one in told)
                waiting += told
    return _asked_for(frozenset(scripts), texts, is_all=is_all)


def _scripts_of(text: _Text, folder: str, base: _Files) -> tuple[set[str], Collection[str] | None]:
    """And the folders that it runs in; None for any."""
    content = without_files_read(text.content)
    led = led_by(content, is_shell=text.is_shell)
    places = dict.fromkeys((folder, text.folder))
    current = folder
    for inner in led.folders:
        current = _joined(current, inner)
        places |= dict.fromkeys((_joined(folder, inner), _joined(text.folder, inner), current))
    paths = [one for found in _MODULES_IN.findall(content) for one in found.split(":") if one][:MAX_FOLDERS]
    places = list(places | dict.fromkeys(_joined(place, one) for one in paths for place in (folder, text.folder)))
    is_anywhere = led.is_elsewhere or len(places) > MAX_FOLDERS
    places = places[:MAX_FOLDERS]

    if text.has_commands:
        found = chain(*(base.run_by(word, places, is_anywhere=is_anywhere, endings=("",)) for word in led.run))
        folders = [_joined(place, word) for word in set(_WORD.findall(content)) for place in (folder, text.folder)]
        return {*found, *base.of_names((*TASKFILES, *READ_BY["just"]), folders)}, places
    words = set(_WORD.findall(content))
    read = {name for program in led.programs | words for name in READ_BY.get(program, ())}
    named = base.of_names(read, None if is_anywhere else places)
    if not led.main.isdisjoint(UNCLEAR - READ_BY.keys()):
        named |= base.of_names(_TASKS, None)
    for word in led.run:
        endings = _ENDINGS if text.is_shell or "/" in word else ("",)  # `run` may be any word of a program
        named.update(base.run_by(word, places, is_anywhere=is_anywhere, endings=endings))
    if text.is_shell:
        named |= base.included(files_included(content), places, is_anywhere=is_anywhere)
    for word in led.given:
        named.update(path for path in base.run_by(word, places, is_anywhere=is_anywhere) if _is_code(path))
    # of a Makefile's rules: `checks/%.py`
    patterns = [
        word.replace("%", "*") for word in words if "%" in word and text.is_shell and posixpath.splitext(word)[1]
    ]
    for word in (*led.looped, *patterns) if led.is_open else ():
        named.update(path for path in base.run_by(word, places, is_anywhere=is_anywhere) if _is_code(path))
        named.update(path for path in base.below(word, places) if _is_code(path))
    for module in led.modules | set(_MODULE.findall(content)):
        path = module.replace(".", "/")
        for ending in (".py", "/__main__.py", *(("/__init__.py",) if not text.is_shell else ())):
            named.update(base.at(f"{path}{ending}", places))
    for word in words:
        is_run = text.is_direct or word.startswith("@")  # `pytest @more-options`
        for path in base.at(word.lstrip("@"), places):
            if is_run or _is_script(path) or not is_source_or_data(path) or (led.is_open and _is_code(path)):
                named.add(path)
    return named, None if is_anywhere else ["" if place == "." else place for place in places]


def _told(path: str, content: str, asked: Invoked) -> list[_Text]:
    """What a file tells its reader to run; of a package's description, its scripts alone."""
    folder, name = posixpath.split(path)
    if name in MAKEFILES and asked.goals is not None:
        return [_Text(what_goals_reach(content, asked.goals), False, folder)]
    if name.endswith(PROSE) or name.startswith(".git") or name.isupper():  # LICENSE
        return [_Text(content, False, folder, is_shell=False)]
    if name == "pyproject.toml":
        tasks = _of_tasks(content, asked.texts)
        return [_Text(tasks, False, folder, is_shell=False), _Text(tasks, False, folder, has_commands=True)]
    if name not in ("package.json", "composer.json"):
        suffix = posixpath.splitext(name)[1]
        text = _Text(content, False, folder, is_shell=suffix not in _OTHER_TEXTS)
        return [text, _Text(_commands_in(content), False, folder, has_commands=True)] if suffix in _TABLES else [text]
    try:
        found = cast("dict[str, Any]", json.loads(content))["scripts"]
        entries = asked.entries if name == "package.json" else None
        texts = reached_entries(found, entries).values()
        return [_Text(text, True, folder) for text in texts if isinstance(text, str)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def _commands_in(table: str) -> str:
    """What may be commands in YAML, TOML or an INI file: values of all keys but of those that name sources."""
    kept: list[str] = []
    key = ""
    for line in table.split("\n"):
        found = _KEY.match(line)
        key = found[1] if found else key
        if key not in _KEYS_OF_SOURCES:
            kept.append((line[found.end() :] if found else line).strip(" \t-[]{}\"',|>"))
    return "\n".join(kept)


def _of_tasks(pyproject: str, texts: Sequence[str]) -> str:
    """What runners of tasks are told there, a line for each command; and modules that programs in the texts are."""
    try:
        found, programs = read_toml(pyproject), programs_run(texts)
        is_asked = not texts or not programs_in(texts).isdisjoint(_RUN_TASKS)
        tools = table_in(found, "tool") if is_asked else {}
        modules = [f"python -m {str(where).partition(':')[0]}" for where in programs_of(found, programs).values()]
        return "\n".join(
            (*modules, *chain.from_iterable(_lines(tools[name]) for name in sorted(tools.keys() & _OF_TASKS)))
        )
    except (ValueError, RecursionError):
        return pyproject


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            lines = list(_lines(inner))
            if key in ("script", "call") and isinstance(inner, str):
                yield f"python -m {re.split('[:(]', inner)[0]}"  # `pkg.checks:main`
            yield from (f"{key} {line}" if key in ("cwd", "change_dir", "changedir") else line for line in lines)
    elif isinstance(value, list):
        items = cast("list[object]", value)
        if items and all(isinstance(one, str) for one in items):
            yield " ".join(map(str, items))  # one command's words
        yield from chain.from_iterable(map(_lines, items))
    else:
        yield str(value)


def _joined(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path))


def _is_script(path: str) -> bool:
    *folders, name = path.split("/")
    return posixpath.splitext(name)[1] in SCRIPT_SUFFIXES or not SCRIPT_FOLDERS.isdisjoint(folders)


def _is_code(path: str) -> bool:
    return posixpath.splitext(path)[1] in CODE_SUFFIXES
