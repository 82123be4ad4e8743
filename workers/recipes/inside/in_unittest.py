"""For `python -m unittest`: when its tests are over, the same runner gets some that must fail.

They bear names of tests of the project; what the runner says of them goes to the file `REPORT`, and nowhere else.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import sys
from typing import Any

REPORT = ""  # given by whoever loads this, as the four below
TEST: Any = None
FORMS: Any = None
MUST_FAIL: Any = None
TELL: Any = None  # where what the tests are is told, see digest.py
MAX_TESTS = 12


__unittest = True  # so that unittest leaves the frames of this file out of what it prints


def watch() -> None:
    import unittest
    from contextlib import contextmanager, suppress

    program: Any = unittest.TestProgram
    run_tests = program.runTests

    def and_then_the_own(self: Any) -> None:
        cases = _cases(self.test)  # a suite forgets its tests as they run
        names = _names(cases)
        TELL("collected", {id(case): _told(case) for case in cases})
        try:
            run_tests(self)
        finally:
            TELL("ended")
            with suppress(Exception):  # a runner that is not known: there is no control then, and the gate says so
                _run_own(self.testRunner, names)

    program.runTests = and_then_the_own
    one: Any = unittest.TestCase
    run = one.run

    def looked_at_first(self: Any, result: Any = None) -> Any:
        TELL("before_setup", id(self))
        TELL("before_call", id(self), lambda: _told(self))
        try:
            return run(self, result)
        finally:
            TELL("after_call", id(self), self)

    one.run = looked_at_first
    outcome: Any = unittest.case._Outcome  # pyright: ignore
    part = outcome.testPartExecutor

    @contextmanager
    def heard(self: Any, case: Any, *given: Any, **named: Any) -> Any:
        """A failure is known where it happens, whatever becomes of it."""
        with part(self, case, *given, **named):
            try:
                yield
            except (unittest.SkipTest, KeyboardInterrupt):
                raise
            except BaseException as error:
                if not self.expecting_failure and type(error).__name__ != "_ShouldStop":
                    TELL("failed", _name(case), id(_whole(case)))
                raise

    outcome.testPartExecutor = heard


def _whole(case: Any) -> Any:
    """Of a part of a test the test."""
    return getattr(case, "test_case", case)


def _name(case: Any) -> str:
    case = _whole(case)
    return "%s::%s" % (type(case).__qualname__, getattr(case, "_testMethodName", ""))


def _cases(suite: Any) -> list[Any]:
    waiting: list[Any] = [suite]
    found: list[Any] = []
    while waiting:
        one = waiting.pop()
        try:
            waiting += list(one)
        except TypeError:
            found.append(one)
    return found


def _told(case: Any) -> Any:
    """Of a test that could not be loaded there is no more than its name."""
    cls: Any = type(case)
    name: str = getattr(case, "_testMethodName", "")
    facts = lambda: [getattr(case, "_testMethodName", ""), "%x" % id(type(case))]  # noqa: E731
    module = sys.modules.get(cls.__module__)
    path = getattr(module, "__file__", None) or ""
    return TEST(_name(case), path, module, lambda: getattr(cls, name, None), facts)


def _names(cases: list[Any]) -> list[tuple[str, str, str]]:
    """Class, its module and method of the project's tests, as many as are needed, by chance."""
    import random

    some = random.SystemRandom().sample(cases, min(len(cases), MAX_TESTS))
    return [(type(one).__name__, type(one).__module__, getattr(one, "_testMethodName", "test")) for one in some]


def _run_own(runner: Any, names: list[tuple[str, str, str]]) -> None:
    import io
    import unittest

    suite, said = unittest.TestSuite(), io.StringIO()
    for number, (cls, module, name) in enumerate(names):
        forms = FORMS(sys.modules[module]) if module in sys.modules else ["assert"]
        must_fail = _failing(forms, number)
        suite.addTest(type(cls, (unittest.TestCase,), {name: must_fail, "__module__": module})(name))
    kind = runner if isinstance(runner, type) else type(runner)
    kind(stream=said).run(suite)
    with open(REPORT, "a") as file:  # a command may have several sessions
        file.write(said.getvalue())


def _failing(forms: list[str], number: int) -> Any:
    def must_fail(self: Any) -> None:
        MUST_FAIL("must fail", forms, number, self, _plain)

    return must_fail


def _plain(word: str) -> None:
    assert word == "", word
