"""What says whether a test fails, and Python's own modules. Executed in the digest's namespace, behind `code.py`."""

# Objects of any kind are looked at, in any Python from 3.8 on, and what is imported here every process pays for.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import os
import re
import sys
import types
from hashlib import blake2b
from itertools import chain
from operator import is_, itemgetter
from typing import Any, Iterable, Iterator

TYPE_CHECKING = False  # it stands in the namespace already
if TYPE_CHECKING:
    from .code import (
        Code,
        bytes_of,
        code_in,
        fields,
        fields_of_class,
        home_of,
        is_a,
        is_code,
        members,
        name_of,
        origin,
        short,
    )  # fmt: skip

# Who says whether a test has failed: assertions, what they use, and runners. Modules below these, too.
RUNNERS = (
    *("builtins", "unittest", "pytest", "_pytest", "pluggy", "contextlib", "math", "operator", "re", "warnings"),
    "numpy.testing",
)
# Of these the code is compared with the base's: others may have come before this file did.
DIGESTED = (
    *("builtins", "contextlib", "math", "operator", "pluggy", "warnings", "_pytest.approx", "_pytest.assertion"),
    *("_pytest.doctest", "_pytest.fixtures", "_pytest.junitxml", "_pytest.main", "_pytest.outcomes", "_pytest.python"),
    *("_pytest.python_api", "_pytest.raises", "_pytest.recwarn", "_pytest.reports", "_pytest.runner"),
    *("_pytest.skipping", "_pytest.unittest", "unittest.case", "unittest.loader", "unittest.main"),
    *("unittest.result", "unittest.runner", "unittest.suite", "numpy.testing"),
)
# Made to be replaced, and without a say in what a test comes to.
HOOKS = frozenset(
    (
        *("builtins.input", "builtins.print", "warnings._showwarnmsg_impl", "warnings.formatwarning"),
        *("warnings.showwarning", "sys.excepthook", "sys.displayhook", "sys.unraisablehook", "sys.breakpointhook"),
        *("threading.excepthook", "logging._loggerClass", "logging._logRecordFactory", "logging.lastResort"),
        "unittest.case.TestCase.maxDiff",
    )
)
HYPOTHESIS = ("max_examples", "phases", "stateful_step_count", "derandomize", "suppress_health_check")
# Looked at before each test, when its own fixtures are there; all else when the session ends.
CRITICAL = (
    *("unittest.case", "_pytest.approx", "_pytest.outcomes", "_pytest.python_api", "_pytest.raises"),
    *("_pytest.recwarn", "_pytest.runner"),
)
# Looked at before each test's fixtures, which may put something else there; and with them all that tests import.
USUAL = ("builtins", "math", "operator", "pytest")
IS_MADE = 1 << 9  # a class that somebody's code has made: in others nothing can be replaced
STANDARD = os.path.dirname(os.path.realpath(os.__file__)) + "/"
IN_LIBRARY = re.compile("(?:site|dist)-packages/")
MAX_TABLE = 500  # names of codecs, of entities and the like are no code
# Python 3.11 and later write sets in one order, so that two processes write the same code in the same way.
CAN_WRITE_CODE = sys.version_info >= (3, 11)


def is_below(name: str, prefixes: tuple[str, ...]) -> bool:
    return (name + ".").startswith(tuple([prefix + "." for prefix in prefixes]))


def runner_modules(prefixes: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    modules: list[tuple[str, Any]] = list(sys.modules.items())
    for name, module in modules:
        # of the many modules a few are asked what they are
        if is_below(name, prefixes) and is_a(module, types.ModuleType) and fields(module).get("__name__") == name:
            yield name, module


class Homes:
    """Dictionaries of modules and classes that are looked at again and again: where in them any code is another."""

    def __init__(self) -> None:
        self._homes: list[tuple[str, Any, dict[str, object], tuple[Any, ...]]] = []
        self._views: list[Any] = []
        self._held: list[object] = []  # all that they had when they were looked at

    def add(self, modules: Iterable[tuple[str, Any]]) -> None:
        """With the classes that stand there."""
        for name, module in modules:
            own = fields(module)
            found: list[tuple[str, Any, Any]] = [(name, own, ())]
            for key, cls in list(own.items()):
                if is_a(cls, type) and cls.__flags__ & IS_MADE and home_of(cls) == name:
                    found.append((name + "." + str(key), fields_of_class(cls), type.mro(cls)[1:]))
            for label, home, bases in found:
                self._homes.append((label, home, {key: one for key, one in list(home.items()) if is_code(one)}, bases))
                self._views.append(home.values())
        self._held = list(chain.from_iterable(self._views))

    def changed(self, *, at_last: bool = False) -> Iterator[tuple[str, object]]:
        """Since it was asked before, `at_last` whatever was known: a name, and what it means now."""
        now = list(chain.from_iterable(self._views))
        if not at_last and len(now) == len(self._held) and all(map(is_, now, self._held)):
            return
        self._held = now
        for label, home, first, bases in self._homes:
            yield from ((label + "." + key, home.get(key)) for key, one in first.items() if home.get(key) is not one)
            # what is new in a class counts where it comes before what the class inherits
            for key in list(home) if bases and len(home) > len(first) else ():
                if key not in first and is_code(home.get(key)) and any(key in fields_of_class(base) for base in bases):
                    yield label + "." + key, home.get(key)


def is_standard(module: Any, known: dict[str, bool]) -> bool:
    """One of Python's own."""
    own = fields(module)
    file = own.get("__file__")
    if type(file) is not str:
        return fields(own.get("__spec__")).get("origin") in ("built-in", "frozen")
    folder = os.path.dirname(file)
    if folder not in known:
        real = os.path.realpath(folder) + "/"
        known[folder] = real.startswith(STANDARD) and "site-packages/" not in real and "dist-packages/" not in real
    return known[folder]


class Runner:
    """What says whether tests fail: as it was when this was loaded, and what of it has become another since."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._used: set[str] = set()
        self._folders: dict[str, bool] = {}
        runners = list(runner_modules(RUNNERS))
        self._first = {name: _now(module) for name, module in runners}
        others = [(name, module) for name, module in self._standard() if name not in self._first]
        self._there = {name for name, _ in others}
        self._objects = dict(self._standard())
        self._replaced: set[str] = set()  # when tests were collected
        self._late: dict[str, list[tuple[str, Any]]] = {}  # Python's own that came later
        self._tables = list(_code_in_tables([*runners, *others]))
        looked_at = [(name, module) for name, module in runners if name in USUAL + CRITICAL]
        self._kinds: list[tuple[str, Any, type]] = [(name, module, type(module)) for name, module in looked_at]
        self._at_last, self._critical, self._usual = Homes(), Homes(), Homes()
        self._at_last.add(others)
        self._critical.add(runner_modules(CRITICAL))
        self._usual.add((name, module) for name, module in runners if name in USUAL)

    def used(self, names: set[str]) -> None:
        """What tests import from elsewhere."""
        self._used = names
        self._replaced = set(self._not_pythons())
        modules = [(name, sys.modules[name]) for name in sorted(names.difference(USUAL)) if name in sys.modules]
        self._kinds += [(name, module, type(module)) for name, module in modules if name not in CRITICAL]
        self._usual.add(modules)

    def changed(self) -> set[str]:
        """By identity: of code that is replaced within a function an audit event tells."""
        found: set[str] = set()
        for name, module in runner_modules(RUNNERS):
            first = self._first.get(name)
            if first is not None:
                found |= {name + "." + key for key in self._others(first, _now(module))}
        found |= {name for name, _ in self._critical.changed(at_last=True)}
        for homes in (self._at_last, self._usual):
            found |= {name for name, value in homes.changed(at_last=True) if not _is_of_a_library(name, value)}
        found |= self._replaced.union(self._not_pythons())
        found |= {name for name, table, key, value in self._tables if table.get(key, value) is not value}
        return found - HOOKS

    def _not_pythons(self) -> Iterator[str]:
        """Modules that bear the name of one of Python's own, and are none."""
        pythons: Any = getattr(sys, "stdlib_module_names", ())
        modules: list[tuple[str, Any]] = list(sys.modules.items())
        for name, module in modules:
            if self._objects.get(name, module) is not module:
                yield "the module " + name
            elif name.partition(".")[0] in pythons and name != "__main__" and not is_standard(module, self._folders):
                file = fields(module).get("__file__")
                if not (type(file) is str and IN_LIBRARY.search(file)):
                    yield "the module " + name

    def changed_among_critical(self) -> set[str]:
        return {name for name, _ in self._critical.changed()} - HOOKS

    def changed_among_usual(self, is_of_tests: Any) -> set[str]:
        """But for what tests put there themselves for a while, in a fixture of a module or a class."""
        found: set[str] = set()
        for name, value in self._usual.changed():
            if not (_is_mock(value) or is_of_tests(value) or _is_of_a_library(name, value)):
                found.add(name)
        for name, module, kind in self._kinds:
            # a module that is loaded late may become one like others
            if sys.modules.get(name) is not module or type(module) not in (kind, types.ModuleType):
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

    def digests(self, path_of: Any) -> dict[str, str]:
        """Of what each module had at first: modules that came later as they are."""
        found: dict[str, str] = {}
        for name, module in runner_modules(DIGESTED):
            first = self._first.get(name)
            own = [(key, one) for key, one in members(module) if (first is None or key in first)]
            found[name] = self._digest(name, own)
        settings = fields(sys.modules.get("hypothesis")).get("settings")
        if settings is not None:  # how it tries examples is no code
            default: Any = getattr(settings, "default", None)
            found["hypothesis.settings"] = short([getattr(default, name, None) for name in HYPOTHESIS])
        for name, module in self._standard():
            if name not in self._first and name not in self._there:
                self._late[name] = list(members(module))
                if name not in found:
                    # names from elsewhere may come when they are asked for; what is the project's is told by its name
                    homes = {key for key, one in list(fields(module).items()) if home_of(one) == name}
                    own = [(key, one) for key, one in self._late[name] if key.partition(".")[0] in homes]
                    is_mixed = any(_is_of_a_library(name, one) for _, one in own)
                    found[name + (" with a library" if is_mixed else "")] = self._digest(name, own, path_of)
        return found

    def _digest(self, name: str, own: list[tuple[str, Any]], path_of: Any = None) -> str:
        """The module's own code, lines and all, as Python writes it at once; of other code no lines."""
        file = fields(sys.modules.get(name)).get("__file__") if CAN_WRITE_CODE else None
        parts: list[Any] = []
        for key, value in own:
            code = value.__code__ if type(value) is types.FunctionType else next(iter(code_in(value)), None)
            if not isinstance(code, types.CodeType):
                code = "%s %s" % (type(value).__name__, getattr(value, "__qualname__", ""))
            elif code.co_filename != file:
                if path_of and path_of(code.co_filename):
                    continue
                code = self._code.of(code)
            if name + "." + key not in HOOKS:
                parts.append((key, code))
        return blake2b(bytes_of(sorted(parts, key=itemgetter(0))) or b"", digest_size=6).hexdigest()

    def _standard(self) -> Iterator[tuple[str, Any]]:
        """Python's own modules: who compares, reads or writes for a test may stand there."""
        modules: list[tuple[str, Any]] = list(sys.modules.items())
        for name, module in modules:
            is_own = is_a(module, types.ModuleType) and fields(module).get("__name__") == name
            if is_own and is_standard(module, self._folders):
                yield name, module

    def strange(self, path_of: Any) -> Iterator[str]:
        """What stands in others' modules and is the project's, or is not what it says that it is."""
        seen = dict(self._late)
        for name in self._used.difference(self._first, self._there, seen):
            if is_a(sys.modules.get(name), types.ModuleType):
                seen[name] = list(members(sys.modules[name]))
        for name, own in seen.items():
            module: Any = sys.modules.get(name)
            if type(module) is not types.ModuleType:
                yield "the module %s is of a kind %s" % (name, origin(type(module)))
            for key, value in own:
                if path_of(file_of(value)) and name + "." + key not in HOOKS:
                    # of Python's own a digest tells what is gone; to a class of others a project may well add
                    if _comes_first(fields(module), key) if name in self._late else "." not in key:
                        yield "%s.%s is the project's" % (name, key)
                elif name in self._used and "." not in key and _is_alien(value, module):
                    yield "%s.%s is not what %s has" % (name, key, home_of(value))


def _comes_first(own: Any, key: str) -> bool:
    """A method that stands before one which its class inherits."""
    outer, _, inner = key.partition(".")
    cls = own.get(outer)
    return is_a(cls, type) and any(inner in fields_of_class(base) for base in type.mro(cls)[1:])


def file_of(value: Any) -> Any:
    """Where a function's code, or a class, says that it stands."""
    code = next(iter(code_in(value)), None)
    if isinstance(code, types.CodeType):
        return code.co_filename
    return fields(sys.modules.get(home_of(value))).get("__file__") if is_a(value, type) else None


def _is_alien(value: Any, module: Any) -> bool:
    """It says that it is from another module, where another bears its name."""
    if type(value) not in (type, types.FunctionType):
        return False
    home = sys.modules.get(home_of(value))
    name = name_of(value) if type(value) is type else value.__name__
    return home not in (None, module) and fields(home).get(name, value) is not value


def _is_of_a_library(name: str, value: Any) -> bool:
    """Libraries mend Python, as `typing_extensions` does. A runner's own is nobody's to mend."""
    file = file_of(value)
    return type(file) is str and IN_LIBRARY.search(file) is not None and not is_below(name, RUNNERS)


def _is_mock(value: Any) -> bool:
    return any((home_of(cls), name_of(cls)) == ("unittest.mock", "NonCallableMock") for cls in type.mro(type(value)))


def _now(module: Any) -> dict[str, object]:
    """Its code, and plain values of its classes, such as a tolerance."""
    found = dict(members(module))
    own = fields(module)
    for key, cls in list(own.items()):
        if is_a(cls, type) and home_of(cls) == own.get("__name__") and name_of(cls) == key:
            for name, value in list(fields_of_class(cls).items()):
                if type(value) in (int, float, str, bytes) and name[:2] != "__":
                    found[key + "." + name] = value
    return found


def _code_in_tables(modules: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any, object, object]]:
    """Functions that a module keeps by what they are for, as `copy` does."""
    for name, module in modules:
        for key, table in list(fields(module).items()):
            if (
                type(table) is dict
                and len(table) <= MAX_TABLE
                and key[:2] != "__"
                and name + "." + key != "sys.modules"
            ):
                for what, value in list(table.items()):
                    if type(value) in (types.FunctionType, types.BuiltinFunctionType):
                        yield name + "." + key, table, what, value
