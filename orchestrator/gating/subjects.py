"""Tests that a change removes together with their subjects, found in Python's sources. Pure.

Hostile source may take all time and memory: `obsolete_tests.py` runs this file in a process of its own.
Only what can be told without doubt is told; a test about which there is any is not among the answers.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from repo.bounds import answer_once

MAX_CPU_S = 10
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
FIXTURES = frozenset(
    (
        *("self", "cls", "request", "tmp_path", "tmp_path_factory", "tmpdir", "monkeypatch", "capsys", "capfd"),
        *("caplog", "capsysbinary", "capfdbinary", "recwarn", "pytestconfig", "doctest_namespace", "record_property"),
        "testdir",
    )
)
# Whoever uses them may mean any name.
DYNAMIC = frozenset(
    (
        *("exec", "eval", "getattr", "setattr", "globals", "locals", "vars", "__dict__", "__import__"),
        *("import_module", "importorskip", "modules"),
    )
)
# What names begin with that somebody uses without a word: settings of a module, and what runs around its tests.
UNSAID = ("pytest", "collect", "__", "setup", "teardown", "setUp", "tearDown", "load_tests", "addCleanup")


class Unclear(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Product:
    """What the changed files of the product define: `gone` on the base alone, `left` after the change. Of `classes` the
    members that are gone. `modules` are all of the product's; a module with another name of the repository's is one of
    which nobody knows what it is."""

    gone: frozenset[str]
    left: frozenset[str]
    classes: Mapping[str, frozenset[str]]
    modules: frozenset[str]
    names: frozenset[str]


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """By file the tests that go with their subjects, and those subjects' names, none of which the product may have any
    more. A file is left out unless it is as before but for what goes with them."""
    before, after = _definitions(asked["product"], 0), _definitions(asked["product"], 1)
    if before is None or after is None or not after.keys() <= before.keys():
        return {}  # something new might be the old thing under another name
    gone = frozenset(before.keys() - after.keys())
    classes = {name: frozenset(members & gone) for name, members in before.items()}
    modules, names = frozenset(asked["modules"]), frozenset(asked["names"])
    product = Product(gone, frozenset(after), classes, modules, names)
    found: dict[str, Any] = {}
    for path, (old, new) in asked["tests"].items():
        try:
            file = _File(ast.parse(old), None if new is None else ast.parse(new), product)
            file.compare()
        except (Unclear, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if file.removed:
            found[path] = {"tests": sorted(file.removed), "subjects": sorted(file.subjects)}
    return found


def _definitions(files: Mapping[str, list[str | None]], side: int) -> dict[str, set[str]] | None:
    """What others may use, with the members of classes; None where it cannot be told."""
    found: dict[str, set[str]] = {}
    for sides in files.values():
        try:
            tree = ast.parse(sides[side] or "")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        if any(isinstance(node, Function) and node.name == "__getattr__" for node in tree.body):
            return None
        for node in _outside_of_functions(tree):
            for name in _bound(node):
                found.setdefault(name, set())
            if isinstance(node, ast.ClassDef):
                found[node.name] |= {name for inner in node.body for name in _bound(inner)}
        for node in ast.walk(tree):  # `self.x = …`, and functions in functions
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.setdefault(node.attr, set())
            elif isinstance(node, Definition):
                found.setdefault(node.name, set())
    return found


def _outside_of_functions(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, Function | ast.Lambda):
            yield from _outside_of_functions(node)


def _bound(node: ast.AST) -> Iterator[str]:
    """Names that a statement gives to something of its own."""
    if isinstance(node, Definition):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for inner in (inner for target in targets for inner in ast.walk(target)):
            if isinstance(inner, ast.Name):
                yield inner.id
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname for alias in node.names if alias.asname)


@dataclass(slots=True)
class _File:
    """A file of tests before and after (None: it is gone). `removed`: the tests that may go, and their `subjects`."""

    old: ast.Module
    new: ast.Module | None
    product: Product
    removed: set[str] = field(default_factory=set[str])
    subjects: set[str] = field(default_factory=set[str])
    top: dict[str, ast.stmt] = field(default_factory=dict[str, ast.stmt])
    imported: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    used: set[str] = field(default_factory=set[str])
    words: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        for node in self.old.body:
            for name in _bound(node):
                self.top[name] = node
        for node in ast.walk(self.old):
            if isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                self.imported |= {alias.asname or alias.name: (module, alias.name) for alias in node.names}
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    self.imported[alias.asname or whole] = (whole, "")
        self.used = set(_words(self.old))
        self.words = set(_words(self.new)) if self.new else set()

    def compare(self) -> None:
        if "*" in self.imported:
            raise Unclear
        self._compare(self.old.body, self.new.body if self.new else [], None)

    def _compare(self, old: list[ast.stmt], new: list[ast.stmt], inside: ast.ClassDef | None) -> None:
        """All of `new` stands in `old`, in its order; what else was there may go. `Unclear` if not."""
        rest = list(new)
        for node in old:
            other = rest[0] if rest else None
            if other is not None and ast.dump(node) == ast.dump(other):
                rest.pop(0)
            elif isinstance(node, ast.ClassDef) and isinstance(other, ast.ClassDef) and _head(node) == _head(other):
                rest.pop(0)
                self._compare(node.body, other.body, node)
            elif (dropped := _dropped(node, other)) is not None:
                rest.pop(0)
                self._lets_go(dropped)
            else:
                self._remove(node, inside)
        if rest:
            raise Unclear

    def _remove(self, node: ast.stmt, inside: ast.ClassDef | None) -> None:
        if isinstance(node, ast.ClassDef) and _is_test_class(node):
            if node.name in self.words or any(isinstance(inner, ast.ClassDef) for inner in node.body):
                raise Unclear
            for inner in node.body:
                if _is_test(inner):
                    self._remove(inner, node)
        elif isinstance(node, Function) and _is_test(node):
            self.subjects |= self._subjects(node, inside)
            self.removed.add(f"{inside.name}.{node.name}" if inside else node.name)
        elif self.new is None:  # and with it what was there for these tests
            if any(_is_test(inner) or getattr(inner, "bases", ()) for inner in ast.walk(node)):
                raise Unclear
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._lets_go([alias.asname or alias.name.partition(".")[0] for alias in node.names])
        elif isinstance(node, Definition | ast.Assign):
            if any(_acts_by_itself(mark) for mark in getattr(node, "decorator_list", ())):
                raise Unclear
            self._lets_go(list(_bound(node)))
        else:
            raise Unclear

    def _lets_go(self, names: Iterable[str]) -> None:
        """What somebody used, and nobody uses any more."""
        for name in names:
            if name in self.words or name not in self.used or name.startswith(UNSAID):
                raise Unclear

    def _subjects(self, test: Function, inside: ast.ClassDef | None) -> set[str]:
        """What of the product the test is about, all of which is gone. `Unclear` where something is left."""
        symbols: set[str] = set()
        for node in self._closure(test, inside):
            if (node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")) in DYNAMIC:
                raise Unclear
            symbols |= set(self._symbols(node))
        gone = symbols & self.product.gone
        around = {name for name in symbols - gone if self.product.classes.get(name, frozenset[str]()) & gone}
        if not gone or symbols - gone - around:
            raise Unclear
        return gone

    def _symbols(self, node: ast.AST) -> Iterator[str]:
        """Of the product: imported names, attributes of its modules, and whatever is called like a part of it."""
        if isinstance(node, ast.Name) and node.id in self.imported:
            module, name = self.imported[node.id]
            if self._module(node):
                yield f"module {node.id}"  # unless an attribute of it is asked for, which is looked at first
            elif module in self.product.modules:
                yield name
            elif module.startswith(".") or module.partition(".")[0] in self.product.names:
                raise Unclear
        elif isinstance(node, ast.Attribute) and (node.attr in self.product.gone or node.attr in self.product.left):
            yield node.attr

    def _closure(self, test: Function, inside: ast.ClassDef | None) -> Iterator[ast.AST]:
        """The nodes of the test, and of what it uses in its file; a module's name only where it stands for itself."""
        waiting: list[ast.AST] = [test]
        if inside is not None:
            waiting += [one for one in inside.body if not _is_test(one)]
            waiting += [*inside.decorator_list, *inside.bases]
        seen: set[int] = set()
        while waiting:
            root = waiting.pop()
            if id(root) in seen:
                continue
            seen.add(id(root))
            if isinstance(root, Function):
                waiting += self._fixtures(root)
            attributes = [node for node in ast.walk(root) if isinstance(node, ast.Attribute)]
            parts = {id(node.value) for node in attributes if self._module(node.value)}
            for node in ast.walk(root):
                if id(node) in parts:
                    continue
                yield self._as_imported(node)
                if isinstance(node, ast.Name) and node.id in self.top and self.top[node.id] is not root:
                    waiting.append(self.top[node.id])

    def _as_imported(self, node: ast.AST) -> ast.AST:
        """`calc.core.mean` as if `from calc.core import mean` stood in the file."""
        if not isinstance(node, ast.Attribute) or self._module(node) or not (module := self._module(node.value)):
            return node
        alias = f"{module}:{node.attr}"
        self.imported[alias] = (module, node.attr)
        return ast.Name(alias, ast.Load())

    def _module(self, node: ast.AST) -> str | None:
        """The module of the product that an expression such as `calc.core` is."""
        if isinstance(node, ast.Name) and node.id in self.imported:
            module, name = self.imported[node.id]
            whole = f"{module}.{name}" if name else module
            return whole if whole in self.product.modules else None
        if isinstance(node, ast.Attribute) and (module := self._module(node.value)):
            return f"{module}.{node.attr}" if f"{module}.{node.attr}" in self.product.modules else None
        return None

    def _fixtures(self, function: Function) -> Iterator[ast.AST]:
        marks = {text for mark in function.decorator_list for text in _texts(mark)}
        given = {name.strip() for text in marks for name in text.split(",")}
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
            if argument.arg in self.top:
                yield self.top[argument.arg]
            elif _is_fixture_or_test(function) and argument.arg not in given | FIXTURES:
                raise Unclear


def _texts(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def _words(tree: ast.AST) -> Iterator[str]:
    """Every name that is used, and every text that might be one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _is_fixture_or_test(function: Function) -> bool:
    return function.name.startswith("test") or bool(function.decorator_list)


def _is_test_class(node: ast.ClassDef) -> bool:
    return any(map(_is_test, node.body))


def _is_test(node: ast.AST) -> bool:
    return isinstance(node, Function) and node.name.startswith("test")


def _head(node: ast.ClassDef) -> list[str]:
    return [node.name, *map(ast.dump, (*node.bases, *node.keywords, *node.decorator_list))]


def _dropped(one: ast.stmt, other: ast.stmt | None) -> set[str] | None:
    """The names that an import brings no more; None where the other is not the same with less."""
    if not isinstance(one, ast.ImportFrom) or not isinstance(other, ast.ImportFrom):
        return None
    is_same = (one.module, one.level) == (other.module, other.level) and one.module != "__future__"
    if not is_same or not set(map(ast.dump, other.names)) < set(map(ast.dump, one.names)):
        return None
    return {alias.asname or alias.name for alias in one.names} - {alias.asname or alias.name for alias in other.names}


def _acts_by_itself(mark: ast.expr) -> bool:
    """A fixture that nobody has to name, or a decorator that may do anything."""
    text = ast.unparse(mark)
    return not text.startswith(("pytest.fixture", "fixture")) or "autouse" in text


def main() -> None:
    answer_once(lambda asked: json.dumps(answer(json.loads(asked))).encode(), MAX_CPU_S)


if __name__ == "__main__":
    main()
