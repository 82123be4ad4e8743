"""What the tests' code, their helpers and their runner are when a session ends, told where the platform alone listens.

Loaded in pytest's and unittest's process before code under test is. What must not be found by name (the pipe, the key
of what is said, what the runner was at first) lives in the closure of an audit hook, which Python shows to nobody and
takes away from nobody; whoever runs the tests tells it what happens by an event of a name made for this process.
"""

# Objects of any kind are looked at, in any Python from 3.8 on, and what is imported here every process pays for.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import os
import re
import sys
import types
from hashlib import blake2b
from json import dumps
from typing import Any, Iterator

TYPE_CHECKING = False  # all four stand in the namespace already
if TYPE_CHECKING:
    from .code import (
        Code,
        contents,
        fields,
        fields_of_class,
        functions_in,
        home_of,
        is_a,
        is_code,
        members,
        origin,
        plain,
        short,
    )  # fmt: skip
    from .files import Files
    from .names import Names
    from .runner import RUNNERS, Runner, is_below, runner_modules

MAX_SOURCE_BYTES = 1024 * 1024  # of the tests' files that are read again: about 0.2 s
TRACERS = ("sys.settrace", "sys.setprofile", "sys.monitoring.register_callback")
# Whoever writes a file in another's place says so by one of these, and which of what it says is the place.
PLACES = {"os.rename": (0, 1), "os.remove": (0,), "os.truncate": (0,), "os.link": (1,), "os.symlink": (1,)}
FILES = ("open", *PLACES)
# Of unittest's cases, what a class is expected to have of its own.
NOT_DECIDING = frozenset(
    (
        *("setUp", "tearDown", "setUpClass", "tearDownClass", "id", "shortDescription", "countTestCases"),
        *("__init__", "__str__", "__repr__", "__init_subclass__"),
    )
)
SET_CODE = ("__code__", "__defaults__", "__kwdefaults__")
LINE_CHARS = 3000  # a pipe takes 4096 bytes at once or not at all


def is_expecting(code: types.CodeType) -> bool:
    """Does it name what a failed assertion raises? pytest does, once for each assertion that it has rewritten."""
    from dis import get_instructions

    named = [one.argval for one in get_instructions(code) if one.opname.startswith("LOAD_")]
    others = {"Exception", "BaseException", "failureException"}.intersection(named)
    return bool(others) or named.count("AssertionError") > named.count("_format_explanation")


def is_where_it_says(value: Any) -> bool:
    """Under its name in its module. What is made within a function cannot be found."""
    name = getattr(value, "__qualname__", "<locals>")
    found: Any = sys.modules.get(str(getattr(value, "__module__", "")))
    for part in name.split("."):
        found = fields_of_class(found).get(part) if is_a(found, type) else fields(found).get(part)
    return "<locals>" in name or getattr(found, "__func__", found) is value


class Test:
    """One that was collected. `value()` is what its runner calls, `facts()` what else it is given, as text; `given`:
    names of fixtures that have a value already."""

    def __init__(self, name: str, file: str, module: Any, value: Any, facts: Any, given: Any = ()) -> None:
        self.name, self.file, self.module, self.value, self.facts = name, file, module, value, facts
        self.given = list(given)


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

    def __init__(self, root: str, began_ns: int) -> None:
        self._code = Code()
        self._runner, self.files = Runner(self._code), Files(root, self._code, began_ns)
        self._tests: dict[Any, tuple[Test, str, list[str]]] = {}  # by what its runner knows it by
        self._names: dict[str, Names] = {}
        self._digests: dict[str, set[str]] = {}
        self._changed: set[str] = set()
        self._changed_in: dict[str, str] = {}  # of that what is about a file, and which one
        self._plugins: set[str] = set()
        self._plugin_files: set[str] = set()
        self._libraries: set[str] = set()
        self._modules: dict[str, str] = {}  # of the project's own, by file
        self._failed: set[str] = set()
        self._mover, self._folder = "", os.getcwd()  # who has set the working folder, and what it was
        self._passed: int | None = None
        self._failed_assertions = 0  # of the test that runs
        self._fixtures: set[str] = set()
        self._tracers: set[str] = set()
        self.wrong = ""

    def collected(self, tests: dict[Any, Test]) -> None:
        size = 0
        for key, test in tests.items():
            path = self.files.path(test.file)
            test.name = path + "::" + test.name
            self._tests[key] = test, path, self._facts(test)
            if path and path not in self._names and test.module is not None and size < MAX_SOURCE_BYTES:
                size += os.stat(test.file).st_size
                self._know(path, test.module)
            self._look_at_code(key)
        for path, module in self.files.modules():
            if is_conftest(path):
                self._know(path, module)
        self._look_at_loaded()
        self._runner.used(set().union(*(names.used for names in self._names.values())))

    def _know(self, path: str, module: Any) -> None:
        try:
            names = self._names[path] = Names(module, self.files.path)
        except Exception:  # a file that is no Python of this version, or is not there any more
            self._differs(path, ": its names cannot be told")
        else:
            self._differ(path, names.changed())

    def _differs(self, path: str, what: str) -> None:
        said = path + what
        if self._changed_in.setdefault(said, path) != path:
            self._changed.add(said)  # of which of the two nobody could tell

    def _differ(self, path: str, names: Any) -> None:
        for name in names:
            self._differs(path, ": " + name)

    def _test_differs(self, key: Any, what: str) -> None:
        test, path, _ = self._tests[key]
        self._differs(path, test.name[len(path) :] + what)

    def before_setup(self, key: Any, given: Any = ()) -> None:
        """Before its fixtures put for a while what they want where they want. `given`: what has a value already."""
        if key in self._tests:
            self._changed |= self._runner.changed_among_usual(self._is_of_tests)
            if self._mover not in ("", *self._names) and os.getcwd() != self._folder:
                self._changed.add("the working folder: another by " + self._mover)
            if list(given) != self._tests[key][0].given:
                self._test_differs(key, " is given a value by nobody")

    def before_call(self, key: Any, told: Any = None) -> None:
        self._failed_assertions = 0
        if key in self._tests:
            self._look_at_code(key)
            self._look_at_names(self._tests[key][1])
            self._changed |= self._runner.changed_among_critical()
            self._changed |= {"a tracer: " + origin(one) for one in (sys.gettrace(), sys.getprofile()) if one}
        elif told is not None:
            test = told()
            self._differs(self.files.path(test.file), "::" + test.name + " runs, and was not collected")

    def after_call(self, key: Any, own: Any, has_passed: bool | None = None) -> None:
        """`own`: the object whose method the test is, if there is one. It is gone when the next test begins."""
        if key not in self._tests:
            return
        name, given = self._tests[key][0].name, fields(own)
        if type(given) is dict:
            inherited = [fields_of_class(cls) for cls in type.mro(type(own))]
            found = [name for name in list(given) if any(is_code(home.get(name)) for home in inherited)]
            table = given.get("_type_equality_funcs")
            if type(table) is dict:
                found += [origin(one) + ": " + origin(how) for one, how in table.items() if type(how) is not str]
            for one in found:
                self._test_differs(key, " has in its object " + one)
        if has_passed is None:
            has_passed = name.partition("::")[2] not in self._failed
        if has_passed and self._failed_assertions:
            self._test_differs(key, " passes, though an assertion failed in it")

    def asserted(self) -> None:
        """An assertion is about to fail. It may where a function of the tests on the way to here expects that."""
        frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        is_of_test = False
        while frame is not None:
            if self.files.path(frame.f_code.co_filename) in self._names:
                if is_expecting(frame.f_code):
                    return
                is_of_test = True
            frame = frame.f_back
        self._failed_assertions += is_of_test

    def moved(self) -> None:
        self._mover = self.files.asks()

    def traced(self) -> None:
        self._tracers.update(filter(None, [self.files.asks()]))

    def fixture(self, file: str) -> None:
        """A test is given what stands there."""
        self._fixtures.update(filter(None, [self.files.path(file)]))

    def turned(self, key: Any) -> None:
        if key in self._tests:
            self._test_differs(key, " failed, and is reported as passed")

    def failed(self, name: str, key: Any = None) -> None:
        """`key`: of one that runs in a test's own suite nobody is told."""
        if key is None or key in self._tests:
            self._failed.add(name)

    def passed(self) -> None:
        self._passed = (self._passed or 0) + 1

    def plugins(self, found: list[tuple[str, Any]]) -> None:
        """(hook, its function): of plugins in the project's files only where they are."""
        for hook, function in found:
            one = getattr(function, "__func__", function)
            code = getattr(one, "__code__", None)
            path = self.files.path(code.co_filename) if code is not None else ""
            told = hook + ": " + origin(one) + ("" if is_where_it_says(one) else ", which is not there")
            self._plugins.add("plugin " + path if path else told)

    def registered(self, plugins: list[Any]) -> None:
        """Each is a module, or an object of a class that stands in one."""
        for plugin in plugins:
            module = plugin if is_a(plugin, types.ModuleType) else sys.modules.get(str(home_of(plugin)))
            self._plugin_files.update(filter(None, [self.files.path(fields(module).get("__file__"))]))

    def _look_at_loaded(self) -> None:
        for name, path in self.files.loaded():
            if path:
                self._modules[path] = name
            else:
                self._libraries.add(name)

    def set_code(self, function: Any) -> None:
        """What a function does is replaced, while others may run it."""
        name, module = getattr(function, "__qualname__", "?"), getattr(function, "__module__", None) or ""
        if path := self.files.path(getattr(getattr(function, "__code__", None), "co_filename", None)):
            self._differs(path, ": the code of " + name)
        elif is_below(module, RUNNERS):
            self._changed.add("the code of " + module + "." + name)

    def ended(self) -> dict[str, object]:
        self._look_at_loaded()
        for key in self._tests:
            self._look_at_code(key)
        for path, names in self._names.items():
            self._differ(path, names.changed(at_last=True))
        tests = {path for _, path, _ in self._tests.values() if path}
        code: dict[str, dict[str, str]] = {}
        helpers: set[str] = set()
        modules = list(self.files.modules())
        classes = {id(cls) for test, _, _ in self._tests.values() for cls in classes_of(test)}
        others = [module for path, module in modules if path not in tests]
        besides = {test.rpartition("/")[0] for test in tests} - {""}
        for path, module in modules:
            is_test = path in tests or is_conftest(path)
            if found := self.files.functions(path, module, all_of_them=is_test, classes=classes):
                known = [key for key in found if path + "::" + key.replace(".", "::") in self._digests]
                code[path] = {key: digest for key, digest in found.items() if key not in known}
                own = sum(home_of(one) == fields(module).get("__name__") for _, one in members(module))
                named = sum(name.startswith("assert") for name in found)
                is_beside = path.rpartition("/")[0] in besides
                is_helper = (named and 2 * named >= own) or (is_beside and is_only_for_tests(module, others))
                if is_helper and not is_test:
                    helpers.add(path)
        test_code = {*tests, *filter(is_conftest, code)}
        read = {path for path, opener in self.files.read if opener in test_code}
        bodies = {self._place_of(test) for test, _, _ in self._tests.values()} - {""}
        runner = self._runner.digests(self.files.path)
        changed = {*self._runner.changed(), *self._runner.strange(self.files.path)}
        for path in self.files.written(test_code | read, test_code):
            self._differs(path, ": written as the tests ran")
        for path, what in self._decided_elsewhere():
            self._differs(path, what)
        changed |= self._changed
        if self._tracers - test_code:
            changed.add("a tracer: set by the project")
        return {
            "tests": {name: "".join(sorted(digests)) for name, digests in self._digests.items()},
            "code": code,
            "runner": runner,
            "changed": sorted(changed | self._changed_in.keys()),
            "changed_in": {said: path for said, path in self._changed_in.items() if path and said not in changed},
            "plugins": sorted(self._plugins),
            "plugin_files": sorted(self._plugin_files),
            "libraries": sorted(self._libraries),
            "modules": sorted(name for path, name in self._modules.items() if path not in tests),
            "files": sorted(tests | bodies | helpers | read | self._fixtures | set(self._runner_files())),
            "failed": len(self._failed),
            "passed": self._passed,
            "wrong": self.wrong,
        }

    def _decided_elsewhere(self) -> Iterator[tuple[str, str]]:
        """What classes of tests inherit from code that is no test's, and decides whether tests pass."""
        usual = fields_of_class(sys.modules["unittest"].TestCase).keys() - NOT_DECIDING
        classes = {(path, cls) for test, path, _ in self._tests.values() for cls in classes_of(test)}
        for path, cls in classes:
            home = self.files.path(fields(sys.modules.get(home_of(cls))).get("__file__"))
            for key, value in list(fields_of_class(cls).items()) if home and home not in self._names else ():
                if is_code(value) and (key in usual or key.startswith(("assert", "__getattr"))):
                    digests = [self._code.function(one) for one in functions_in(value)]
                    yield path, ": %s is as %s has it, %s" % (key, home, short(digests))

    def _runner_files(self) -> Iterator[str]:
        for name, module in runner_modules(RUNNERS):
            if name != "builtins":
                yield from filter(None, [self.files.path(getattr(module, "__file__", None))])

    def _place_of(self, test: Test) -> str:
        """The file in which its body stands: a class may inherit it."""
        name = test.name.rpartition("::")[2]
        codes = [function.__code__ for function in functions_in(test.value())]
        return next((self.files.path(code.co_filename) for code in codes if code.co_name == name), "")

    def _look_at_code(self, key: Any) -> None:
        test, path, facts = self._tests[key]
        self._digests.setdefault(test.name, set()).add(self.files.of_test(test.value(), path))
        if facts != self._facts(test):
            self._test_differs(key, " is given something else")

    def _look_at_names(self, path: str) -> None:
        for other, names in self._names.items():
            if other == path or is_conftest(other):
                self._differ(other, names.changed())

    def _is_of_tests(self, value: Any) -> bool:
        paths = {self.files.path(function.__code__.co_filename) for function in functions_in(value)}
        return any(is_conftest(path) or path in self._names for path in paths if path)

    def _facts(self, test: Test) -> list[str]:
        home, path = fields(test.module).get("__name__"), self.files.path(test.file)
        functions = [
            one for one in functions_in(test.value()) if self.files.path(one.__code__.co_filename) in ("", path)
        ]
        return [*test.facts(), *[plain(one, home) for function in functions for one in contents(function)]]


def is_conftest(path: str) -> bool:
    return path.rpartition("/")[2] == "conftest.py"


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


def watch(pipe: str, root: str) -> Any:
    """Begins with this process. Whoever runs tests calls what this gives, with a word and what it is about.

    Without a listener at `pipe`, or a Python that knows no audit hooks, nothing is told.
    """
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return lambda *_: None
    os.set_blocking(descriptor, True)
    session = Session(root, os.fstat(descriptor).st_ctime_ns)
    event, owner, name = "control." + os.urandom(16).hex(), os.getpid(), os.urandom(4).hex()
    say = _speaker(descriptor, name, os.urandom(16))

    def placed(what: str, args: Any) -> None:
        for number in PLACES[what]:
            session.files.replaced(args[number])

    def told(_: str, args: Any) -> None:
        found = getattr(session, args[0])(*args[1:]) if os.getpid() == owner else None
        if found is not None:
            say(dumps(found))

    answers: dict[str, Any] = {
        event: told,
        "open": lambda _, args: session.files.opened(args[0], args[2]),
        "object.__setattr__": lambda _, args: session.set_code(args[0]) if args[1] in SET_CODE else None,
        **dict.fromkeys(PLACES, placed),
        "os.chdir": lambda *_: session.moved(),
        **dict.fromkeys(TRACERS, lambda *_: session.traced()),
    }

    def hook(what: str, args: tuple[Any, ...], answer_to: Any = answers.get) -> None:
        answer = answer_to(what)  # of thousands of events a few are answered
        if answer is not None:
            try:
                answer(what, args)
            except Exception as error:  # what raises here would raise in the project's own code
                if what not in FILES:  # a folder that is gone, or a name that nobody can read, is no fault of the tests
                    session.wrong = repr(error)

    sys.addaudithook(hook)
    return functools.partial(sys.audit, event)


def _ancestry() -> Iterator[int]:
    """This process, its parent, and so on."""
    process = os.getpid()
    while process > 1:
        yield process
        try:
            with open("/proc/%d/stat" % process) as file:
                process = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            return


def _speaker(descriptor: int, name: str, key: bytes) -> Any:
    """Each line is signed, and numbered. The key is told before code under test runs, and read at once; and with it
    whose child this is: one that a test starts tells of no tests of the project's."""
    number = 0
    write, digest = os.write, blake2b
    words = [name, key.hex(), *map(str, _ancestry())]
    write(descriptor, b"hello %s\n" % " ".join(words).encode())

    def say(text: str) -> None:
        nonlocal number
        parts = [text[start : start + LINE_CHARS] for start in range(0, len(text), LINE_CHARS)]
        for left, part in zip(range(len(parts) - 1, -1, -1), parts):
            body = b"%d %d %s" % (number, left, part.encode())
            sign = digest(body, key=key, digest_size=16).hexdigest()
            write(descriptor, b"%s %s %s\n" % (name.encode(), sign.encode(), body))
            number += 1

    return say
