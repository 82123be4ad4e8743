"""New files and links that Python would load in the place of something else: of its own modules, of a runner, or of a
library that the base's run had loaded."""

from __future__ import annotations

import posixpath
import re
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from .commands import roots_in
from .control import BaseRun
from .diff import FilePatch
from .names import IMPORT_ROOTS, PYTEST_SETTINGS, TEST_FOLDERS, is_test_module
from .trees import Trees

# What Python on Linux loads, by the ends of its names (importlib.machinery.all_suffixes).
SUFFIXES = (".py", ".pyc", ".so")
# Modules that Python's runners load before the first test, or try to. One in the workspace would be loaded in their
# place. What an installed runner or plugin has loaded beside these is told by the base's run.
RUNNER_MODULES = frozenset(
    (
        *("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "coverage", "pytest_cov", "xdist"),
        *("execnet", "hypothesis", "_hypothesis_pytestplugin", "nose", "nose2", "tox", "nox", "exceptiongroup"),
        # asked for, and not there in many places
        *("argcomplete", "colorama", "tomli", "typing_extensions", "importlib_metadata", "attr", "pexpect", "twisted"),
        *("pkg_resources", "setuptools", "setproctitle", "psutil"),
    )
)
MAX_DEPTH = 8  # of a module's name in the namespaces of others
# By these a project's code puts folders on Python's path.
PATH_WORDS = ("sys.path", "syspath_prepend", "addsitedir")
MAX_LINES = 2000  # of a file that changes the path
MAX_WORDS = 20_000  # that may be folders, of all these files together
MAX_WORDS_OF_LINE = 50
_QUOTED = re.compile(r"[\"']([\w./ -]{1,200})[\"']")


@dataclass(frozen=True, slots=True)
class ImportRoots:
    """Folders that Python loads modules from. A folder of tests is one unless it is a package (one of `packages`): its
    modules are loaded below its name then, since pytest puts the folder above it on the path."""

    named: frozenset[str] = IMPORT_ROOTS
    packages: Collection[str] = ()

    def has(self, folder: str) -> bool:
        is_of_tests = folder not in self.packages and not TEST_FOLDERS.isdisjoint(folder.split("/"))
        return folder in self.named or is_of_tests


def importable_names(libraries: Collection[str] = ()) -> set[str]:
    """Of the runners, of Python itself and of `libraries`, with the namespaces that these are in: a package in the
    place of a namespace hides all that others have put there.

    >>> {"json", "pytest", "google", "google.protobuf"} <= importable_names(["google.protobuf"])
    True
    """
    above = {name[:at] for name in libraries for at, sign in enumerate(name) if sign == "."}
    return {*libraries, *above, *RUNNER_MODULES, *sys.stdlib_module_names} - TEST_FOLDERS


def shadowed(path: str, roots: ImportRoots, names: Collection[str], *, is_link: bool = False) -> str:
    """Which of these `names` Python would load this new file for; empty where none. A link is a module whatever its
    name ends with.

    >>> roots = ImportRoots(packages=["tests"])
    >>> [shadowed(path, roots, ["json"]) for path in ("src/json.py", "src/app/json.py", "tests/json/__init__.py")]
    ['json', '', '']
    >>> shadowed("src/numpy", roots, ["numpy"], is_link=True)
    'numpy'
    """
    found = _module_names(path, is_link=is_link)
    return next((name for folder, name in found if name in names and roots.has(folder)), "")


def _module_names(path: str, *, is_link: bool) -> Iterator[tuple[str, str]]:
    """Folders above it, and what it is called where Python loads modules from there."""
    *folders, name = path.split("/")
    if name.endswith(SUFFIXES):
        stem = name.partition(".")[0]  # json.cpython-312-x86_64-linux-gnu.so is json
        parts = folders if stem in ("__init__", "__main__") else [*folders, stem]
    else:
        parts = [*folders, name] if is_link else []
    for at in range(max(0, len(parts) - MAX_DEPTH), len(parts)):
        yield "/".join(parts[:at]), ".".join(parts[at:])


async def shadowing_files(
    parts: Sequence[FilePatch],
    base: Sequence[str],
    trees: Trees,
    *,
    texts: Sequence[str],
    subpath: str,
    base_run: BaseRun,
) -> dict[str, str]:
    """New files and links that Python would load instead of others, and files whose going or coming makes it do so;
    each with what it does, in words."""
    links = {part.path for part in parts if part.status != "D" and part.is_link}
    new = [part.path for part in parts if part.status in ("A", "R") or part.path in links]
    gone = {path for part in parts for path in part.paths} - {part.path for part in parts if part.status != "D"}
    files = {*base, *new} - gone
    before, after = (_TestRoots(some, base_run.collected) for some in (base, files))
    # a folder that is no package any more, or that tests begin to stand in, is one that modules are loaded from
    opened = {posixpath.dirname(path): path for path in gone if posixpath.basename(path) == "__init__.py"}
    for path in [part.path for part in parts] if after.found - before.found else []:
        if posixpath.basename(path) == "__init__.py" or is_test_module(path):
            root = after.of(posixpath.dirname(path))
            opened |= {root: path} if root not in before.found and root not in opened else {}
    loose = [path for path in files if opened and _folder_of_module(path) in opened]
    names = importable_names(base_run.libraries)
    candidates = (name for path in (*new, *loose) for _, name in _module_names(path, is_link=False))
    if not links and names.isdisjoint(candidates):
        return {}
    named = await _import_roots(base, trees, texts=texts, subpath=subpath, packages=before.packages)
    names = importable_names(_of_others(base_run.libraries, {*base}, named))
    roots = ImportRoots(frozenset({*named, *after.found}), after.packages)
    in_order = sorted(f"{root}/" for root in roots.named)
    found: dict[str, str] = {}
    for path in new:
        if name := shadowed(path, roots, names, is_link=path in links):
            found[path] = f"in the place of {name}"
        elif path in links and _holds_one(path, in_order):
            found[path] = "a link where modules are loaded from"
    for path in loose:
        if name := shadowed(path, roots, names):
            found.setdefault(opened[_folder_of_module(path)], f"{path} comes in the place of {name}")
    return found


class _TestRoots:
    """Folders that pytest puts before all others on the path: that of a test, or the one above its package."""

    def __init__(self, files: Collection[str], collected: Collection[str]) -> None:
        self.packages = {posixpath.dirname(path) for path in files if posixpath.basename(path) == "__init__.py"}
        self._known: dict[str, str] = {}
        folders = {posixpath.dirname(path) for path in files if path in collected or is_test_module(path)}
        self.found = {self.of(folder) for folder in folders}

    def of(self, folder: str) -> str:
        way: list[str] = []
        while folder and folder in self.packages and folder not in self._known:
            way.append(folder)
            folder = posixpath.dirname(folder)
        root = self._known.get(folder, folder)
        self._known.update(dict.fromkeys(way, root))
        return root


def _holds_one(folder: str, paths: Sequence[str]) -> bool:
    """Is one of these in the folder? They are sorted; a folder among them has a slash behind it."""
    at = bisect_left(paths, f"{folder}/")
    return at < len(paths) and paths[at].startswith(f"{folder}/")


def _of_others(libraries: Collection[str], base: Collection[str], roots: Collection[str]) -> set[str]:
    """Without the project itself, which may be installed as well as stand in the repository."""
    lasts = {name.rpartition(".")[2] for name in libraries}
    own: set[str] = set()
    for path in base:
        *above, last = path.removesuffix("/__init__.py").removesuffix(".py").rsplit("/", MAX_DEPTH)
        if path.endswith(".py") and last in lasts:
            parts = [*above, last]
            for at in range(len(parts)):
                if "/".join(parts[:at]) in roots and not any("." in part for part in parts[at:]):
                    own.add(".".join(parts[at:]))
    return {*libraries} - own


def _folder_of_module(path: str) -> str:
    """The folder of a module, and of a package the one that it is in."""
    folder, name = posixpath.split(path)
    return posixpath.dirname(folder) if posixpath.splitext(name)[0] in ("__init__", "__main__") else folder


async def _import_roots(
    base: Sequence[str], trees: Trees, *, texts: Sequence[str], subpath: str, packages: Collection[str]
) -> set[str]:
    """Folders that Python loads modules from, as far as commands, settings and code say so, also through links; with a
    `conftest.py` that changes the path itself its own folder, and those below."""
    found = {*IMPORT_ROOTS, subpath, *roots_in(texts, subpath)}
    found |= {posixpath.dirname(path) for path in base if posixpath.basename(path) == "manage.py"}  # by pytest-django
    lines_of: dict[str, list[str]] = {}
    lines_with = await trees.lines_with(PATH_WORDS)
    if lines_with is None:  # too many: any folder may be one
        return found | {posixpath.dirname(path) for path in base}
    for path, line in lines_with:
        lines_of.setdefault(path, []).append(line)
    whole: set[str] = set()
    told = [path for path in base if posixpath.basename(path) in (*PYTEST_SETTINGS, "conftest.py")]
    told.sort(key=lambda path: (path.count("/"), path))
    for path, text in zip(told, await trees.texts(told), strict=True):
        folder, name = posixpath.split(path)
        if name in PYTEST_SETTINGS:
            if len(found) < MAX_WORDS:
                found |= roots_in([text or ""], folder)
        elif text is None or any(word in text for word in PATH_WORDS):
            whole.add(folder)
            lines_of[path] = (text or "").split("\n")[:MAX_LINES]
    found |= whole | _below(whole, {posixpath.dirname(path) for path in base})
    files, words_left = sorted(base), MAX_WORDS
    for path, lines in lines_of.items():
        if path.endswith(".py"):
            tails = _tails(lines, words_left)
            words_left -= len(tails)
            found |= _roots_in_code(tails, posixpath.dirname(path), files, packages)
    for link, place in (await trees.links()).items():
        inside = [root for root in found if f"{root}/".startswith(f"{link}/")]
        found |= {posixpath.normpath(place + root[len(link) :]) for root in inside}
    return found


def _below(tops: Collection[str], folders: Collection[str]) -> set[str]:
    """Of the folders those in one of `tops`."""
    places, found = sorted(f"/{one}/" if one else "/" for one in folders), set[str]()
    last = "//"
    for top in sorted(f"/{one}/" if one else "/" for one in tops):
        if not top.startswith(last):
            last = top
            for at in range(bisect_left(places, top), len(places)):
                if not places[at].startswith(top):
                    break
                found.add(places[at].strip("/"))
    return found


def _tails(lines: Sequence[str], count: int) -> set[str]:
    """No more than `count` texts in quotes, and all of a line as one path."""
    found: set[str] = set()
    for line in lines[:MAX_LINES]:
        words = [word[1].strip("./") for word in islice(_QUOTED.finditer(line), MAX_WORDS_OF_LINE)]
        found |= {*words, "/".join(filter(None, words))} - {""}
        if len(found) > count:
            return set(sorted(found)[:count])
    return found


def _roots_in_code(tails: Collection[str], folder: str, files: Sequence[str], packages: Collection[str]) -> set[str]:
    """Of code in `folder` that changes Python's path: this one and those above it, unless they are packages, and those
    that it names. Of the folders above no more than a few."""
    near = [folder]
    while near[-1] and len(near) < MAX_DEPTH:
        near.append(posixpath.dirname(near[-1]))
    named = (posixpath.join(one, tail) for one in near for tail in tails)
    return {one for one in near if one not in packages} | {one for one in named if _holds_one(one, files)}
