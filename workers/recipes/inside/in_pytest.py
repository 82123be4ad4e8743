"""A plugin for pytest: among the project's tests it puts some that must fail, and that nobody counts.

Each goes the whole way of a test, from the loop to the report, and bears the name of a test of its module; but what
prints, and what makes pytest's exit code, does not hear of it. In the report it is known by the property `TOKEN`, whose
value is a word and how many there are in all; and the word stands in its failure.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import os
import random
import secrets
import unittest
from contextlib import suppress
from importlib import import_module
from typing import Any, cast

import pytest

TOKEN = ""  # given by whoever loads this, as the six below
REPORT = ""  # where a report is asked for
TEST: Any = None
PLAIN: Any = None
FORMS: Any = None
MUST_FAIL: Any = None
TELL: Any = None  # where what the tests are is told, see digest.py
MAX_PLACES = 12  # each costs a few milliseconds
LOGS = ("pytest_runtest_logstart", "pytest_runtest_logreport", "pytest_runtest_logfinish")
DEAF = ("terminalreporter", "session", "lfplugin", "stepwiseplugin")
MARKS = ("skip", "skipif", "xfail")  # a test in a module that bears one may not fail


# What a test's hooks are called by, as pytest has it: one kind where conftest.py files of other folders have no part.
RELAYS: list[Any] = []
for home, name in (
    *(("pluggy", "HookRelay"), ("pluggy._hooks", "HookRelay"), ("pluggy._hooks", "_HookRelay")),
    *(("_pytest.main", "FSHookProxy"), ("_pytest.config.compat", "PathAwareHookProxy")),
):
    with suppress(ImportError, AttributeError):
        RELAYS.append(getattr(import_module(home), name))
# Of these hooks everybody who has a part is named: they decide what is run, and what is said of it.
TELLING = (
    *("runtest_protocol", "runtest_setup", "runtest_call", "runtest_teardown", "runtest_makereport", "pyfunc_call"),
    *("runtest_logreport", "report_teststatus", "assertrepr_compare", "runtestloop", "exception_interact"),
)


CONFIGURED: list[Any] = []


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: Any) -> None:
    """Each session has a report of its own: one command may run several, in one process or in many. Those that a test
    runs are told to write into its session's, which is written last."""
    CONFIGURED.append(config)
    options = os.environ.get("PYTEST_ADDOPTS", "")
    if getattr(config.option, "xmlpath", None) == REPORT and len(CONFIGURED) == 1:
        own = REPORT.rpartition("/")[0] + "/" + secrets.token_hex(8) + ".xml"
        config.option.xmlpath = own
        os.environ["PYTEST_ADDOPTS"] = options.replace(REPORT, own)
        config.add_cleanup(lambda: os.environ.__setitem__("PYTEST_ADDOPTS", options))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: Any) -> None:
    if config in CONFIGURED:
        del CONFIGURED[CONFIGURED.index(config) :]


SESSIONS: list[Any] = []  # that run: a test may have one of its own in this process, which nobody is told of


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtestloop(session: Any) -> Any:
    SESSIONS.append(session)
    if len(SESSIONS) > 1:
        yield
        SESSIONS.pop()
        return
    own: list[Any] = []
    manager = session.config.pluginmanager
    TELL("collected", {id(item): _told(item) for item in session.items if isinstance(item, pytest.Function)})
    if not hasattr(session.config, "workerinput") and not manager.hasplugin("dsession"):
        with suppress(Exception):  # a pytest that is not known: there is no control then, and the gate says so
            session.items[:], own = _with_own(session.items)
    TELL("registered", list(manager.get_plugins()))
    yield
    session.items[:] = [item for item in session.items if item not in own]
    TELL("plugins", _plugins(manager))
    TELL("ended")
    SESSIONS.pop()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_setup(item: Any) -> Any:
    if item.session in SESSIONS[:1]:
        TELL("before_setup", id(item), _given(item))
    yield


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call(item: Any) -> Any:
    if item.session not in SESSIONS[:1]:
        yield
        return
    is_own = not isinstance(item, pytest.Function) or any(name == TOKEN for name, _ in item.user_properties)
    TELL("plugins", _plugins(item.config.pluginmanager, None if is_own else item))
    TELL("before_call", id(item), None if is_own else lambda: _told(item))
    made: Any = yield
    own = vars(item)
    has_raised = getattr(made, "excinfo", None) or own.get("_excinfo")
    TELL("after_call", id(item), own.get("_instance", own.get("_testcase")), not has_raised)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> None:
    """What it gives is a part of the test, wherever it stands; but a project may be a plugin that is installed."""
    file = getattr(getattr(fixturedef.func, "__code__", None), "co_filename", "")
    if file not in FIXTURES:
        FIXTURES.add(file)
        installed = request.config.pluginmanager.list_plugin_distinfo()
        if all(getattr(plugin, "__file__", None) != file for plugin, _ in installed):
            TELL("fixture", file)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    made: Any = yield
    # what raised is known before anybody says what it means
    if call.when == "call" and call.excinfo is not None and made.excinfo is None and made.get_result().passed:
        TELL("turned", id(item))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_logreport(report: Any) -> Any:
    yield
    if len(SESSIONS) == 1 and all(name != TOKEN for name, _ in report.user_properties):
        if report.failed:
            TELL("failed", report.nodeid)
        elif report.passed and report.when == "call":
            TELL("passed")


def _told(item: Any) -> Any:
    name = "::".join([*item.nodeid.split("::")[1:-1], getattr(item, "originalname", None) or item.name])
    path = str(getattr(item, "path", None) or item.fspath)

    def facts() -> list[str]:
        """What would be called in a method's place, and the values that the test's own name tells."""
        kind: Any = type(item)
        called = ["%x" % id(kind), *_of_fixtures(item)]
        called += [key for key in vars(item) if callable(getattr(kind, key, None))]
        given: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", None) or {}
        home = getattr(getattr(item, "module", None), "__name__", "")
        return [*called, *(key + "=" + PLAIN(value, home) for key, value in given.items())]

    return TEST(name, path, getattr(item, "module", None), lambda: item.obj, facts, _given(item))


def _given(item: Any) -> list[str]:
    return sorted(vars(item).get("funcargs") or ())


def _of_fixtures(item: Any) -> list[str]:
    """Which functions would be asked for what it is given."""
    known: dict[str, Any] = getattr(vars(item).get("_fixtureinfo"), "name2fixturedefs", {})
    return ["%s by %x" % (name, id(one.func)) for name, found in known.items() for one in found]


FIXTURES: set[str] = set()
USED: dict[str, list[str]] = {}  # a module's ways to assert
SEEN: dict[tuple[str, Any], int] = {}


def _plugins(manager: Any, item: Any = None) -> list[tuple[str, Any]]:
    """Who has a part in what decides, and is new there."""
    found: list[tuple[str, Any]] = [("every hook", manager._inner_hookexec)]
    if item is not None and type(item.ihook) not in RELAYS:
        found.append(("the hooks of a test", type(item.ihook)))
    for name in TELLING:
        caller = getattr(manager.hook, "pytest_" + name)
        found += [("callers", type(caller)), ("calls", getattr(caller, "_hookexec", None))]
        found += [(name, one.function) for one in caller.get_hookimpls()]
    new = [one for one in found if one not in SEEN and getattr(one[1], "__globals__", None) is not globals()]
    SEEN.update(dict.fromkeys(new, 1))
    return new


def _with_own(items: list[Any]) -> tuple[list[Any], list[Any]]:
    fit = [number for number, item in enumerate(items) if _is_fit(item)]
    if not fit:
        return items, []
    chance = random.SystemRandom()  # the tests' own random numbers stay what they are
    sites = sorted(chance.sample(fit, min(len(fit), MAX_PLACES)))
    # the last ones come when all code has had its say
    places = [(_start(items, site), items[site]) for site in sites] + [(_end(items, fit[-1]), items[fit[-1]])] * 3
    import_module("test_" + __name__)  # late, and as the project's tests are
    total = len(places)
    made: list[tuple[int, Any]] = []
    for number, (place, site) in enumerate(places):
        made.append((place, _made(site, number, total)))
    together: list[Any] = []
    for number in range(len(items) + 1):
        together += [own for place, own in made if place == number]
        together += items[number : number + 1]
    return together, [own for _, own in made]


def _forms_of(module: Any) -> list[str]:
    name = module.__name__
    if name not in USED:
        USED[name] = FORMS(module)
    return USED[name]


def _is_fit(item: Any) -> bool:
    in_module = isinstance(item, pytest.Function) and item.getparent(pytest.Module) is not None
    return in_module and not any(item.get_closest_marker(mark) for mark in MARKS)


def _start(items: list[Any], number: int) -> int:
    """Before it, and before its class: nothing comes between tests of a class, which may build on each other."""
    while number and _share_a_class(items[number - 1], items[number]):
        number -= 1
    return number


def _end(items: list[Any], number: int) -> int:
    while number + 1 < len(items) and _share_a_class(items[number], items[number + 1]):
        number += 1
    return number + 1


def _share_a_class(one: Any, other: Any) -> bool:
    outer = _outermost(one)
    return outer is not None and outer is _outermost(other)


def _outermost(item: Any) -> Any:
    return next((node for node in item.listchain() if isinstance(node, pytest.Class)), None)


def _made(site: Any, number: int, total: int) -> Any:
    word, forms = secrets.token_hex(8), _forms_of(site.module)

    def must_fail(case: Any) -> None:
        MUST_FAIL(word, forms, number, case, _plain)

    item = _in_class(site, must_fail) or _function(site, must_fail)
    item.user_properties.append((TOKEN, "%s %d" % (word, total)))
    if item.config.pluginmanager.hasplugin("rerunfailures"):
        item.add_marker(pytest.mark.flaky(reruns=0))
    kind: Any = type(item)  # pyright: ignore[reportUnknownVariableType]
    item.__class__ = type(kind.__name__, (kind,), {"ihook": property(lambda self: _Quiet(kind.ihook.fget(self), self))})
    return item


def _plain(word: str) -> None:
    import_module("test_" + __name__).must_fail(word)


def _function(site: Any, must_fail: Any) -> Any:
    def test() -> None:
        must_fail(unittest.TestCase("__init__"))

    test.__name__ = test.__qualname__ = site.originalname
    test.__module__ = site.function.__module__
    kind: Any = pytest.Function
    given = getattr(site, "callspec", None)  # a fixture that all tests have may be one with parameters
    return kind.from_parent(site.getparent(pytest.Module), name=site.name, callobj=test, callspec=given)


def _in_class(site: Any, must_fail: Any) -> Any:
    """Of a unittest class another one of that name, for pytest runs their tests in a way of their own."""
    cls, name = getattr(site, "cls", None), site.name
    if not (isinstance(cls, type) and issubclass(cls, unittest.TestCase) and name.startswith("test")):
        return None

    case: Any = type(cls.__name__, (unittest.TestCase,), {name: must_fail, "__module__": cls.__module__})
    module = site.getparent(pytest.Module)
    made: Any = module.ihook.pytest_pycollect_makeitem(collector=module, name=case.__name__, obj=case)
    node = cast("Any", made[0] if isinstance(made, list) else made)
    node.obj = case  # it would look for the name in the module
    return next(iter(node.collect()), None)


class _Quiet:
    """The hooks of a test, without those who count it or write of it."""

    def __init__(self, hooks: Any, item: Any) -> None:
        self._hooks, self._plugins = hooks, item.config.pluginmanager

    def __getattr__(self, name: str) -> Any:
        if name not in LOGS:
            return getattr(self._hooks, name)
        deaf = [plugin for plugin in map(self._plugins.get_plugin, DEAF) if plugin is not None]
        return self._plugins.subset_hook_caller(name, remove_plugins=deaf)
