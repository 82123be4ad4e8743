"""What the tests' code, their helpers and their runner are when a session ends, told where the platform alone listens.

Loaded in pytest's and unittest's process before code under test is. What must not be found by name (the pipe, the key
of what is said, what the runner was at first) lives in the closure of an audit hook, which Python shows to nobody and
takes away from nobody; whoever runs the tests tells it what happens by an event of a name made for this process.
"""

# Objects of any kind are looked at, in any Python from 3.8 on, and what is imported here every process pays for.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import ast
import builtins
import functools
import os
import re
import sys
import types
from hashlib import blake2b
from json import dumps
from marshal import dumps as exact
from opcode import opmap
from operator import is_
from typing import Any, Iterable, Iterator

# Who says whether a test has failed: assertions, what they use, and runners. Modules below these, too.
RUNNERS = (
    *("builtins", "unittest", "pytest", "_pytest", "pluggy", "contextlib", "math", "operator", "re", "warnings"),
    "numpy.testing",
)
# Of these the code is compared with the base's: others may have come before this file did.
DIGESTED = (
    *("builtins", "contextlib", "math", "operator", "pluggy", "warnings", "_pytest.approx", "_pytest.assertion"),
    *("_pytest.doctest", "_pytest.fixtures"),
    *("_pytest.junitxml", "_pytest.main", "_pytest.outcomes", "_pytest.python", "_pytest.python_api", "_pytest.raises"),
    *("_pytest.recwarn", "_pytest.reports", "_pytest.runner", "_pytest.skipping", "_pytest.unittest", "unittest.case"),
    *("unittest.loader", "unittest.main", "unittest.result", "unittest.runner", "unittest.suite", "numpy.testing"),
)
# Made to be replaced, and without a say in what a test comes to.
HOOKS = frozenset(
    (
        *("builtins.input", "builtins.print", "warnings._showwarnmsg_impl", "warnings.formatwarning"),
        *("warnings.showwarning", "sys.excepthook", "sys.displayhook", "sys.unraisablehook", "sys.breakpointhook"),
        *("threading.excepthook", "logging._loggerClass", "logging._logRecordFactory", "logging.lastResort"),
        *("copy.dispatch_table", "copyreg.dispatch_table"),
    )
)
# Looked at before each test; all else when the session ends.
CRITICAL = (
    *("builtins", "math", "operator", "pytest", "unittest.case", "_pytest.approx", "_pytest.outcomes"),
    *("_pytest.python_api", "_pytest.raises", "_pytest.recwarn", "_pytest.runner"),
)
TRACERS = ("sys.settrace", "sys.setprofile", "sys.monitoring.register_callback")
SET_CODE = ("__code__", "__defaults__", "__kwdefaults__")
ASSERTION = opmap.get("LOAD_ASSERTION_ERROR")
IS_MADE = 1 << 9  # a class that somebody's code has made: of others nothing can be replaced
LINE_CHARS = 3000  # a pipe takes 4096 bytes at once or not at all
SCALARS = (int, float, complex, str, bytes, bool, type(None))
CHANGING = re.compile(r"0x[0-9a-f]+|\d{5,}|/tmp/[^\s'\"]*|/var/[^\s'\"]*")  # in code that is made anew


def short(value: object) -> str:
    return blake2b(repr(value).encode("utf-8", "backslashreplace"), digest_size=6).hexdigest()


class Code:
    """Digests of code, whatever line and file it stands in. Each code object is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[types.CodeType, str]] = {}

    def of(self, code: types.CodeType) -> str:
        known = self._known.get(id(code))
        if known is None:
            is_made = code.co_filename.startswith("<")
            counts = code.co_argcount, code.co_kwonlyargcount, code.co_flags
            consts = [self._constant(value, is_made) for value in code.co_consts]
            names = code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
            digest = blake2b(code.co_code, digest_size=6)
            digest.update(repr((counts, consts, names)).encode("utf-8", "backslashreplace"))
            known = self._known[id(code)] = code, digest.hexdigest()
        return known[1]

    def _constant(self, value: object, is_made: bool) -> object:
        kind = type(value)
        if kind is str:
            return CHANGING.sub("", str(value)) if is_made else value
        if isinstance(value, types.CodeType):
            return self.of(value)
        if isinstance(value, tuple):
            return [self._constant(one, is_made) for one in value]
        if isinstance(value, frozenset):
            return {"set": sorted(repr(one) for one in value)}
        return value  # a number, bytes and the like say themselves what they are

    def function(self, function: types.FunctionType, depth: int = 0) -> str:
        """With its defaults, as far as they are plain, and functions of the same file that it closes over."""
        given = [scalar(value) for value in function.__defaults__ or ()]
        named = sorted((name, scalar(value)) for name, value in (function.__kwdefaults__ or {}).items())
        inner = [
            self.function(one, depth + 1)
            for one in contents(function)
            if depth < 4 and type(one) is types.FunctionType and one is not function
            if one.__code__.co_filename == function.__code__.co_filename
        ]
        return short((self.of(function.__code__), given, named, inner))


def scalar(value: object) -> str:
    return repr(value) if type(value) in SCALARS else type(value).__name__


def contents(function: types.FunctionType) -> list[object]:
    """What it closes over; a cell may be empty."""
    found: list[object] = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue
    return found


def functions_in(value: Any, depth: int = 4) -> Iterator[types.FunctionType]:
    """Those that a function, method, property or what decorates one leads to, the outer before the inner."""
    if isinstance(value, types.FunctionType):
        yield value
    if not depth:
        return
    inner: list[object] = []
    if isinstance(value, types.FunctionType):
        inner = [vars(value).get("__wrapped__"), *contents(value)]
    elif isinstance(value, (types.MethodType, classmethod, staticmethod)):
        inner = [value.__func__]
    elif isinstance(value, property):
        inner = [value.fget, value.fset]
    elif isinstance(value, functools.partial):
        inner = [value.func]
    elif not isinstance(value, (type, types.ModuleType)) and type(value).__module__ != "builtins":
        fields = getattr(value, "__dict__", None)
        inner = list(fields.values()) if type(fields) is dict else []
    for one in inner:
        if isinstance(one, (types.FunctionType, types.MethodType, functools.partial)):
            yield from functions_in(one, depth - 1)


def members(module: Any) -> Iterator[tuple[str, object]]:
    """A module's own functions and classes, and what stands in those classes, by name."""
    name = module.__name__
    for key, value in list(vars(module).items()):
        if callable(value):
            yield key, value
        if isinstance(value, type) and value.__module__ == name and value.__name__ == key:
            yield from ((key + "." + inner, one) for inner, one in list(vars(value).items()) if is_code(one))


def is_code(value: object) -> bool:
    return callable(value) or isinstance(value, (classmethod, staticmethod, property))


def bytes_of(value: Any) -> bytes | None:
    """Of plain values, however deep: the same for the same values of the very same types. None of all others."""
    try:
        return exact(value, 0)
    except (ValueError, RecursionError):
        return None


def bases_of(cls: type, files: Files) -> str:
    """Of a class: what it says itself of classes elsewhere is believed where they are found."""
    parts: list[object] = [_origin(type(cls))]
    for base in cls.__bases__:
        home: Any = sys.modules.get(base.__module__)
        there: Any = home
        for name in base.__qualname__.split("."):
            there = getattr(there, name, None)
        is_known = there is base
        is_own = bool(files.path(getattr(home, "__file__", None)))
        parts.append(base.__name__ if is_own else (_origin(base), is_known))
    return short(parts)


def code_in(value: object) -> tuple[object, ...]:
    """The code of a function or what wraps one: it can be changed while the function stays."""
    value = getattr(value, "fget", value) if isinstance(value, property) else getattr(value, "__func__", value)
    return (value.__code__, value.__defaults__) if isinstance(value, types.FunctionType) else ()


def runner_modules(prefixes: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    modules: list[tuple[str, Any]] = list(sys.modules.items())
    for name, module in modules:
        is_own = isinstance(module, types.ModuleType) and getattr(module, "__name__", "") == name
        if is_own and any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes):
            yield name, module


class Homes:
    """Dictionaries of modules and classes that are looked at again and again: in which of them any value is another."""

    def __init__(self) -> None:
        self._homes: list[tuple[str, Any, dict[str, object]]] = []  # with the code that each had at first
        self._held: list[list[object]] = []  # all that they had when they were looked at

    def add(self, modules: Iterable[tuple[str, Any]]) -> None:
        """With the classes that stand there."""
        for name, module in modules:
            classes = [one for one in list(vars(module).values()) if isinstance(one, type) and one.__module__ == name]
            classes = [one for one in classes if one.__flags__ & IS_MADE]
            for label, home in [(name, vars(module)), *((name + "." + one.__qualname__, vars(one)) for one in classes)]:
                self._homes.append((label, home, {key: one for key, one in list(home.items()) if is_code(one)}))
                self._held.append(list(home.values()))

    def changed(self) -> Iterator[str]:
        for number, (label, home, first) in enumerate(self._homes):
            held = self._held[number]
            if len(home) != len(held) or not all(map(is_, home.values(), held)):
                self._held[number] = list(home.values())
                yield from (label + "." + key for key, value in first.items() if home.get(key) is not value)


STANDARD = os.path.dirname(os.path.realpath(os.__file__)) + "/"


def is_standard(module: Any) -> bool:
    """One of Python's own."""
    file = getattr(module, "__file__", None)
    if type(file) is not str:
        return getattr(getattr(module, "__spec__", None), "origin", None) in ("built-in", "frozen")
    return _is_below(file) and "site-packages/" not in file and "dist-packages/" not in file


@functools.lru_cache(maxsize=None)  # noqa: UP033 - in Python 3.8, too
def _is_below(file: str) -> bool:
    return os.path.realpath(file).startswith(STANDARD)


class Runner:
    """What says whether tests fail: as it was when this was loaded, and what of it has become another since."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._used: tuple[str, ...] = ()
        self._first = {name: _now(module) for name, module in runner_modules(RUNNERS)}
        self._first.update((name, _now(module)) for name, module in self._others_modules() if name not in self._first)
        self._tables = list(self._code_in_tables())
        self._critical = Homes()
        self._critical.add(runner_modules(CRITICAL))
        self._kinds = {name: (module, type(module)) for name, module in runner_modules(RUNNERS)}

    def used(self, packages: set[str]) -> None:
        """What tests import from elsewhere: looked at before each, and at the end with all that is below it."""
        self._used = tuple(sorted(packages))
        modules = [(name, sys.modules[name]) for name in packages.difference(CRITICAL) if name in sys.modules]
        self._kinds.update((name, (module, type(module))) for name, module in modules if name not in self._kinds)
        self._critical.add(modules)

    def changed(self) -> set[str]:
        """By identity: of code that is replaced within a function an audit event tells."""
        found: set[str] = set()
        for name, first in self._first.items():
            module = sys.modules.get(name)
            if isinstance(module, types.ModuleType):
                found |= {name + "." + key for key in self._others(first, _now(module))}
        found |= {name for name, table, key, value in self._tables if table.get(key, value) is not value}
        return found - HOOKS

    def _code_in_tables(self) -> Iterator[tuple[str, Any, object, object]]:
        """Functions that a module keeps by what they are for, as `copy` does."""
        for name in self._first:
            for key, table in list(vars(sys.modules[name]).items()):
                if type(table) is dict and len(table) <= 500 and key[:2] != "__":
                    for what, value in list(table.items()):
                        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
                            yield name + "." + key, table, what, value

    def changed_among_critical(self) -> set[str]:
        found = set(self._critical.changed())
        for name, (module, kind) in self._kinds.items():
            if sys.modules.get(name) is not module or type(module) is not kind:
                found.add("the module " + name)
        return found - HOOKS

    def _others(self, first: dict[str, Any], now: dict[str, object]) -> Iterator[str]:
        nothing = object()
        yield from (key for key, value in first.items() if now.get(key, nothing) is not value)
        # what is new in a class counts where it comes before what the class inherits
        for key in now.keys() - first.keys():
            outer, dot, name = key.partition(".")
            cls: Any = now.get(outer)
            if dot and outer in first and any(name in vars(base) for base in getattr(cls, "__mro__", ())[1:]):
                yield key

    def digests(self) -> dict[str, str]:
        """Of what each module had at first: modules that came later as they are."""
        found: dict[str, str] = {}
        for name, module in runner_modules(DIGESTED):
            first = self._first.get(name)
            own = [(key, one) for key, one in members(module) if (first is None or key in first)]
            parts = [(key, self._digest(one)) for key, one in own if name + "." + key not in HOOKS]
            found[name] = short(sorted(parts))
        if "hypothesis" in sys.modules:  # how many examples it tries is no code
            found["hypothesis.settings"] = short(sys.modules["hypothesis"].settings.default)
        for name, module in self._others_modules():
            if name not in found and name not in self._first:
                parts = [(key, self._digest(one)) for key, one in defined(module) if name + "." + key not in HOOKS]
                found[name] = short(sorted(parts))
        return found

    def _digest(self, value: object) -> str:
        function = next(iter(code_in(value)), None)
        if isinstance(function, types.CodeType):
            return self._code.of(function)
        return "%s %s" % (type(value).__name__, getattr(value, "__qualname__", ""))

    def _others_modules(self) -> Iterator[tuple[str, Any]]:
        """Python's own, and what tests import: who compares, reads or writes may stand there."""
        modules: list[tuple[str, Any]] = list(sys.modules.items())
        for name, module in modules:
            if isinstance(module, types.ModuleType) and getattr(module, "__name__", "") == name:
                is_used = any(name == one or name.startswith(one + ".") for one in self._used)
                if is_used or is_standard(module):
                    yield name, module

    def strange(self, files: Files) -> Iterator[str]:
        """What stands in others' modules and is the project's, or is not what it says that it is."""
        for name, module in self._others_modules():
            if type(module) is not types.ModuleType:
                yield "the module %s is of a kind %s" % (name, _origin(type(module)))
            for key, value in members(module):
                # what is new in a class, and comes before nothing, is no say in anything
                if name + "." + key in HOOKS or (name in self._first and key not in self._first[name]):
                    continue
                home = sys.modules.get(getattr(value, "__module__", None) or "")
                file = getattr(home, "__file__", None) if isinstance(value, type) else None
                file = next((one.co_filename for one in code_in(value) if isinstance(one, types.CodeType)), file)
                if files.path(file):
                    yield "%s.%s is the project's" % (name, key)
                elif (
                    name in self._used and "." not in key and home not in (None, module) and _is_elsewhere(value, home)
                ):
                    yield "%s.%s is not what %s has" % (name, key, home.__name__)


def _is_elsewhere(value: Any, home: Any) -> bool:
    """It says that it is from `home`, where another bears its name."""
    return type(value) in (type, types.FunctionType) and getattr(home, value.__name__, value) is not value


def _now(module: Any) -> dict[str, object]:
    is_runner = any(module.__name__ == one or module.__name__.startswith(one + ".") for one in RUNNERS)
    return {**dict(members(module)), **(settings(module) if is_runner else {})}


def settings(module: Any) -> dict[str, object]:
    """Plain values of a module's classes, such as a tolerance."""
    found: dict[str, object] = {}
    for key, cls in list(vars(module).items()):
        if isinstance(cls, type) and cls.__module__ == module.__name__ and cls.__name__ == key:
            for name, value in list(vars(cls).items()):
                if type(value) in (int, float, str, bytes) and name[:2] != "__":
                    found[key + "." + name] = value
    return found


def defined(module: Any) -> Iterator[tuple[str, object]]:
    """What the module defines itself: names from elsewhere may come when they are asked for."""
    for key, value in members(module):
        outer = vars(module).get(key.partition(".")[0])
        if getattr(outer, "__module__", None) == module.__name__:
            yield key, value


class Files:
    """The project's own files: which of them are tests, and what stands in them."""

    def __init__(self, root: str, code: Code, since_ns: int) -> None:
        self._roots = [root.rstrip("/") + "/", os.getcwd().rstrip("/") + "/"]
        self._code = code
        self.read: set[tuple[str, str]] = set()  # files that are no code, and from which one they were opened
        self.written: set[str] = set()  # of what tests read or are: what was written, moved or linked as they ran
        self._moved: list[str] = []
        self._since_ns = since_ns

    def path(self, name: Any) -> str:
        """As seen from the project; empty for what is none of its files."""
        if type(name) is not str or name.startswith("<"):
            return ""
        if not name.startswith("/"):
            name = os.path.abspath(name)
        path = next((name[len(root) :] for root in self._roots if name.startswith(root)), "")
        return "" if "site-packages/" in path or path.startswith((".git/", ".venv/")) else path

    def opened(self, name: Any, flags: Any) -> None:
        """A file that is read, from which of the project's own: of all frames the innermost."""
        if type(name) is not str or name.endswith((".py", ".pyc")) or not isinstance(flags, int) or flags & 3:
            return
        path = self.path(name)
        frame: Any = sys._getframe(2) if path else None  # pyright: ignore[reportPrivateUsage]
        while frame is not None:
            if opener := self.path(frame.f_code.co_filename):
                self.read.add((path, opener))
                self.look_at(path, name)
                return
            frame = frame.f_back

    def moved(self, name: Any) -> None:
        if type(name) is str and (path := self.path(name)):
            self._moved.append(path)

    def look_at(self, path: str, name: str) -> None:
        """Is the file, which is about to be read, the one that was there before any code of the project ran?"""
        try:
            place = os.path.abspath(name)
            ways = [place[: len(place) - len(rest)] for rest in _rests(path)]
            times = [os.lstat(way).st_ctime_ns for way in ways if way == place or os.path.islink(way)]
            times.append(os.stat(place).st_ctime_ns)
        except OSError:
            return
        is_moved = any(path == one or path.startswith(one + "/") for one in self._moved)
        if is_moved or max(times) > self._since_ns:
            self.written.add(path + ": written before it is read")

    def modules(self) -> Iterator[tuple[str, Any]]:
        modules: list[Any] = list(sys.modules.values())
        for module in modules:
            if isinstance(module, types.ModuleType) and (path := self.path(getattr(module, "__file__", None))):
                yield path, module

    def functions(self, path: str, module: Any, *, all_of_them: bool) -> dict[str, str]:
        """Name → digest of those that stand in the file; of others than tests only what asserts.

        In a class of tests, of a function that stands elsewhere no more than that.
        """
        found: dict[str, set[str]] = {}
        for key, value in members(module):
            for function in functions_in(value):
                code = function.__code__
                if self.path(code.co_filename) == path and (all_of_them or asserts(code)):
                    found.setdefault(key, set()).add(self._code.function(function))
                elif all_of_them and "." in key:
                    found.setdefault(key, set())
            if all_of_them and isinstance(value, type) and value.__module__ == module.__name__:
                found.setdefault("class " + key, set()).add(bases_of(value, self))
        return {key: "".join(sorted(digests)) or "elsewhere" for key, digests in found.items()}

    def of_test(self, value: Any, path: str) -> str:
        """Of a test's functions. That others of the project stand around it counts, which ones those are does not: they
        may be what the change is about. What others stand around it counts by name."""
        parts: list[str] = []
        is_wrapped = False
        for function in functions_in(value):
            file = function.__code__.co_filename
            place = self.path(file)
            if place == path or file.startswith("<"):
                parts.append(self._code.function(function))
            elif place:
                is_wrapped = True
            else:
                parts.append(_origin(function))
        return short((is_wrapped, parts))


def _rests(path: str) -> Iterator[str]:
    """What is left of it behind each of its folders, and behind all of it."""
    for start, char in enumerate(path):
        if char == "/":
            yield path[start:]
    yield ""


def asserts(code: types.CodeType) -> bool:
    """By its name, or by what it does."""
    does = ASSERTION is not None and ASSERTION in code.co_code[::2]
    return does or code.co_name.startswith("assert") or "AssertionError" in code.co_names


class Names:
    """Names of one test file that others may not give another meaning: what it imports from elsewhere, plain values."""

    def __init__(self, module: Any, files: Files) -> None:
        self._module = module
        with open(module.__file__, "rb") as file:
            source = file.read()
        tree = ast.parse(source)
        self._defined: list[str] = []
        self._imported: dict[str, tuple[str, str]] = {}
        self._plain: dict[str, bytes] = {}
        self.packages: set[str] = set()  # from elsewhere, whatever of them is imported and wherever
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._defined.append(node.name)
            elif isinstance(node, ast.Import):
                for one in node.names:
                    module_name = one.name if one.asname else one.name.partition(".")[0]
                    if module_name in sys.modules and not files.path(getattr(sys.modules[module_name], "__file__", "")):
                        self._imported[one.asname or module_name] = module_name, ""
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                home = sys.modules.get(node.module)
                if home is not None and not files.path(getattr(home, "__file__", None)):
                    self._imported.update((one.asname or one.name, (node.module, one.name)) for one in node.names)
            else:
                self._plain.update(_literals([node]))
            if isinstance(node, ast.ClassDef):
                self._plain.update((node.name + "." + name, value) for name, value in _literals(node.body))
        for node in ast.walk(tree):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module, *(node.module + "." + one.name for one in node.names)]
            found = [name for name in names if isinstance(sys.modules.get(name), types.ModuleType)]
            self.packages.update(name for name in found if not files.path(getattr(sys.modules[name], "__file__", None)))
        self._stored = _stored(tree)
        for names in re.findall(rb"^\s+global ([\w, ]+)", source, re.MULTILINE):
            self._stored.update({name.strip().decode(): 2 for name in names.split(b",")})
        for name in [name for name, count in self._stored.items() if count > 1]:
            self._plain.pop(name, None)
            self._imported.pop(name, None)
        self._defined = [name for name in self._defined if self._stored[name] == 1]
        self._given = _parameters(tree)
        self._first = dict(self._all())
        self._seen: object = None
        self._held: object = None  # so that no identity is given away again

    def changed(self, *, at_last: bool = False) -> Iterator[str]:
        """Since it was asked before; `at_last` whatever was known."""
        homes = [vars(self._module), *map(vars, self._classes)]
        kinds = [id(one) for cls in self._classes for one in (cls.__bases__, type(cls))]
        seen = [list(map(id, home.values())) for home in homes], kinds, [bytes_of(one) for one in self._inner]
        if at_last or seen != self._seen:
            self._seen, self._held = seen, [list(home.values()) for home in homes]
            yield from self._changed()

    def _changed(self) -> Iterator[str]:
        now = vars(self._module)
        for name, (home, there) in self._imported.items():
            module = sys.modules.get(home)
            if name in now and module is not None:
                value = getattr(module, there, now[name]) if there else module
                if now[name] is not value:
                    yield name
        for name, value in self._plain.items():
            outer, dot, inner = name.partition(".")
            there = vars(now[outer]) if dot and isinstance(now.get(outer), type) else now
            key = inner if dot else outer
            if key in there and bytes_of(there[key]) != value:
                yield name
        for name, function, value in self._given:
            marks = getattr(_inside(now, function), "pytestmark", None)
            if type(marks) is list and all(bytes_of(getattr(mark, "args", None)) != value for mark in marks):
                yield name
        every = dict(self._all())
        yield from (
            name for name, value in self._first.items() if every.get(name) is not value and every.get(name) != value
        )
        for name in self._defined:
            if name in now and all(one.__code__.co_name != name for one in functions_in(now[name])):
                yield name
        # what comes between the file and Python's own names
        yield from (name for name in vars(builtins) if name in now and name not in self._stored and name[:2] != "__")

    def _all(self) -> Iterator[tuple[str, object]]:
        """What the file has, and the classes in it: code by identity, plain values by what they are."""
        name = self._module.__name__
        self._classes: list[type] = []
        self._inner: list[object] = []  # what can become another while it stays the same
        homes: list[tuple[str, Any]] = [("", vars(self._module))]
        for key, value in list(vars(self._module).items()):
            if isinstance(value, type) and value.__module__ == name:
                yield "the bases of " + key, Same(value.__bases__, type(value))
                homes.append((key + ".", vars(value)))
                self._classes.append(value)
        for prefix, home in homes:
            for key, value in list(home.items()):
                if key[:2] == "__" and (not prefix or not is_code(value)):
                    continue
                if is_code(value) or isinstance(value, types.ModuleType):
                    yield prefix + key, Same(value)
                elif type(value).__module__ == name:
                    fields: dict[str, object] = getattr(value, "__dict__", None) or {}
                    self._inner += [fields, *fields.values()]
                    yield prefix + key, [Same(type(value)), *((field, bytes_of(one)) for field, one in fields.items())]
                else:
                    if type(value) not in SCALARS:
                        self._inner.append(value)
                    yield prefix + key, bytes_of(value)


class Same:
    """Equal to what holds the very same objects, whatever these say of it."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return type(other) is Same and [id(one) for one in self.values] == [id(one) for one in other.values]

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def _literals(body: list[Any]) -> Iterator[tuple[str, bytes]]:
    """Names that statements give a plain value. Sets may come in any order."""
    for node in body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if any(isinstance(one, ast.Set) for one in ast.walk(node.value)):
                continue
            try:
                value = bytes_of(ast.literal_eval(node.value))
            except (ValueError, TypeError):
                continue
            if value is not None:
                yield node.targets[0].id, value


def _parameters(tree: ast.Module) -> list[tuple[str, list[str], bytes]]:
    """Of tests whose parameters are plain in the file: a name to tell, where the test is, and the mark's arguments."""
    found: list[tuple[str, list[str], bytes]] = []
    outer: list[tuple[list[str], Any]] = [([], node) for node in tree.body]
    outer += [([node.name], one) for node in tree.body if isinstance(node, ast.ClassDef) for one in node.body]
    for place, node in outer:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for mark in node.decorator_list:
                if (
                    isinstance(mark, ast.Call)
                    and isinstance(mark.func, ast.Attribute)
                    and mark.func.attr == "parametrize"
                ):
                    try:
                        value = bytes_of(tuple(ast.literal_eval(one) for one in mark.args))
                    except (ValueError, TypeError):
                        continue
                    if value is not None and not any(isinstance(one, ast.Set) for one in ast.walk(mark)):
                        found.append(("the parameters of " + node.name, [*place, node.name], value))
    return found


def _inside(home: Any, names: list[str]) -> Any:
    for name in names:
        home = home.get(name) if isinstance(home, (dict, types.MappingProxyType)) else vars(home).get(name)
    return home


def _stored(tree: ast.Module) -> dict[str, int]:
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


class Test:
    """One that was collected. `value()` is what its runner calls, `facts()` what else it is given, as text."""

    def __init__(self, name: str, file: str, module: Any, value: Any, facts: Any) -> None:
        self.name, self.file, self.module, self.value, self.facts = name, file, module, value, facts


class Session:
    """What is told of one run of a runner. A process may have several; the first is the project's."""

    def __init__(self, root: str, since_ns: int) -> None:
        self._code = Code()
        self._runner, self.files = Runner(self._code), Files(root, self._code, since_ns)
        self._tests: dict[Any, tuple[Test, str, list[str]]] = {}  # by what its runner knows it by
        self._names: dict[str, Names] = {}
        self._digests: dict[str, set[str]] = {}
        self._changed: set[str] = set()
        self._plugins: set[str] = set()
        self._failed: set[str] = set()
        self._fixtures: set[str] = set()
        self.wrong = ""

    def collected(self, tests: dict[Any, Test]) -> None:
        for key, test in tests.items():
            path = self.files.path(test.file)
            test.name = path + "::" + test.name
            self._tests[key] = test, path, self._facts(test)
            if path and path not in self._names and test.module is not None:
                self._names[path] = Names(test.module, self.files)
                self.files.look_at(path, test.file)
        for path, module in self.files.modules():
            if path.rpartition("/")[2] == "conftest.py":
                self._names[path] = Names(module, self.files)
                self.files.look_at(path, module.__file__)
        self._runner.used(set().union(*(one.packages for one in self._names.values())))
        for key in self._tests:
            self._look_at(key)
        for path, names in self._names.items():
            self._changed |= {path + ": " + name for name in names.changed(at_last=True)}

    def before_call(self, key: Any) -> None:
        if key in self._tests:
            self._look_at(key)
            self._look_at_names(self._tests[key][1])
            self._changed |= self._runner.changed_among_critical()
            self._changed |= {"a tracer: " + _origin(one) for one in (sys.gettrace(), sys.getprofile()) if one}

    def after_call(self, key: Any, own: Any) -> None:
        """`own`: the object whose method the test is, if there is one. It is gone when the next test begins."""
        fields: Any = getattr(own, "__dict__", None)
        if key in self._tests and type(fields) is dict:
            kind: Any = type(own)
            found = [name for name in list(fields) if callable(getattr(kind, name, None))]
            table: dict[Any, Any] = fields.get("_type_equality_funcs") or {}
            found += [_origin(one) + ": " + _origin(how) for one, how in table.items() if type(how) is not str]
            self._changed |= {self._tests[key][0].name + " has in its object " + name for name in found}

    def traced(self, frame: Any) -> None:
        if frame is not None and self.files.path(frame.f_code.co_filename):
            self._changed.add("a tracer: set by the project")

    def turned(self, key: Any) -> None:
        if key in self._tests:
            self._changed.add(self._tests[key][0].name + " failed, and is reported as passed")

    def failed(self, name: str) -> None:
        self._failed.add(name)

    def fixture(self, file: str) -> None:
        """A test is given what stands there."""
        self._fixtures.update(filter(None, [self.files.path(file)]))

    def plugins(self, found: list[tuple[str, Any]]) -> None:
        """(hook, its function): of plugins in the project's files only where they are."""
        for hook, function in found:
            code = getattr(getattr(function, "__func__", function), "__code__", None)
            path = self.files.path(code.co_filename) if code is not None else ""
            self._plugins.add("plugin " + path if path else hook + ": " + _origin(function))

    def set_code(self, function: Any) -> None:
        """What a function does is replaced, while others may run it."""
        name, module = getattr(function, "__qualname__", "?"), getattr(function, "__module__", None) or ""
        if path := self.files.path(getattr(getattr(function, "__code__", None), "co_filename", None)):
            self._changed.add(path + ": the code of " + name)
        elif any(module == prefix or module.startswith(prefix + ".") for prefix in RUNNERS):
            self._changed.add("the code of " + module + "." + name)

    def ended(self) -> dict[str, object]:
        for key in self._tests:
            self._look_at(key)
        for path, names in self._names.items():
            self._changed |= {path + ": " + name for name in names.changed(at_last=True)}
        tests = {path for _, path, _ in self._tests.values() if path}
        code: dict[str, dict[str, str]] = {}
        helpers: set[str] = set()
        for path, module in self.files.modules():
            is_test = path in tests or path.rpartition("/")[2] == "conftest.py"
            if found := self.files.functions(path, module, all_of_them=is_test):
                known = [key for key in found if path + "::" + key.replace(".", "::") in self._digests]
                code[path] = {key: digest for key, digest in found.items() if key not in known}
                own = sum(getattr(one, "__module__", "") == module.__name__ for _, one in members(module))
                named = sum(name.startswith("assert") for name in found)
                is_beside = path.rpartition("/")[0] in {test.rpartition("/")[0] for test in tests} - {""}
                is_helper = (named and 2 * named >= own) or (is_beside and self._is_for(tests, module))
                if is_helper and not is_test:
                    helpers.add(path)
        test_code = {*tests, *(path for path in code if path.rpartition("/")[2] == "conftest.py")}
        read = {path for path, opener in self.files.read if opener in test_code}
        return {
            "tests": {name: "".join(sorted(digests)) for name, digests in self._digests.items()},
            "code": code,
            "runner": self._runner.digests(),
            "changed": sorted(
                {*self._changed, *self._runner.changed(), *self._runner.strange(self.files), *self.files.written}
            ),
            "plugins": sorted(self._plugins),
            "files": sorted(tests | helpers | read | self._fixtures | set(self._runner_files())),
            "failed": len(self._failed),
            "wrong": self.wrong,
        }

    def _is_for(self, tests: set[str], asked: Any) -> bool:
        """No file of the project but tests names the module, or anything in it."""
        for path, module in self.files.modules():
            # a package has its modules in it, whoever asked for them
            holds = asked.__name__.startswith(module.__name__ + ".")
            if path not in tests and module is not asked:
                for value in list(vars(module).values()):
                    if (value is asked and not holds) or getattr(value, "__module__", None) == asked.__name__:
                        return False
        return True

    def _runner_files(self) -> Iterator[str]:
        for name, module in runner_modules(RUNNERS):
            if name != "builtins":
                yield from filter(None, [self.files.path(getattr(module, "__file__", None))])

    def _look_at(self, key: Any) -> None:
        test, path, facts = self._tests[key]
        self._digests.setdefault(test.name, set()).add(self.files.of_test(test.value(), path))
        if facts != self._facts(test):
            self._changed.add(test.name + " is given something else")

    def _look_at_names(self, path: str) -> None:
        for other, names in self._names.items():
            if other == path or other.endswith("conftest.py"):
                self._changed |= {other + ": " + name for name in names.changed()}

    def _facts(self, test: Test) -> list[str]:
        inner = [plain(one) for function in functions_in(test.value()) for one in contents(function)]
        return [*test.facts(), *inner]


def plain(value: Any, depth: int = 3) -> str:
    """A value, as far as it says itself what it is."""
    if type(value) in SCALARS:
        return repr(value)
    if depth and type(value) in (list, tuple) and len(value) <= 100:
        return "[%s]" % ", ".join(plain(one, depth - 1) for one in value)
    if depth and type(value) is dict and len(value) <= 100:
        return "{%s}" % ", ".join(plain(one, depth - 1) for pair in value.items() for one in pair)
    return type(value).__name__


def _origin(value: Any) -> str:
    kind = value if hasattr(value, "__qualname__") else type(value)
    return "%s.%s" % (getattr(kind, "__module__", ""), kind.__qualname__)


def watch(pipe: str, root: str, begun: str = "") -> Any:
    """Begins with this process. Whoever runs tests calls what this gives, with a word and what it is about.

    Without a listener at `pipe`, or a Python that knows no audit hooks, nothing is told.
    """
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return lambda *_: None
    os.set_blocking(descriptor, True)
    session, event, owner, name = (
        Session(root, _laid_at_ns(os.path.dirname(pipe), begun)),
        "control." + os.urandom(16).hex(),
        os.getpid(),
        os.urandom(4).hex(),
    )
    say = _speaker(descriptor, name, os.urandom(16))

    def hook(what: str, args: tuple[Any, ...]) -> None:
        try:
            if what == "open":
                session.files.opened(args[0], args[2])
            elif what in ("os.rename", "os.link"):
                session.files.moved(args[1])
            elif what in TRACERS:
                session.traced(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
            elif what == "object.__setattr__" and args[1] in SET_CODE:
                session.set_code(args[0])
            elif what == event and os.getpid() == owner:
                found = getattr(session, args[0])(*args[1:])
                if found is not None:
                    say(dumps(found))
        except Exception as error:
            session.wrong = repr(error)  # what raises here would raise in the project's own code

    sys.addaudithook(hook)
    return functools.partial(sys.audit, event)


def _laid_at_ns(folder: str, begun: str) -> int:
    """When the first of the commands was about to begin. Nobody can set a file's `ctime` back."""
    laid = [entry.path for entry in os.scandir(folder)] + ([begun] if begun else [])
    return min(os.lstat(path).st_ctime_ns for path in laid)


def _speaker(descriptor: int, name: str, key: bytes) -> Any:
    """Each line is signed, and numbered. The key is told before code under test runs, and read at once."""
    number = 0
    write, digest = os.write, blake2b
    write(descriptor, b"hello %s %s\n" % (name.encode(), key.hex().encode()))

    def say(text: str) -> None:
        nonlocal number
        parts = [text[start : start + LINE_CHARS] for start in range(0, len(text), LINE_CHARS)]
        for left, part in zip(range(len(parts) - 1, -1, -1), parts):
            body = b"%d %d %s" % (number, left, part.encode())
            sign = digest(body, key=key, digest_size=16).hexdigest()
            write(descriptor, b"%s %s %s\n" % (name.encode(), sign.encode(), body))
            number += 1

    return say
