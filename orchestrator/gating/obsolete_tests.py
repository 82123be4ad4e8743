"""Tests that a change removes together with what they test: that is no loss, and whoever reads the diff is told.

The argument: such a test names something that the product has no more, so it could only fail. That is believed where

- the files of tests are as before, but for the removed tests, and imports and helpers that nobody else used;
- everything of the product that a removed test names is gone: defined in its changed files on the base, defined in none
  of them after the change, and no word of any code but the tests' (`subjects.py`). A class may stay of which the test
  uses a member that is gone;
- the product's changed files define nothing new, and do nothing by which a name could come back unseen.

Everything else needs a grant.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from repo.apart import run_apart

from .diff import FilePatch
from .lost_tests import MAX_NOTED, NOTHING_LIFTED, Files, Grants, Lifted, LostTests
from .names import IMPORT_ROOTS, is_test_file
from .runner_access import words_done
from .text import listed
from .trees import Trees

PYTHON = (".py", ".pyi")
# What is no code: it may name what is gone, as the list of changes does.
WORDS = (".md", ".rst", ".txt", ".adoc", ".html", ".css", ".svg", ".png", ".po", ".csv")
# What may change beside it without being looked at.
PLAIN = (*WORDS, ".toml", ".cfg", ".ini", ".json", ".yml", ".yaml", ".lock", "")
# By which a name may come back that no text has.
_UNSEEN = re.compile(
    r"\b(?:globals|locals|vars|setattr|exec|eval|compile|import_module|modules|type)\b"
    r"|(?<!\w)(?>\w*?__)(?>\w*?(?:dict|attr|import|class))\w*?__"
)
MAX_NAMED = 100  # subjects that are looked for
MAX_READ = 20  # files of the product that may only mention the name


@dataclass(frozen=True, slots=True)
class ObsoleteTests:
    """`parts` of the change take out nothing but `tests` (by file) whose `subjects` are gone."""

    parts: tuple[FilePatch, ...] = ()
    tests: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    subjects: tuple[str, ...] = ()
    files: Files = field(default_factory=lambda: Files((), ""))

    def let_go(self, lost: LostTests, lifted: Lifted = NOTHING_LIFTED) -> Lifted:
        """`lifted`, and these with it."""
        if not self.parts:
            return lifted
        note = f"tests are gone with what they test ({listed(self.subjects)})"
        if not lost.is_named:
            count = sum(len(tests) for tests in self.tests.values())
            if lifted.any_number or lost.fewer > count or lost.more_skipped > 0:
                return lifted
            return replace(lifted, any_number=True, notes=(*lifted.notes, f"{note}: {lost.fewer}"))
        names = [name for name in lost.gone if self._has(name, self.files.of(name))]
        if not names:
            return lifted
        notes = (*lifted.notes, f"{note}: {listed(names, MAX_NOTED)}")
        return replace(lifted, names=lifted.names | set(names), notes=notes)

    def _has(self, name: str, owners: Sequence[str]) -> bool:
        if len(owners) != 1:
            return False
        module = posixpath.splitext(owners[0])[0].replace("/", ".")
        told = f".{name.replace('::', '.')}"
        return any(f".{module}.{test}".endswith(told) for test in self.tests.get(owners[0], ()))


NONE_OBSOLETE = ObsoleteTests()


async def obsolete_tests(grants: Grants, changed: Sequence[FilePatch], trees: Trees, *, subpath: str) -> ObsoleteTests:
    """Of the files of tests whose edit nobody granted."""
    tests = [part for part in grants.parts if not grants.cover(*part.paths)]
    tests = [part for part in tests if part.status in ("M", "D") and part.path.endswith(".py")]
    of_tests = frozenset(grants.parts)
    product = [part for part in changed if part not in of_tests]
    if not tests or not product or not all(map(_is_followed, product)):
        return NONE_OBSOLETE
    paths = await trees.paths()
    asked = {
        "tests": {part.path: [await trees.text(part.path) or "", await _after(part, trees)] for part in tests},
        "product": {
            part.path: [await trees.text(part.old_path or part.path), await _after(part, trees)]
            for part in product
            if part.path.endswith(PYTHON)
        },
    } | _modules(paths, subpath)
    told = await run_apart("orchestrator.gating.subjects", told=json.dumps(asked).encode())
    found = cast("dict[str, dict[str, list[str]]]", json.loads(told) if told else {})
    still = await _still_named({name for one in found.values() for name in one["subjects"]}, trees)
    kept = {path: one for path, one in found.items() if still is not None and still.isdisjoint(one["subjects"])}
    return ObsoleteTests(
        tuple(part for part in tests if part.path in kept),
        {path: one["tests"] for path, one in kept.items()},
        tuple(sorted({name for one in kept.values() for name in one["subjects"]})),
        Files(paths, subpath),
    )


def _is_followed(part: FilePatch) -> bool:
    """Is it no code; or Python that brings back no name unseen?"""
    if all(path.endswith(PYTHON) for path in part.paths):
        return part.status != "A" and not any(_UNSEEN.search(line) for line in part.lines(b"+"))
    return all(posixpath.splitext(path)[1] in PLAIN for path in part.paths)


async def _after(part: FilePatch, trees: Trees) -> str | None:
    return None if part.status == "D" else await trees.text(part.path, after=True)


def _modules(paths: Iterable[str], subpath: str) -> dict[str, list[str]]:
    """The product's modules as Python may call them, and names that any module of the repository's might begin with."""
    modules: set[str] = set()
    names: set[str] = set()
    for path in paths:
        stem, suffix = posixpath.splitext(path)
        names |= {*stem.split("/")} if suffix in PYTHON else {*stem.split("/")[:-1]}
        if suffix in PYTHON and not is_test_file(path):
            dotted = stem.removesuffix("/__init__").replace("/", ".")
            starts = {f"{root.replace('/', '.')}." for root in (*IMPORT_ROOTS, subpath) if root}
            modules |= {dotted, *(dotted.removeprefix(start) for start in starts)}
    return {"modules": sorted(modules), "names": sorted(names)}


async def _still_named(names: set[str], trees: Trees) -> set[str] | None:
    """Which of the names some code of the product has after the change; None where that cannot be said."""
    if not names or len(names) > MAX_NAMED:
        return names
    lines = await trees.lines_with(sorted(names), after=True)
    if lines is None:
        return None
    found: dict[str, list[str]] = {}
    for path, line in lines:
        if not is_test_file(path) and not path.endswith(WORDS):
            found.setdefault(path, []).append(line)
    if len(found) > MAX_READ:
        return names
    still: set[str] = set()
    for path, there in found.items():
        text = await trees.text(path, after=True) if path.endswith(PYTHON) else None
        still |= names & (set(re.findall(r"\w+", "\n".join(there))) if text is None else words_done(text))
    return still
