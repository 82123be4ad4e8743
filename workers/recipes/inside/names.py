"""Names and values of the tests' files. Executed in the digest's namespace, behind `code.py`."""

# Objects of any kind are looked at, in any Python from 3.8 on, and what is imported here every process pays for.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import ast
import builtins
import os
import re
import sys
import types
from operator import is_
from typing import Any, Iterator

TYPE_CHECKING = False  # both stand in the namespace already
if TYPE_CHECKING:
    from .code import (
        MAX_HELD,
        bases_of,
        bytes_of,
        contents,
        fields,
        fields_of_class,
        functions_in,
        held,
        home_of,
        is_a,
        is_code,
        members,
        scalar,
    )  # fmt: skip

IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) )?import (.+)", re.MULTILINE)
MAX_EACH_BYTES = 16 * 1024  # of a value that is looked at before each test; longer ones when the session ends


class Names:
    """Names of one test file that others may not give another meaning: what it imports from elsewhere, its values."""

    def __init__(self, module: Any, path_of: Any) -> None:
        """`path_of`: a file as seen from the project, or nothing."""
        self._module, self._home = module, fields(module).get("__name__")
        with open(fields(module)["__file__"], "rb") as file:
            source = file.read()
        tree = ast.parse(source)
        self._defined: list[str] = []
        self._imported: dict[str, tuple[str, str]] = {}
        self._plain: dict[str, bytes] = {}
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._defined.append(node.name)
            elif isinstance(node, ast.Import):
                for one in node.names:
                    module_name = one.name if one.asname else one.name.partition(".")[0]
                    if module_name in sys.modules and not path_of(fields(sys.modules[module_name]).get("__file__")):
                        self._imported[one.asname or module_name] = module_name, ""
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                home = sys.modules.get(node.module)
                if home is not None and not path_of(fields(home).get("__file__")):
                    self._imported.update((one.asname or one.name, (node.module, one.name)) for one in node.names)
            elif isinstance(node, ast.ClassDef):
                self._plain.update((node.name + "." + name, value) for name, value in _literals(node.body))
            else:
                self._plain.update(_literals([node]))
        self.used = {name for name in _used(source) if not path_of(fields(sys.modules[name]).get("__file__"))}
        self._stored = _stored(tree)
        imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        self._folder = os.path.dirname(fields(module)["__file__"])
        named = [one.name for node in imports if isinstance(node, ast.Import) for one in node.names]
        named += [node.module or "" for node in imports if isinstance(node, ast.ImportFrom) and not node.level]
        tops = {name.partition(".")[0] for name in named}
        places = ("/%s.py", "/%s/__init__.py")
        self._beside = [top for top in tops if any(os.path.exists(self._folder + place % top) for place in places)]
        self._brought = {one.asname or one.name for node in imports for one in node.names}
        for names in re.findall(rb"^\s+global ([\w, ]+)", source, re.MULTILINE):
            self._stored.update({name.strip().decode(): 2 for name in names.split(b",")})
        for name in [name for name, count in self._stored.items() if count > 1]:
            self._plain.pop(name, None)
            self._imported.pop(name, None)
        self._defined = [name for name in self._defined if self._stored[name] == 1]
        self._free = {name for name in vars(builtins) if name not in self._stored and name[:2] != "__"}
        self._parameters = _parameters(tree)
        self._in_classes = {node.name: set(_stored(node)) for node in tree.body if isinstance(node, ast.ClassDef)}
        self._classes: list[type] = []
        self._inner: list[object] = []  # what can become another while it stays the same object
        self._holders: list[object] = []  # what holds others, each of which can be replaced
        self._first = dict(self._all())
        self._seen: Any = None

    def changed(self, *, at_last: bool = False) -> Iterator[str]:
        """Since it was asked before; `at_last` whatever was known."""
        homes = [list(fields(self._module).values())]
        homes += [[*fields_of_class(cls).values(), bases_of(cls), type(cls)] for cls in self._classes]
        homes += [list((held(one, self._home) or {}).values()) for one in self._holders]
        inner = [bytes_of(value) for value in self._inner]
        if at_last or self._seen is None or inner != self._seen[1] or not all(map(_are_same, homes, self._seen[0])):
            self._seen = homes, inner
            yield from self._changed()

    def _changed(self) -> Iterator[str]:
        now = fields(self._module)
        for name, (home, there) in self._imported.items():
            module = sys.modules.get(home)
            if name in now and module is not None:
                value = fields(module).get(there, now[name]) if there else module
                if now[name] is not value:
                    yield name
        for name, value in self._plain.items():
            outer, dot, inner = name.partition(".")
            if not dot and outer in now and bytes_of(now[outer]) != value:
                yield name
            # another kind of class may make another thing of a value
            there = fields_of_class(now[outer]) if dot and type(now.get(outer)) is type else {}
            if inner in there and bytes_of(there[inner]) != value:
                yield name
        for name, place, value in self._parameters:
            marks = _marks(now, place)
            if marks and all(bytes_of(fields(mark).get("args")) != value for mark in marks):
                yield "the parameters of " + name
        every = dict(self._all())
        yield from (name for name, value in self._first.items() if every.get(name) != value)
        for name in self._defined:
            if name in now and all(one.__code__.co_name != name for one in functions_in(now[name])):
                yield name
        file = now["__file__"]
        mine = [
            one for _, value in members(self._module) for one in functions_in(value) if one.__code__.co_filename == file
        ]
        for known in [now.get("__builtins__"), *(getattr(one, "__builtins__", None) for one in mine)]:
            if known not in (None, builtins) and known is not vars(builtins):
                yield "what is built in"
        yield from (name + " is another than the one beside it" for name in self._beside if self._is_elsewhere(name))
        # what comes between the file and Python's own names
        yield from self._free & now.keys()

    def _is_elsewhere(self, name: str) -> bool:
        folder = os.path.dirname(str(fields(sys.modules.get(name)).get("__file__")))
        return name in sys.modules and folder not in (self._folder, self._folder + "/" + name)

    def _all(self) -> Iterator[tuple[str, object]]:
        """What the file's own statements make, in classes, too: code by identity, plain values by what they are."""
        own = fields(self._module)
        self._classes, self._inner, self._holders = [], [], []
        homes: list[tuple[str, Any, Any]] = [("", own, self._stored)]
        for key, value in list(own.items()):
            if key in self._in_classes and is_a(value, type) and home_of(value) == self._home:
                yield "the bases of " + key, Same(*bases_of(value), type(value))
                homes.append((key + ".", fields_of_class(value), self._in_classes[key]))
                self._classes.append(value)
        for prefix, home, stored in homes:
            for key in [key for key in stored if key in home]:
                # what an object of others' holds is theirs
                yield from self._told(prefix + key, home[key], 0 if not prefix and key in self._brought else 6)

    def _told(self, label: str, value: Any, depth: int = 6) -> Iterator[tuple[str, object]]:
        if is_code(value) or is_a(value, types.ModuleType):
            yield label, Same(value)
            for function in functions_in(value) if depth else ():
                if function.__code__.co_filename == fields(self._module)["__file__"]:
                    yield from self._of_function(label, function, depth)
            return
        said = self._bytes(value)
        inner = held(value, self._home) if said is None and depth and len(self._holders) < MAX_HELD else None
        if inner is None:
            yield label, Same(value) if said is None and depth else said
            return
        self._holders.append(value)
        yield label, (Same(type(value)), len(inner) if is_a(value, (list, tuple, dict, set)) else None)
        for key, one in inner.items():
            yield from self._told("%s.%s" % (label, key), one, depth - 1)

    def _of_function(self, label: str, function: Any, depth: int) -> Iterator[tuple[str, object]]:
        """What it keeps from call to call."""
        kept = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *contents(function)]
        for number, one in enumerate(kept):
            if not (is_code(one) or scalar(one) == repr(one)):
                yield from self._told("%s.%d" % (label, number), one, depth - 1)
        for key, one in list(vars(function).items()):
            if not (is_code(one) or key == "pytestmark" or key[:2] == "__"):
                yield from self._told("%s.%s" % (label, key), one, depth - 1)

    def _bytes(self, value: Any) -> bytes | None:
        said = bytes_of(value)
        if said is not None and len(said) <= MAX_EACH_BYTES:
            self._inner.append(value)
        return said


def _are_same(now: list[object], then: list[object]) -> bool:
    return len(now) == len(then) and all(map(is_, now, then))


class Same:
    """Equal to what holds the very same objects, whatever these say of it."""

    def __init__(self, *values: object) -> None:
        self.values = list(values)

    def __eq__(self, other: object) -> bool:
        return type(other) is Same and _are_same(self.values, other.values)

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def _used(source: bytes) -> Iterator[str]:
    """The modules that it imports, wherever in it: a walk through all its nodes would cost ten times as much."""
    for home, names in IMPORT.findall(source.decode("utf-8", "replace")):
        words = re.findall(r"[\w.]+", names.split("#")[0])
        found = [home, *(home + "." + word for word in words)] if home else words
        yield from (name for name in found if is_a(sys.modules.get(name), types.ModuleType))


def _literals(body: list[Any]) -> Iterator[tuple[str, bytes]]:
    """Names that statements give a plain value, each once."""
    found: dict[str, list[bytes | None]] = {}
    for node in body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(_literal(node.value))
    yield from ((name, values[0]) for name, values in found.items() if len(values) == 1 and values[0] is not None)


def _literal(*nodes: Any) -> bytes | None:
    """Sets may come in any order."""
    deep = [node for node in nodes if not isinstance(node, ast.Constant)]
    if any(isinstance(one, ast.Set) for node in deep for one in ast.walk(node)):
        return None
    try:
        values = [ast.literal_eval(node) for node in nodes]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return bytes_of(values[0] if len(values) == 1 else tuple(values))


def _parameters(tree: ast.Module) -> list[tuple[str, list[str], bytes]]:
    """Of tests whose parameters are plain in the file: a name to tell, where the test is, and the mark's arguments."""
    found: list[tuple[str, list[str], bytes]] = []
    outer: list[tuple[list[str], Any]] = [([], node) for node in tree.body]
    outer += [([node.name], one) for node in tree.body if isinstance(node, ast.ClassDef) for one in node.body]
    for place, node in outer:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for mark in node.decorator_list:
                called: Any = mark.func if isinstance(mark, ast.Call) else None
                if isinstance(mark, ast.Call) and getattr(called, "attr", "") == "parametrize" and len(mark.args) > 1:
                    value = _literal(*mark.args)
                    if value is not None:
                        found.append((node.name, [*place, node.name], value))
    return found


def _marks(home: Any, place: list[str]) -> list[Any]:
    """What pytest keeps in a test, which is a function or a method there."""
    if len(place) > 1:
        home = fields_of_class(home[place[0]]) if is_a(home.get(place[0]), type) else {}
    marks = fields(home.get(place[-1])).get("pytestmark")
    return marks if type(marks) is list else []


def _stored(tree: ast.Module | ast.ClassDef) -> dict[str, int]:
    """How often the file's own statements give a meaning to a name; those within functions and classes do not count."""
    found: dict[str, int] = {}
    waiting: list[Any] = list(tree.body)
    while waiting:
        node = waiting.pop()
        names: list[str] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [(one.asname or one.name).partition(".")[0] for one in node.names]
        elif isinstance(node, ast.Name):
            names = [] if isinstance(node.ctx, ast.Load) else [node.id]
        elif not isinstance(node, (ast.Expr, ast.Assert, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
        for name in names:
            found[name] = found.get(name, 0) + 1
    return found
