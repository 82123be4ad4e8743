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
from opcode import opmap
from typing import Any, Iterator

# Who says whether a test has failed: assertions, what they use, and runners. Modules below these, too.
RUNNERS = (
    *("builtins", "unittest", "pytest", "_pytest", "pluggy", "contextlib", "math", "operator", "re", "warnings"),
    "numpy.testing",
)
# Of these the code is compared with the base's: others may have come before this file did.
DIGESTED = (
    *("builtins", "contextlib", "math", "operator", "pluggy", "warnings", "_pytest.assertion", "_pytest.fixtures"),
    *("_pytest.junitxml", "_pytest.main", "_pytest.outcomes", "_pytest.python", "_pytest.python_api", "_pytest.raises"),
    *("_pytest.recwarn", "_pytest.reports", "_pytest.runner", "_pytest.skipping", "_pytest.unittest", "unittest.case"),
    *("unittest.loader", "unittest.main", "unittest.result", "unittest.runner", "unittest.suite", "numpy.testing"),
)
# Made to be replaced, and without a say in what a test comes to.
HOOKS = frozenset(
    ("builtins.input", "builtins.print", "warnings._showwarnmsg_impl", "warnings.formatwarning", "warnings.showwarning")
)
# Looked at before each test; all else when the session ends.
CRITICAL = ("unittest.case", "_pytest.python_api", "_pytest.raises", "_pytest.recwarn", "_pytest.runner")
MAX_SOURCE_BYTES = 1024 * 1024  # of the tests' files that are read again: about 0.2 s
SET_CODE = ("__code__", "__defaults__", "__kwdefaults__")
ASSERTION = opmap.get("LOAD_ASSERTION_ERROR")
LINE_CHARS = 3000  # a pipe takes 4096 bytes at once or not at all
SCALARS = (int, float, complex, str, bytes, bool, type(None))
CHANGING = re.compile(r"0x[0-9a-f]+|\d{5,}|/tmp/[^\s'\"]*|/var/[^\s'\"]*")  # in code that is made anew


# What an object is, without a question to it: a proxy or a module that is loaded late answers by code of the project.
fields_of_class, name_of, module_of = [vars(type)[name].__get__ for name in ("__dict__", "__name__", "__module__")]


def is_a(value: Any, kinds: Any) -> bool:
    return issubclass(type(value), kinds)


def home_of(value: Any) -> Any:
    """The name of the module that it, or else its class, was made in."""
    if is_a(value, (types.FunctionType, types.BuiltinFunctionType)):
        return value.__module__
    return module_of(value if is_a(value, type) else type(value))


def fields(value: Any) -> Any:
    """Of a module, or another object that has some; of none where a class of the project's says what they are."""
    try:
        return object.__getattribute__(value, "__dict__")
    except Exception:
        return {}


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
    if is_a(value, types.FunctionType):
        yield value
    if not depth:
        return
    inner: list[object] = []
    if is_a(value, types.FunctionType):
        inner = [vars(value).get("__wrapped__"), *contents(value)]
    elif is_a(value, (types.MethodType, classmethod, staticmethod)):
        inner = [value.__func__]
    elif is_a(value, property):
        inner = [value.fget, value.fset]
    elif is_a(value, functools.partial):
        inner = [value.func]
    elif not is_a(value, (type, types.ModuleType)) and home_of(value) != "builtins":
        inner = list(fields(value).values()) if type(fields(value)) is dict else []
    for one in inner:
        if is_a(one, (types.FunctionType, types.MethodType, functools.partial)):
            yield from functions_in(one, depth - 1)


def members(module: Any) -> Iterator[tuple[str, object]]:
    """A module's own functions and classes, and what stands in those classes, by name."""
    own = fields(module)
    for key, value in list(own.items()):
        if callable(value):
            yield key, value
        if is_a(value, type) and home_of(value) == own.get("__name__") and name_of(value) == key:
            yield from ((key + "." + inner, one) for inner, one in list(fields_of_class(value).items()) if is_code(one))


def is_code(value: object) -> bool:
    return callable(value) or is_a(value, (classmethod, staticmethod, property))


def code_in(value: object) -> tuple[object, ...]:
    """The code of a function or what wraps one: it can be changed while the function stays."""
    value = getattr(value, "fget", value) if isinstance(value, property) else getattr(value, "__func__", value)
    return (value.__code__, value.__defaults__) if isinstance(value, types.FunctionType) else ()


def is_below(name: str, prefixes: tuple[str, ...]) -> bool:
    return (name + ".").startswith(tuple([prefix + "." for prefix in prefixes]))


def runner_modules(prefixes: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    modules: list[tuple[str, Any]] = list(sys.modules.items())
    for name, module in modules:
        # of the many modules a few are asked what they are
        if is_below(name, prefixes) and is_a(module, types.ModuleType) and fields(module).get("__name__") == name:
            yield name, module


def places(prefixes: tuple[str, ...]) -> Iterator[tuple[str, Any, str, object]]:
    """Each function and class that stands there: its module or class by name and as a dictionary, its key, itself."""
    for name, module in runner_modules(prefixes):
        homes: list[tuple[str, Any]] = [(name, vars(module))]
        classes = [one for _, one in members(module) if isinstance(one, type) and one.__module__ == name]
        homes += [(name + "." + one.__qualname__, vars(one)) for one in classes]
        for home_name, home in homes:
            yield from ((home_name, home, key, value) for key, value in list(home.items()) if is_code(value))


class Runner:
    """What says whether tests fail: as it was when this was loaded, and what of it has become another since."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._first = {name: dict(members(module)) for name, module in runner_modules(RUNNERS)}
        self._critical = list(places(CRITICAL))

    def changed(self) -> set[str]:
        """By identity: of code that is replaced within a function an audit event tells."""
        found: set[str] = set()
        for name, module in runner_modules(RUNNERS):
            first = self._first.get(name)
            if first is not None:
                found |= {name + "." + key for key in self._others(first, dict(members(module)))}
        return found - HOOKS

    def changed_among_critical(self) -> set[str]:
        return {name + "." + key for name, home, key, value in self._critical if home.get(key) is not value}

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
        return found

    def _digest(self, value: object) -> str:
        function = next(iter(code_in(value)), None)
        if isinstance(function, types.CodeType):
            return self._code.of(function)
        return "%s %s" % (type(value).__name__, getattr(value, "__qualname__", ""))


class Files:
    """The project's own files: which of them are tests, and what stands in them."""

    def __init__(self, root: str, code: Code) -> None:
        self._roots = [root.rstrip("/") + "/", os.getcwd().rstrip("/") + "/"]
        self._code = code
        self._paths: dict[str, str] = {}
        self.read: set[tuple[str, str]] = set()  # files that are no code, and from which one they were opened

    def path(self, name: Any) -> str:
        """As seen from the project; empty for what is none of its files."""
        if type(name) is not str or name.startswith("<"):
            return ""
        if not name.startswith("/"):
            name = os.path.abspath(name)
        if name not in self._paths:
            path = next((name[len(root) :] for root in self._roots if name.startswith(root)), "")
            is_own = "site-packages/" not in path and not path.startswith((".git/", ".venv/"))
            self._paths[name] = path if is_own else ""
        return self._paths[name]

    def opened(self, name: Any, flags: Any) -> None:
        """A file that is read, from which of the project's own: of all frames the innermost."""
        if type(name) is not str or name.endswith((".py", ".pyc")) or not isinstance(flags, int) or flags & 3:
            return
        path = self.path(name)
        frame: Any = sys._getframe(2) if path else None  # pyright: ignore[reportPrivateUsage]
        while frame is not None:
            if opener := self.path(frame.f_code.co_filename):
                self.read.add((path, opener))
                return
            frame = frame.f_back

    def modules(self) -> Iterator[tuple[str, Any]]:
        modules: list[Any] = list(sys.modules.values())
        for module in modules:
            if is_a(module, types.ModuleType) and (path := self.path(fields(module).get("__file__"))):
                yield path, module

    def functions(self, path: str, module: Any, *, all_of_them: bool, classes: set[int]) -> dict[str, str]:
        """Name → digest of those that stand in the file; of others than tests only what asserts.

        In a class, of a function that stands elsewhere no more than that; and whether it is one of the `classes` that
        tests have their methods from. In others the project's own code may make methods, such as a dataclass has.
        """
        found: dict[str, set[str]] = {}
        for key, value in members(module):
            for function in functions_in(value):
                code = function.__code__
                if self.path(code.co_filename) == path and (all_of_them or asserts(code)):
                    found.setdefault(key, set()).add(self._code.function(function))
                elif all_of_them and "." in key:
                    found.setdefault(key, set())
        own = {key for key in found if id(fields(module).get(key.partition(".")[0])) in classes}
        return {
            key: "".join(sorted(digests)) or ("elsewhere" if key in own else "made") for key, digests in found.items()
        }

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
        self._plain: dict[str, object] = {}
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._defined.append(node.name)
            elif isinstance(node, ast.Import):
                for one in node.names:
                    module_name = one.name if one.asname else one.name.partition(".")[0]
                    if module_name in sys.modules and not files.path(fields(sys.modules[module_name]).get("__file__")):
                        self._imported[one.asname or module_name] = module_name, ""
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                home = sys.modules.get(node.module)
                if home is not None and not files.path(fields(home).get("__file__")):
                    self._imported.update((one.asname or one.name, (node.module, one.name)) for one in node.names)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                try:
                    self._plain[node.targets[0].id] = repr(ast.literal_eval(node.value))
                except ValueError:
                    continue
        self._stored = _stored(tree)
        for names in re.findall(rb"^\s+global ([\w, ]+)", source, re.MULTILINE):
            self._stored.update({name.strip().decode(): 2 for name in names.split(b",")})
        for name in [name for name, count in self._stored.items() if count > 1]:
            self._plain.pop(name, None)
            self._imported.pop(name, None)
        self._defined = [name for name in self._defined if self._stored[name] == 1]
        self._free = {name for name in vars(builtins) if name not in self._stored and name[:2] != "__"}

    def changed(self) -> Iterator[str]:
        now = fields(self._module)
        for name, (home, there) in self._imported.items():
            module = sys.modules.get(home)
            if name in now and module is not None:
                value = fields(module).get(there, now[name]) if there else module
                if now[name] is not value:
                    yield name
        for name, value in self._plain.items():
            if name in now and repr(now[name]) != value and not isinstance(now[name], (set, frozenset)):
                yield name
        for name in self._defined:
            if name in now and all(one.__code__.co_name != name for one in functions_in(now[name])):
                yield name
        # what comes between the file and Python's own names
        yield from self._free & now.keys()


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


def classes_of(test: Test) -> Iterator[type]:
    """The classes that it stands in, and those that they inherit from."""
    home = fields(test.module)
    for name in re.split(r"::|\.", test.name.partition("::")[2].rpartition("::")[0]):
        cls = home.get(name)
        if not is_a(cls, type):
            return
        yield from type.mro(cls)
        home = fields_of_class(cls)


class Session:
    """What is told of one run of a runner. A process may have several; the first is the project's."""

    def __init__(self, root: str) -> None:
        self._code = Code()
        self._runner, self.files = Runner(self._code), Files(root, self._code)
        self._tests: dict[Any, tuple[Test, str, list[str]]] = {}  # by what its runner knows it by
        self._names: dict[str, Names] = {}
        self._digests: dict[str, set[str]] = {}
        self._changed: set[str] = set()
        self._plugins: set[str] = set()
        self._failed: set[str] = set()
        self.wrong = ""

    def collected(self, tests: dict[Any, Test]) -> None:
        size = 0
        for key, test in tests.items():
            path = self.files.path(test.file)
            test.name = path + "::" + test.name
            self._tests[key] = test, path, self._facts(test)
            if path and path not in self._names and test.module is not None and size < MAX_SOURCE_BYTES:
                size += os.stat(test.file).st_size
                self._names[path] = Names(test.module, self.files)
                self._look_at_names(path)
            self._look_at_code(key)

    def before_call(self, key: Any) -> None:
        if key in self._tests:
            self._look_at_code(key)
            self._look_at_names(self._tests[key][1])
            self._changed |= self._runner.changed_among_critical()
            tracer = sys.gettrace()
            if tracer is not None:
                self._changed.add("a tracer: " + _origin(tracer))

    def turned(self, key: Any) -> None:
        if key in self._tests:
            self._changed.add(self._tests[key][0].name + " failed, and is reported as passed")

    def failed(self, name: str) -> None:
        self._failed.add(name)

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
        elif is_below(module, RUNNERS):
            self._changed.add("the code of " + module + "." + name)

    def ended(self) -> dict[str, object]:
        for key in self._tests:
            self._look_at_code(key)
        for path in self._names:
            self._look_at_names(path)
        tests = {path for _, path, _ in self._tests.values() if path}
        code: dict[str, dict[str, str]] = {}
        helpers: set[str] = set()
        modules = list(self.files.modules())
        classes = {id(cls) for test, _, _ in self._tests.values() for cls in classes_of(test)}
        others = [module for path, module in modules if path not in tests]
        besides = {test.rpartition("/")[0] for test in tests} - {""}
        for path, module in modules:
            is_test = path in tests or path.rpartition("/")[2] == "conftest.py"
            if found := self.files.functions(path, module, all_of_them=is_test, classes=classes):
                known = [key for key in found if path + "::" + key.replace(".", "::") in self._digests]
                code[path] = {key: digest for key, digest in found.items() if key not in known}
                own = sum(home_of(one) == fields(module).get("__name__") for _, one in members(module))
                named = sum(name.startswith("assert") for name in found)
                is_beside = path.rpartition("/")[0] in besides
                is_helper = (named and 2 * named >= own) or (is_beside and is_only_for_tests(module, others))
                if is_helper and not is_test:
                    helpers.add(path)
        test_code = {*tests, *(path for path in code if path.rpartition("/")[2] == "conftest.py")}
        read = {path for path, opener in self.files.read if opener in test_code}
        return {
            "tests": {name: "".join(sorted(digests)) for name, digests in self._digests.items()},
            "code": code,
            "runner": self._runner.digests(),
            "changed": sorted(self._changed | self._runner.changed()),
            "plugins": sorted(self._plugins),
            "files": sorted(tests | helpers | read | set(self._runner_files())),
            "failed": len(self._failed),
            "wrong": self.wrong,
        }

    def _runner_files(self) -> Iterator[str]:
        for name, module in runner_modules(RUNNERS):
            if name != "builtins":
                yield from filter(None, [self.files.path(getattr(module, "__file__", None))])

    def _look_at_code(self, key: Any) -> None:
        test, path, facts = self._tests[key]
        self._digests.setdefault(test.name, set()).add(self.files.of_test(test.value(), path))
        if facts != self._facts(test):
            self._changed.add(test.name + " is given something else")

    def _look_at_names(self, path: str) -> None:
        if path in self._names:
            self._changed |= {path + ": " + name for name in self._names[path].changed()}

    def _facts(self, test: Test) -> list[str]:
        inner = [plain(one) for function in functions_in(test.value()) for one in contents(function)]
        return [*test.facts(), *inner]


def is_only_for_tests(asked: Any, others: list[Any]) -> bool:
    """None of the project's modules that are no tests names the module, or anything in it."""
    name = fields(asked).get("__name__")
    for module in others:
        # a package has its modules in it, whoever asked for them
        holds = str(name).startswith(str(fields(module).get("__name__")) + ".")
        if module is not asked:
            for value in list(fields(module).values()):
                if (value is asked and not holds) or home_of(value) == name:
                    return False
    return True


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


def watch(pipe: str, root: str) -> Any:
    """Begins with this process. Whoever runs tests calls what this gives, with a word and what it is about.

    Without a listener at `pipe`, or a Python that knows no audit hooks, nothing is told.
    """
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return lambda *_: None
    os.set_blocking(descriptor, True)
    session, event, owner, name = Session(root), "control." + os.urandom(16).hex(), os.getpid(), os.urandom(4).hex()
    say = _speaker(descriptor, name, os.urandom(16))

    def hook(what: str, args: tuple[Any, ...]) -> None:
        try:
            if what == "open":
                session.files.opened(args[0], args[2])
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
