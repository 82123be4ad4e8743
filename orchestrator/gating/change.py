"""A change's own effect on the tests, and on the gate that is to judge it. Read from git, never from a worker."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain

from envelope.gate import GateObjection, GateRules, TestFileChange
from envelope.pattern import match
from envelope.scope import split

from .build_files import is_beside, is_build_file, is_read
from .cmake_files import ANY_TARGET, Uses, included, uses_of
from .commands import addopts_in, programs_run
from .control import BaseRun
from .diff import FilePatch, parts_of
from .kinds import folders_of_sources, may_be_settings, may_steer
from .lost_tests import Grants
from .makefiles import MAKEFILES, is_made_from
from .named_files import named_by_settings
from .names import (
    CHECKERS,
    DOCUMENTERS,
    PYTEST_SETTINGS,
    READ_BY,
    TEST_FOLDERS,
    checkers_of,
    in_quotes,
    is_gate_file,
    is_installed,
    is_test_file,
    settings_like,
)
from .runner_access import RunnerAccess, is_code_under_test, is_suspicious, runner_access, runs_its_texts
from .scripts import ANYTHING, UNCLEAR, Invoked, invoked_by, programs_in
from .settings_of import PYTEST_INI, holds_settings, is_of_cmake
from .shadows import shadowing_files
from .text import listed
from .trees import Trees

MAX_ASKED = 10  # lines in a note
# Of all new code together: a second of a processor's time for each million signs.
MAX_CODE_CHARS = 8_000_000  # that are looked through
MAX_SOURCE_CHARS = 4_000_000  # that are taken apart, to tell words from deeds
MAX_HINTED = 5  # files that a hint names; a pattern for more is a person's to choose
_VERSION = re.compile(r"\b(?:v\d+\.|\d+\.\d+\.)[\w.+-]+")
# A command of Django's (`manage.py test`), which an application may have in place of its own.
_DJANGOS = re.compile(r"(?:.*/)?management/commands/(\w+)\.py")
# Programs that run what a repository's files say: which others that are cannot be told without them.
LEADS_ON = frozenset((*READ_BY, *UNCLEAR, "sh", "bash", "zsh", "docker", "podman", "compose"))


@dataclass(frozen=True, slots=True)
class Inspection:
    """`test_files`: those that are edited or added. `judged`: parts of the diff without which the tests are as on the
    base; empty where there are none, or all were granted by name. A new test counts as well: it is code of the agent's
    that runs inside the runner. `steering`: what programs of the gate may obey, as far as anybody knows. `grants`:
    which tests may be edited, or be missing. `parts`: all of the diff."""

    objections: tuple[GateObjection, ...] = ()
    test_files: tuple[TestFileChange, ...] = ()
    judged: tuple[FilePatch, ...] = ()
    steering: tuple[FilePatch, ...] = ()
    grants: Grants = field(default_factory=Grants)
    parts: tuple[FilePatch, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def touched(self) -> frozenset[str]:
        return frozenset(path for part in self.parts for path in part.paths)


async def inspect(
    diff: bytes,
    trees: Trees,
    *,
    commands: Sequence[str],
    subpath: str,
    rules: GateRules,
    scope: Sequence[str],
    base_run: BaseRun = BaseRun(),
) -> Inspection:
    """Judge the change by what it touches, before it runs. `scope` are the goal's `edit` grants."""
    parts, found = parts_of(diff), base_run.tests
    paths = await trees.paths() if found else []
    folders = _folders_of_tests(found, paths, rules)
    tests = [
        part
        for part in parts
        if _is_test(part, rules)
        or any(path in found for path in part.paths)
        or (part.status != "M" and posixpath.dirname(part.path) in folders)
    ]
    edited = await _gate_files(parts, trees, commands=commands, subpath=subpath, rules=rules, base_run=base_run)
    of_tests = {path for part in tests for path in part.paths}
    for part in parts:
        if not _may_edit(part, rules) and any(path in base_run.plugins and path not in of_tests for path in part.paths):
            edited[part.path] = edited.get(part.path) or "a plugin of the runner"
    looked = await _runner_accesses([part for part in parts if not _may_edit(part, rules)], trees, parts)
    asked = [line for one in looked.accesses for line in one.asked]
    grants = Grants(
        _naming_tests(scope, rules, found, paths),
        tuple(tests),
        frees_gate=any(_may_edit(part, rules) for part in parts),
        gone=frozenset(path for part in parts for path in part.paths if part.status == "D" or path == part.old_path),
    )
    return Inspection(
        objections=(
            *_edited(edited, rules),
            *_reached([line for one in looked.accesses for line in one.reached], rules),
            *_unread(
                looked.unread, f"the change has more code than is looked through ({MAX_CODE_CHARS:,} signs)", rules
            ),
            *_unread(looked.hidden, "new code is no text, so that nobody can look at it", rules),
        ),
        test_files=tuple(_as_change(part) for part in tests),
        judged=() if len(grants.granted) == len(tests) else tuple(tests),
        steering=await _steering(parts, trees, of_tests, rules),
        grants=grants,
        parts=parts,
        notes=(f"new code asks who runs it: {listed(asked, MAX_ASKED)}",) if asked else (),
    )


async def _steering(
    parts: Sequence[FilePatch], trees: Trees, of_tests: AbstractSet[str], rules: GateRules
) -> tuple[FilePatch, ...]:
    left = [part for part in parts if not _may_edit(part, rules) and of_tests.isdisjoint(part.paths)]
    product = folders_of_sources(await trees.paths()) if left else frozenset[str]()
    return tuple(part for part in left if any(may_steer(path, product) for path in part.paths))


@dataclass(slots=True)
class _Looked:
    """`unread`: files with more code than is looked through. `hidden`: those that are no text."""

    accesses: list[RunnerAccess] = field(default_factory=list[RunnerAccess])
    hidden: list[str] = field(default_factory=list[str])
    unread: list[str] = field(default_factory=list[str])


async def _runner_accesses(judged: Sequence[FilePatch], trees: Trees, parts: Sequence[FilePatch]) -> _Looked:
    """What new code of the `judged` of all `parts` does with its runner."""
    looked, code_chars, source_chars = _Looked(), 0, 0
    strict = runs_its_texts(parts)
    for part in filter(is_code_under_test, judged):
        if part.old_path and not is_code_under_test(replace(part, path=part.old_path)):
            part = replace(part, content=await _as_new(part, trees))
        code_chars += sum(map(len, part.lines(b"+")))
        if part.is_binary:
            looked.hidden.append(part.path)
        elif code_chars > MAX_CODE_CHARS:
            looked.unread.append(part.path)
        elif is_suspicious(part):
            before = after = None  # then words count wherever they stand
            if not strict and source_chars < MAX_SOURCE_CHARS:
                before = await trees.text(part.old_path or part.path) if part.status != "A" else None
                after = await trees.text(part.path, after=True)
            source_chars += len(before or "") + len(after or "")
            looked.accesses.append(runner_access(part, before, after))
    return looked


async def _as_new(part: FilePatch, trees: Trees) -> bytes:
    """What was no code before is looked at whole."""
    text = await trees.text(part.path, after=True)
    if text is None:
        return part.content
    lines = text.split("\n")
    return "".join((f"@@ -0,0 +1,{len(lines)} @@\n", *(f"+{line}\n" for line in lines))).encode()


def _is_test(part: FilePatch, rules: GateRules) -> bool:
    """A file or a link in the place of a folder of tests is one, too: with it the folder's tests go and come."""
    is_folder = part.status == "A" and posixpath.basename(part.path) in TEST_FOLDERS
    return is_folder or any(is_test_file(path, rules.tests) for path in part.paths)


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
    parts: Sequence[FilePatch],
    trees: Trees,
    *,
    commands: Sequence[str],
    subpath: str,
    rules: GateRules,
    base_run: BaseRun,
) -> dict[str, str]:
    """Edited files that belong to the gate; some with a word that says why."""

    def is_test(path: str) -> bool:
        return path in base_run.collected or is_test_file(path, rules.tests)

    changed = {path for part in parts for path in part.paths}
    base = await trees.paths()
    other_names = await trees.other_names({*changed, *base})
    among = {*changed, *base, *other_names}
    invoked = await invoked_by(commands, folder=subpath, among=among, read=trees.before, is_test=is_test)
    by_links: dict[str, list[str]] = {}
    for name, path in other_names.items():
        if path in changed and (name in invoked.scripts or posixpath.basename(name) != posixpath.basename(path)):
            by_links.setdefault(path, []).append(name)
    if trees.mirror is None:
        invoked = replace(ANYTHING, scripts=invoked.scripts, texts=invoked.texts, places=invoked.places)
    elif any(map(_may_have_settings, (*changed, *chain.from_iterable(by_links.values())))):
        invoked = await _with_what_tests_run(invoked, base, trees)
    if trees.mirror and any(map(is_of_cmake, changed)):
        invoked = replace(invoked, targets=await _targets(changed, base, trees))
    in_place = await shadowing_files(parts, base, trees, texts=invoked.texts, subpath=subpath, base_run=base_run)
    known = {*changed, *base}
    named = await named_by_settings(
        base, trees, among=known, changed=changed, scripts=invoked.scripts, texts=invoked.texts, subpath=subpath,
        runs=invoked.runs,
    )  # fmt: skip

    there = frozenset(base)
    makes = invoked.runs("make") or invoked.runs("gmake")

    def is_of_a_tool(path: str) -> bool:
        if makes and path not in there and is_made_from(path, known):
            return True
        is_named = path in named and not is_test(path) and not holds_settings(path)
        return is_named or is_installed(path) or is_beside(path, known, invoked.runs)

    checkers = {tool for tool in CHECKERS if tool not in DOCUMENTERS and invoked.runs(tool)}
    programs = programs_run(invoked.texts) | checkers
    found: dict[str, str] = {}
    for part in parts:
        if _may_edit(part, rules):
            continue
        is_gate = part.path in in_place
        is_gate |= any(_is_protected(path, subpath, rules) or is_of_a_tool(path) for path in part.paths)
        if not is_gate and trees.mirror is None and all(map(is_build_file, part.paths)):
            is_gate = not _is_tests_own(part, is_test) and _may_lead_elsewhere(part, commands)
        elif not is_gate and not _is_tests_own(part, is_test):
            is_gate = await _is_of_gate(part, invoked, trees, programs)
        if is_gate:
            found[part.path] = in_place.get(part.path, "")
            continue
        for name in (one for path in part.paths if not is_test(path) for one in by_links.get(path, ())):
            if await _is_of_gate(replace(part, path=name, old_path=None, status="M"), invoked, trees, programs):
                found[part.path] = f"{name} is a link to it"
                break
    return found


async def _targets(changed: Collection[str], base: Sequence[str], trees: Trees) -> Uses:
    """What a test of any file of CMake's may run, on either side; files that are included under other names, too."""
    texts = await trees.texts([path for path in base if is_of_cmake(path)])
    texts += [await trees.text(path, after=True) or "" for path in sorted(changed) if is_of_cmake(path)]
    names = {name for text in texts for name in included(text or "") if not name.endswith(".cmake")}
    if any("$" in name for name in names):
        return ANY_TARGET
    others = [path for path in base if posixpath.basename(path) in names and not is_of_cmake(path)]
    return uses_of([*texts, *await trees.texts(others)])


def _may_have_settings(path: str) -> bool:
    return holds_settings(path) or bool(checkers_of(path)) or settings_like(path, CHECKERS)


def _is_tests_own(part: FilePatch, is_test: Callable[[str], bool]) -> bool:
    """A build file among the tests is judged as they are: with what the base has in its place, too."""
    return all(is_build_file(path) and is_test(path) and not is_gate_file(path) for path in part.paths)


def _may_lead_elsewhere(part: FilePatch, commands: Sequence[str]) -> bool:
    """Of a build file that nobody can read: the commands have to name what may read it, or whatever runs other
    programs; and more than versions has to be edited."""
    words = programs_in(commands)
    runs = Invoked(words=words if words.isdisjoint(LEADS_ON) else None).runs
    removed, added = ([_VERSION.sub("v0", line) for line in part.lines(sign)] for sign in (b"-", b"+"))
    is_bump = part.status == "M" and bool(added) and removed == added
    return not is_bump and any(is_read(path, runs) for path in part.paths)


async def _is_of_gate(part: FilePatch, invoked: Invoked, trees: Trees, programs: Collection[str]) -> bool:
    """`programs`: those that run, and have settings."""
    names = {posixpath.basename(path) for path in part.paths}
    is_run = not invoked.scripts.isdisjoint(part.paths)
    if not names.isdisjoint(MAKEFILES):
        return is_run and (part.status != "M" or await trees.has_other_settings(part, invoked))
    if part.status != "M" and not names.isdisjoint(PYTEST_INI):
        return True
    if any(map(holds_settings, part.paths)):
        return await trees.has_other_settings(part, invoked)
    checkers = [tool for path in part.paths for tool in checkers_of(path)]
    if checkers and all(checkers_of(path) for path in part.paths):
        return is_run or any(map(invoked.runs, checkers))
    if is_run or any(map(is_gate_file, part.paths)):
        return True
    if any(not is_test_file(path) and settings_like(path, programs) for path in part.paths):
        return True
    if any(found and found[1] in programs_in(invoked.texts) for found in map(_DJANGOS.fullmatch, part.paths)):
        return True
    return any(_is_beside(path, invoked.places) and may_be_settings(path, invoked.runs) for path in part.paths)


def _is_beside(path: str, places: Collection[str] | None) -> bool:
    """Does it lie where programs run that may look for it?"""
    folder = posixpath.dirname(path)
    return places is None or not folder or folder.removesuffix(".config").rstrip("/") in places


async def _with_what_tests_run(invoked: Invoked, base: Sequence[str], trees: Trees) -> Invoked:
    """A checker may be run by a test, or by a plugin of pytest that settings ask for."""
    unnamed = [tool for tool in CHECKERS if not invoked.runs(tool)]
    lines = await trees.lines_with(unnamed)
    if invoked.words is None or lines is None:
        return replace(invoked, words=None)
    told = [text.partition("#")[0] for path, text in lines if is_test_file(path)]
    for path in base:
        if posixpath.basename(path) in PYTEST_SETTINGS:
            told += addopts_in(await trees.text(path) or "")
    return replace(invoked, words=invoked.words | programs_in(told))


def _is_protected(path: str, subpath: str, rules: GateRules) -> bool:
    reports = [posixpath.normpath(posixpath.join(subpath, rules.junit))] if rules.junit else []
    return any(match(pattern, path) for pattern in (*rules.protect, *reports))


def needs_its_settings(edited: Sequence[str], rules: GateRules, failing: Sequence[str] = ()) -> GateObjection:
    """The change passes with its own `edited` files alone."""
    such_as = f", such as {failing[0]}" if failing else ""
    message = (
        f"the change edits {listed(edited)}, which programs of the gate may obey, and is not accepted with what the "
        f"base has in that place{such_as}"
    )
    hint = _may_edit_hint("if the product needs it", edited, rules)
    return GateObjection.of("gate_edited", message, hint, edited)


def _edited(found: Mapping[str, str], rules: GateRules) -> list[GateObjection]:
    """`found`: paths, some with a word that says why."""
    if not found:
        return []
    paths = sorted(found)
    told = [f"{path} ({why})" if (why := found[path]) else path for path in paths]
    message = f"the change edits the gate itself: {listed(told)}"
    hint = _may_edit_hint("if the goal is to change it", paths, rules)
    return [GateObjection.of("gate_edited", message, hint, paths)]


def _may_edit_hint(when: str, paths: Sequence[str], rules: GateRules) -> str:
    if len(paths) > MAX_HINTED:
        return f"{when}, name it in the gate's may_edit"
    allowed = ", ".join(f'"{path}"' for path in dict.fromkeys((*rules.may_edit, *paths)))
    return f"{when}: --gate-rule {in_quotes(f'may_edit=[{allowed}]')} (batch: may_edit = [{allowed}])"


def _reached(lines: Sequence[str], rules: GateRules) -> list[GateObjection]:
    if not lines:
        return []
    message = f"code under test reaches for its runner: {lines[0]}"
    files = list(dict.fromkeys(line.partition(":")[0] for line in lines))
    hint = _may_edit_hint("look at these lines; if they are meant", files, rules)
    return [GateObjection.of("runner_reached", message, hint, lines)]


def _unread(paths: Sequence[str], why: str, rules: GateRules) -> list[GateObjection]:
    if not paths:
        return []
    hint = _may_edit_hint("look at these files; if they are meant", paths, rules)
    return [GateObjection.of("runner_reached", f"{why}: {listed(paths)}", hint, paths)]


def _as_change(part: FilePatch) -> TestFileChange:
    return TestFileChange(
        path=part.path, status=part.status, added=len(part.lines(b"+")), removed=len(part.lines(b"-"))
    )
