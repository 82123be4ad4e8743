"""What `python -m unittest` loads before all else: when its tests are over, the same runner gets some that must fail.

They bear names of tests of the project; what the runner says of them goes to the file `REPORT`, and nowhere else.
"""

from __future__ import annotations

import sys
from typing import Any

REPORT = ""  # given by whoever loads this
MAX_TESTS = 12


def is_unittest() -> bool:
    with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123 - every Python pays for what is imported here
        words = file.read().split(b"\0")
    return b"-munittest" in words or (b"-m", b"unittest") in zip(words, words[1:])  # noqa: B905, RUF007 - in Python 3.8, too


def watch() -> None:
    import unittest
    from contextlib import suppress

    program: Any = unittest.TestProgram
    run_tests = program.runTests

    def and_then_the_own(self: Any) -> None:
        names = _names(self.test)  # a suite forgets its tests as they run
        try:
            run_tests(self)
        finally:
            with suppress(Exception):  # a runner that is not known: there is no control then, and the gate says so
                _run_own(self.testRunner, names)

    program.runTests = and_then_the_own


def _names(suite: Any) -> list[tuple[str, str, str]]:
    """Class, its module and method of the project's tests, as many as are needed, by chance."""
    import random

    waiting: list[Any] = [suite]
    found: list[Any] = []
    while waiting:
        one = waiting.pop()
        try:
            waiting += list(one)
        except TypeError:
            found.append(one)
    some = random.SystemRandom().sample(found, min(len(found), MAX_TESTS))
    return [(type(one).__name__, type(one).__module__, getattr(one, "_testMethodName", "test")) for one in some]


def _run_own(runner: Any, names: list[tuple[str, str, str]]) -> None:
    import io
    import unittest

    def must_fail(self: Any) -> None:
        self.assertEqual(1, 2)

    suite, said = unittest.TestSuite(), io.StringIO()
    for cls, module, name in names:
        suite.addTest(type(cls, (unittest.TestCase,), {name: must_fail, "__module__": module})(name))
    kind = runner if isinstance(runner, type) else type(runner)
    kind(stream=said).run(suite)
    with open(REPORT, "w") as file:  # noqa: PTH123
        file.write(said.getvalue())


def load_the_other(own: str) -> None:
    """The one that would have been loaded in this one's place."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if path != own])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))
