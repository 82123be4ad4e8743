"""Tests of the base that a change's run has no more: which of them a person's grants let go, and what to grant else."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from envelope.gate import GateRules
from envelope.pattern import match

from .diff import FilePatch
from .names import TEST_FILES, TEST_FOLDERS, in_quotes, is_test_file
from .text import listed
from .trees import Trees

MAX_PATHS = 4  # of a hint; of more, the patterns that they have in common
MAX_NOTED = 10  # of a note: what a person has allowed is looked at by its names
# Runners that name a test's file, as a module or a class, write source in these.
NAMED_FILES = (".py", ".java", ".kt", ".scala", ".groovy")
_DEFINES = re.compile(
    r"^\s*(?:(?:async )?def test|(?:it|test|specify|scenario)\b.*[(\"']|func Test|@Test\b|#\[(?:\w+::)?test"
    r"|TEST(?:_\w+)?\()"
)
_SETS_ASIDE = re.compile(r"skip|xfail|expectedFailure|todo|ignore|disabled|pending", re.IGNORECASE)
_WANTED = re.compile(r"\bimportorskip\(\s*[\"']([\w.]+)")
STANDS_STILL = "their files are as they were: look for what keeps the tests from being run"


@dataclass(frozen=True, slots=True)
class NumbersLost:
    """In one command, by the word of one runner (`said`: both, for a sentence): more than all numbers together tell."""

    said: str
    ran: int
    ran_before: int
    more_skipped: int

    @property
    def fewer(self) -> int:
        return max(0, self.ran_before - self.ran)


@dataclass(frozen=True, slots=True)
class LostTests:
    """`gone`: functions of which no case is left. `cases`: how many fewer run of each function, those among them.
    `skipped`: cases. Commands whose tests have no names have numbers alone; unless all have names, `is_named` is False.
    `numbers`: those that another account, or another command, must not make up for."""

    gone: tuple[str, ...] = ()
    cases: Mapping[str, int] = field(default_factory=dict[str, int])
    skipped: tuple[str, ...] = ()
    fewer: int = 0
    more_skipped: int = 0
    is_named: bool = False
    numbers: tuple[NumbersLost, ...] = ()

    @property
    def functions(self) -> list[str]:
        return sorted({*self.gone, *self.cases, *map(function_of, self.skipped)})


@dataclass(frozen=True, slots=True)
class Lifted:
    """Functions that may be missing (`any_number`: where nobody knows names), said in `notes`; a hint for the rest."""

    names: frozenset[str] = frozenset()
    any_number: bool = False
    hint: str = ""
    notes: tuple[str, ...] = ()

    def count_of(self, lost: LostTests) -> int:
        """How many fewer tests than before may run."""
        if not lost.is_named and self.any_number:
            return max(0, lost.fewer)
        return sum(count for name, count in lost.cases.items() if name in self.names)


NOTHING_LIFTED = Lifted()


def function_of(name: str) -> str:
    """Without its parameters, which change with the code."""
    return name.partition("[")[0]


@dataclass(frozen=True, slots=True)
class Grants:
    """Whose tests may be edited: `named` are patterns of grants that name tests, `parts` the change's files of tests.

    `frees_gate`: a file of the gate is edited, and may be; then it may decide what is collected. `gone`: files that the
    change removes.
    """

    named: tuple[str, ...] = ()
    parts: tuple[FilePatch, ...] = ()
    frees_gate: bool = False
    gone: frozenset[str] = frozenset()

    def cover(self, *paths: str) -> bool:
        return all(path in self.named or any(match(pattern, path) for pattern in self.named) for path in paths)

    @property
    def granted(self) -> list[FilePatch]:
        return [part for part in self.parts if self.cover(*part.paths)]

    @property
    def changed(self) -> set[str]:
        return {path for part in self.parts for path in part.paths}

    @property
    def wanting(self) -> set[str]:
        return {path for path in self.changed if not self.cover(path)}


async def lifted_by(grants: Grants, lost: LostTests, trees: Trees, *, subpath: str, rules: GateRules) -> Lifted:
    """Which of the tests that are `lost` a person has let go.

    A test that has a file is let go with that file's grant: what follows from the file is the person's decision. It is
    not where that file is as it was and still has the test: then something else keeps it from being run.
    """
    fewer = max(0 if lost.is_named else lost.fewer, *(one.fewer for one in lost.numbers), 0)
    more_skipped = max(0 if lost.is_named else lost.more_skipped, *(one.more_skipped for one in lost.numbers), 0)
    if not (lost.functions or fewer or more_skipped):
        return NOTHING_LIFTED
    paths = {*await trees.paths(), *grants.changed}
    suite = [path for path in paths if is_test_file(path, rules.tests) and not _is_plumbing(path)]
    has_all = bool(grants.granted) and grants.cover(*suite)
    names, wanting, notes, is_free = set[str](), grants.wanting, list[str](), False
    if fewer or more_skipped:
        tests, marks = (_lines_more(grants, pattern) for pattern in (_DEFINES, _SETS_ASIDE))
        accounted = max(0, -tests) + max(0, marks)
        is_free = bool(grants.granted) and (has_all or max(fewer, more_skipped) <= accounted)
        is_free = is_free and (more_skipped <= 0 or marks > 0)  # code under test can skip as well
        wanting = wanting or {path for path in suite if not grants.cover(path)}
        notes += _notes_of_numbers(fewer, more_skipped) if is_free else ()
    files, going = Files(paths, subpath), _Going(grants, lost, trees, has_all=has_all)
    for function in lost.functions:
        owners = files.of(function)
        wanting |= {path for path in owners if not grants.cover(path)}
        if await going.may_go(function, owners):
            names.add(function)
    hint = grant_hint(wanting, rules) if wanting else STANDS_STILL if lost.is_named else ""
    return Lifted(frozenset(names), any_number=is_free, hint=hint, notes=(*notes, *_notes_of(lost, names)))


@dataclass(slots=True)
class _Going:
    """Decides for each test; reads each file once."""

    grants: Grants
    lost: LostTests
    trees: Trees
    has_all: bool
    texts: dict[str, str] = field(default_factory=dict[str, str])

    async def may_go(self, function: str, owners: Sequence[str]) -> bool:
        leaf, grants = re.split(r"::|\.", function)[-1], self.grants
        is_skipped = function in map(function_of, self.lost.skipped)
        if not owners:  # no runner says where it stood
            return self.has_all or any([await self._mentions(part, leaf) for part in grants.granted])
        if not grants.cover(*owners):
            return False
        if is_skipped:  # by the file itself, and not by the code under test
            parts = [part for part in grants.parts if not set(part.paths).isdisjoint(owners)]
            return any(_SETS_ASIDE.search(line) for part in parts for line in part.lines(b"+"))
        if not grants.changed.isdisjoint(owners) or function not in self.lost.gone or grants.frees_gate:
            return True
        return not any([await self._still_has(path, leaf) for path in owners])

    async def _still_has(self, path: str, leaf: str) -> bool:
        """Does the file, which is as it was, have the test? Then not if it is left out for want of what is removed."""
        text = await self._text(path)
        wanted = [name.replace(".", "/") for name in _WANTED.findall(text)]
        stems = [posixpath.splitext(path)[0].removesuffix("/__init__") for path in self.grants.gone]
        is_left_out = any(_ends_in(f"{stem}.py", name) for stem in stems for name in wanted)
        return not is_left_out and re.search(rf"\bdef {re.escape(leaf)}\b", text) is not None

    async def _mentions(self, part: FilePatch, leaf: str) -> bool:
        """By its name, or by the end of a title: runners put the titles of groups before it."""
        text = await self._text(part.old_path or part.path) if part.status != "A" else ""
        text = text or "\n".join(part.lines(b"-"))
        words = leaf.split(" ")
        titles = [" ".join(words[start:]) for start in range(len(words))]
        if any(f"{quote}{title}{quote}" in text for title in titles for quote in "'\"`"):
            return True
        return leaf.isidentifier() and re.search(rf"\b{leaf}\b", text) is not None

    async def _text(self, path: str) -> str:
        if path not in self.texts:
            self.texts[path] = await self.trees.text(path) or ""
        return self.texts[path]


def _lines_more(grants: Grants, pattern: re.Pattern[str]) -> int:
    """A line that is only edited is no fewer and no more."""
    added, removed = (
        sum(bool(pattern.search(line)) for part in grants.granted for line in part.lines(sign)) for sign in (b"+", b"-")
    )
    return added - removed


def _notes_of(lost: LostTests, names: Collection[str]) -> Iterator[str]:
    gone = [name for name in lost.gone if name in names]
    skipped = [name for name in lost.skipped if function_of(name) in names]
    aside = {*gone, *map(function_of, skipped)}
    fewer = [f"{name} ({count} fewer)" for name, count in lost.cases.items() if name in names and name not in aside]
    kinds = (("are gone", gone), ("are newly skipped", skipped), ("have fewer cases", fewer))
    for what, among in kinds:
        if among:
            yield f"tests of the base {what}, which a grant allows: {listed(among, MAX_NOTED)}"


def _notes_of_numbers(fewer: int, more_skipped: int) -> tuple[str, ...]:
    kinds = (("fewer tests run", fewer), ("more tests are skipped", more_skipped))
    told = [f"{count} {what} than on the base" for what, count in kinds if count > 0]
    return (f"{' and '.join(told)}, which a grant allows; the runner tells no names",)


@dataclass(frozen=True, slots=True)
class Files:
    """The files that runners mean by what they write before a test's name: `tests.test_a.TestIt::test_one`."""

    paths: Iterable[str]
    subpath: str
    _by_stem: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def __post_init__(self) -> None:
        for path in self.paths:
            stem, suffix = posixpath.splitext(path)
            if suffix in NAMED_FILES:
                self._by_stem.setdefault(posixpath.basename(stem), []).append(path)

    def of(self, name: str) -> list[str]:
        """Several where it may be any of them; none where the name says nothing."""
        segments = name.partition("::")[0].split(".") if "::" in name else []
        for count in range(len(segments), 0, -1):
            stem = "/".join(segments[:count])
            found = [path for path in self._by_stem.get(segments[count - 1], ()) if _ends_in(path, stem)]
            place = posixpath.join(self.subpath, stem)
            if self.subpath and (exact := [path for path in found if posixpath.splitext(path)[0] == place]):
                return exact
            if found:
                return sorted(found)
        return []


def _ends_in(path: str, stem: str) -> bool:
    return f"/{posixpath.splitext(path)[0]}".endswith(f"/{stem}")


def _is_plumbing(path: str) -> bool:
    """No tests of its own stand in it."""
    name = posixpath.basename(path)
    return name in ("__init__.py", "conftest.py") or posixpath.splitext(name)[1] not in (*NAMED_FILES, *CODE)


CODE = (".go", ".rs", ".rb", ".php", ".exs", ".cc", ".cpp", ".cs", ".swift", ".bats", ".js", ".jsx", ".ts", ".tsx",
        ".mjs", ".cjs", ".mts", ".cts")  # fmt: skip


def grant_hint(paths: Iterable[str], rules: GateRules) -> str:
    """The words to write for edits of these files to be granted by name."""
    patterns = _patterns(sorted(paths))
    more = [pattern for pattern in patterns if not is_test_file(pattern, rules.tests)]
    quoted = [", ".join(f'"{pattern}"' for pattern in some) for some in (patterns, [*rules.tests, *more])]
    words = " ".join(f"--allow {in_quotes(f'edit:{pattern}')}" for pattern in patterns)
    rule = in_quotes(f"tests=[{quoted[1]}]")
    as_tests = (f" --gate-rule {rule}", f", tests = [{quoted[1]}]") if more else ("", "")
    return (
        f"if the goal asks for it, grant it by name: {words}{as_tests[0]} "
        f"(batch: also_edit = [{quoted[0]}]{as_tests[1]})"
    )


def _patterns(paths: Sequence[str]) -> list[str]:
    return list(paths) if len(paths) <= MAX_PATHS else list(dict.fromkeys(map(_pattern, paths)))


def _pattern(path: str) -> str:
    """The folder of tests that it is in, or else the kind of name that it has."""
    *folders, name = path.split("/")
    depth = next((number for number, folder in enumerate(folders, 1) if folder in TEST_FOLDERS), 0)
    if depth:
        return "/".join((*folders[:depth], "**"))
    kinds = (kind for kind in TEST_FILES if "[" not in kind and match(kind, name))
    return next(kinds, path)
