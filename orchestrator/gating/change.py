"""What a change does to the tests, and to the gate that is to judge it. Read from git, never from a worker."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from envelope.gate import GateObjection, GateRules, TestFileChange
from envelope.pattern import match
from envelope.scope import split
from repo.content import file_at
from repo.errors import OutputTooLarge
from repo.mirror import Mirror

from .diff import FilePatch, parts_of
from .names import TEST_FOLDERS, is_gate_file, is_test_file, shadows
from .reaching import reaching_lines
from .scripts import scripts_of
from .settings_of import has_other_settings, holds_settings

MAX_SETTINGS_BYTES = 1024 * 1024  # no project's own settings are larger: what is counts as edited
MAX_NAMES = 50  # of an objection; the diff has them all
MAY_EDIT = "if the goal is to change it, name it in the gate's may_edit"


@dataclass(frozen=True, slots=True)
class Trees:
    """Where the files of both sides can be read. Without a mirror nobody looks into them: names must do."""

    mirror: Mirror | None
    base: str
    tree: str

    async def paths(self) -> list[str]:
        return await self.mirror.files(self.base) if self.mirror else []

    async def before(self, path: str) -> bytes | None:
        return await self._read(self.base, path)

    async def has_other_settings(self, part: FilePatch) -> bool:
        try:
            sides = await self._read(self.base, part.old_path or part.path), await self._read(self.tree, part.path)
        except OutputTooLarge:
            return True
        return self.mirror is None or has_other_settings(part.path, *sides)

    async def _read(self, tree: str, path: str) -> bytes | None:
        if self.mirror is None:
            return None
        return await file_at(self.mirror.git_dir, tree, path, max_bytes=MAX_SETTINGS_BYTES)


@dataclass(frozen=True, slots=True)
class Inspection:
    """`test_files`: those that are edited or added. `judged`: parts of the diff without which the tests are as on the
    base; empty where there are none, or all were granted by name. A new test counts as well: it is code of the agent's
    that runs inside the runner. `touched`: every path of the change."""

    objections: tuple[GateObjection, ...] = ()
    test_files: tuple[TestFileChange, ...] = ()
    judged: tuple[FilePatch, ...] = ()
    touched: frozenset[str] = frozenset()


async def inspect(
    diff: bytes,
    trees: Trees,
    *,
    commands: Sequence[str],
    subpath: str,
    rules: GateRules,
    scope: Sequence[str],
    found: Collection[str] = (),
) -> Inspection:
    """Judge the change by what it touches, before it runs. `scope` are the goal's `edit` grants; `found` files that are
    tests, or are read by them, by what the base's run did."""
    parts = parts_of(diff)
    paths = await trees.paths() if found else []
    folders = _folders_of_tests(found, paths, rules)
    tests = [
        part
        for part in parts
        if _is_test(part, rules)
        or any(path in found for path in part.paths)
        or (part.status != "M" and posixpath.dirname(part.path) in folders)
    ]
    edited = await _gate_files(parts, trees, commands=commands, subpath=subpath, rules=rules)
    reached = [line for part in parts if not _may_edit(part, rules) for line in reaching_lines(part)]
    named = _naming_tests(scope, rules, found, paths)
    return Inspection(
        objections=(*_edited(edited), *_reached(reached)),
        test_files=tuple(_as_change(part) for part in tests),
        judged=() if all(_is_granted(part, named) for part in tests) else tuple(tests),
        touched=frozenset(path for part in parts for path in part.paths),
    )


def _is_test(part: FilePatch, rules: GateRules) -> bool:
    """A file or a link in the place of a folder of tests is one, too: with it the folder's tests go and come."""
    is_folder = part.status == "A" and posixpath.basename(part.path) in TEST_FOLDERS
    return is_folder or any(is_test_file(path, rules.tests) for path in part.paths)


def _is_granted(part: FilePatch, named: Sequence[str]) -> bool:
    return all(path in named or any(match(pattern, path) for pattern in named) for path in part.paths)


def _folders_of_tests(found: Collection[str], paths: Sequence[str], rules: GateRules) -> set[str]:
    """Folders with files that are tests by what the run did, and with no others: what is new there is one as well."""
    others = {posixpath.dirname(path) for path in paths if path not in found and not is_test_file(path, rules.tests)}
    return {posixpath.dirname(path) for path in found} - others - {""}


def _naming_tests(
    scope: Sequence[str], rules: GateRules, found: Collection[str], paths: Sequence[str]
) -> tuple[str, ...]:
    """Patterns of the edit grants that name tests: whoever wrote them wants tests edited. `edit:**` does not say so;
    one that meets nothing but what the run found does."""
    patterns = [pattern for tool, pattern in map(split, scope) if tool == "edit"]
    return tuple(
        pattern
        for pattern in patterns
        if is_test_file(pattern, rules.tests) or _meets_only(pattern, found, paths, rules)
    )


def _meets_only(pattern: str, found: Collection[str], paths: Sequence[str], rules: GateRules) -> bool:
    met = [path for path in paths if path == pattern or match(pattern, path)] if found else []
    return any(path in found for path in met) and all(path in found or is_test_file(path, rules.tests) for path in met)


def _may_edit(part: FilePatch, rules: GateRules) -> bool:
    return all(any(match(pattern, path) for pattern in rules.may_edit) for path in part.paths)


async def _gate_files(
    parts: Sequence[FilePatch], trees: Trees, *, commands: Sequence[str], subpath: str, rules: GateRules
) -> list[str]:
    """Edited files that belong to the gate, sorted."""
    changed = {path for part in parts for path in part.paths}
    among = {*changed, *await trees.paths()}
    scripts = await scripts_of(commands, folder=subpath, among=among, read=trees.before)
    found: set[str] = set()
    for part in parts:
        if _may_edit(part, rules):
            continue
        is_new = part.status in ("A", "R") and shadows(part.path, subpath)
        if is_new or any(is_gate_file(path) or _is_protected(path, subpath, rules) for path in part.paths):
            found.add(part.path)
        elif holds_settings(part.path):
            found |= {part.path} if await trees.has_other_settings(part) else set()
        elif not scripts.isdisjoint(part.paths):
            found.add(part.path)
    return sorted(found)


def _is_protected(path: str, subpath: str, rules: GateRules) -> bool:
    reports = [posixpath.normpath(posixpath.join(subpath, rules.junit))] if rules.junit else []
    return any(match(pattern, path) for pattern in (*rules.protect, *reports))


def _edited(paths: Sequence[str]) -> list[GateObjection]:
    if not paths:
        return []
    message = f"the change edits the gate itself: {listed(paths)}"
    return [GateObjection(code="gate_edited", message=message, hint=MAY_EDIT, names=tuple(paths[:MAX_NAMES]))]


def _reached(lines: Sequence[str]) -> list[GateObjection]:
    if not lines:
        return []
    message = f"code under test reaches for its runner: {lines[0]}"
    hint = "look at these lines; name the file in the gate's may_edit if they are meant"
    return [GateObjection(code="runner_reached", message=message, hint=hint, names=tuple(lines[:MAX_NAMES]))]


def _as_change(part: FilePatch) -> TestFileChange:
    return TestFileChange(
        path=part.path, status=part.status, added=len(part.lines(b"+")), removed=len(part.lines(b"-"))
    )


def listed(names: Sequence[str], most: int = 3) -> str:
    """
    >>> listed(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = len(names) - most
    return f"{', '.join(names[:most])} and {more} more" if more > 0 else ", ".join(names)
