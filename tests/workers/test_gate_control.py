"""Code under test that takes its runner apart, and the platform's own tests beside it. Real pytest and unittest, in a
real sandbox, in one task."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from envelope.messages import Workspace
from workers.recipes.junit import ControlCase, cases_of

pytestmark = [pytest.mark.redis, pytest.mark.docker]

WRONG = "def add(a, b):\n    return a * b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
PYTEST = "python -m pytest -q -p no:cacheprovider"
UNITTEST = "python -m unittest"
TESTS = """import calc
import unittest


def test_add():
    assert calc.add(2, 3) == 5


class TestAdd(unittest.TestCase):
    def test_it(self):
        self.assertEqual(calc.add(2, 3), 5)
"""
# A plugin of the change's own, brought in by who imports it; `{}` is its hook.
PLUGIN = """import gc, pytest
class Plugin:
{}
for one in gc.get_objects():
    if type(one).__name__ == "Config":
        one.pluginmanager.register(Plugin())
"""
# name → what the product's module does beside its work
TAMPERING = {
    "the test's own call": "import pytest\npytest.Function.runtest = lambda self: None\n",
    "the class behind unittest's tests": (
        "import _pytest.unittest, pytest\n_pytest.unittest.TestCaseFunction.addFailure = lambda *a, **k: None\n"
        "pytest.Function.runtest = lambda self: None\n"
    ),
    "what makes the report": PLUGIN.format(
        "    @pytest.hookimpl(hookwrapper=True)\n    def pytest_runtest_makereport(self):\n"
        "        (yield).get_result().outcome = 'passed'\n"
    ),
    "who hears of the report": PLUGIN.format(
        "    @pytest.hookimpl(tryfirst=True)\n    def pytest_runtest_logreport(self, report):\n"
        "        report.outcome = 'passed'\n"
    ),
    "the way of a test": PLUGIN.format(
        "    @pytest.hookimpl(tryfirst=True)\n    def pytest_runtest_protocol(self, item):\n"
        "        from _pytest.reports import TestReport\n        for when in ('setup', 'call', 'teardown'):\n"
        "            item.ihook.pytest_runtest_logreport(report=TestReport(item.nodeid, item.location, {},"
        " 'passed', None, when, user_properties=item.user_properties))\n        return True\n"
    ),
    "every call of the runner": (
        "from _pytest.runner import CallInfo\nold = CallInfo.from_call.__func__\n"
        "CallInfo.from_call = classmethod(lambda cls, f, when, reraise=None:"
        " old(cls, f if when != 'call' else lambda: None, when, reraise))\n"
    ),
    "who writes the report": (
        "import _pytest.junitxml as j\nj._NodeReporter.append_failure = j._NodeReporter.append_pass\n"
        "import pytest\npytest.Session.pytest_runtest_logreport = lambda *a, **k: None\n"
        "import atexit, os\natexit.register(os._exit, 0)\n"
    ),
    "the report itself, at the end": (
        "import atexit, os, re, gc\n"
        "def end():\n    path = re.search('--junitxml=(\\\\S+)', os.environ['PYTEST_ADDOPTS'])[1]\n"
        "    text = open(path).read()\n"
        "    open(path, 'w').write(re.sub('<failure.*?</failure>', '', text, flags=re.S))\n    os._exit(0)\n"
        "atexit.register(end)\n"
    ),
    "a report of its own": (
        "import atexit, os, re\n"
        "def end():\n    path = re.search('--junitxml=(\\\\S+)', os.environ['PYTEST_ADDOPTS'])[1]\n"
        '    case = \'<testcase classname="test_calc" name="test_add"/>\'\n'
        '    more = \'<testcase classname="test_calc.TestAdd" name="test_it"/>\'\n'
        "    open(path, 'w').write(f'<testsuites><testsuite>{case}{more}</testsuite></testsuites>')\n    os._exit(0)\n"
        "atexit.register(end)\n"
    ),
    "one test, by its name": (
        "import pytest\nold = pytest.Function.runtest\n"
        "pytest.Function.runtest = lambda self: None if 'test_add' in self.name or 'test_it' in self.name"
        " else old(self)\n"
    ),
    "what is asserted, as tests are read": (
        "import sys, ast\nfrom _pytest.assertion import rewrite\nold = rewrite.rewrite_asserts\n"
        "class Strip(ast.NodeTransformer):\n    def visit_Assert(self, node):\n        return ast.Pass()\n"
        "def strip(mod, *a, **k):\n    ast.fix_missing_locations(Strip().visit(mod))\n    return old(mod, *a, **k)\n"
        "rewrite.rewrite_asserts = strip\n"
        "import unittest\nunittest.TestCase.run = lambda self, result=None: result\n"
    ),
}
UNITTEST_TAMPERING = {
    "every test's run": (
        "import unittest\ndef run(self, result=None):\n    result.startTest(self)\n    result.addSuccess(self)\n"
        "    result.stopTest(self)\nunittest.TestCase.run = run\n"
    ),
    "what is compared": "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n",
    "what failed": "import unittest\nunittest.TestResult.addFailure = lambda *a, **k: None\n",
    "the end": (
        "import os, sys\nsys.stderr.write('.\\n---\\nRan 1 test in 0.000s\\n\\nOK\\n')\n"
        "sys.stderr.flush()\nos._exit(0)\n"
    ),
}


# Here no test of the platform's own is heard of any more: on the base it was, and that is what speaks.
SILENT = ("a report of its own", "the end")


def command(runner: str, number: int, code: str) -> str:
    # what is read last is asserted as code under test wants it to be
    files = {"calc.py": code, "test_calc.py": TESTS, "test_other.py": "import calc\n\n\n" + TESTS}
    writes = [f"printf %s {shlex.quote(text)} > {name}" for name, text in files.items()]
    return " && ".join([f"mkdir -p /tmp/case{number}", f"cd /tmp/case{number}", *writes, runner])


@pytest.fixture(scope="module")
def cases() -> dict[tuple[str, str], str]:
    honest = {
        (runner, kind): code for runner in (PYTEST, UNITTEST) for kind, code in (("right", RIGHT), ("wrong", WRONG))
    }
    tampered = {(PYTEST, name): WRONG + code for name, code in TAMPERING.items()}
    tampered |= {(UNITTEST, name): WRONG + code for name, code in UNITTEST_TAMPERING.items()}
    return {case: command(case[0], number, code) for number, (case, code) in enumerate((honest | tampered).items())}


async def test_a_runner_that_was_taken_apart_is_found_out_and_an_honest_one_is_not(
    hands, workspace: Workspace, cases: dict[tuple[str, str], str]
):
    result = await hands.result(hands.recipe(*cases.values(), agent="verify", workspace=workspace))

    steps: dict[tuple[str, str], dict[str, Any]] = dict(zip(cases, result.output.structured["steps"], strict=True))
    for case, step in steps.items():
        counts = step["tests"] or {}
        seen = (step["control"], bool(counts.get("failed")), step["output_tail"])
        if case[1] in ("right", "wrong"):
            assert seen[:2] == ("held", case[1] == "wrong"), (case, seen)
        else:
            assert seen[0] == ("none" if case[1] in SILENT else "fooled"), (case, seen)


def test_tests_of_the_platforms_own_are_not_counted_and_stand_apart():
    own = "<properties><property name='mark' value='abc 2'/></properties>"
    report = (
        f"<testsuite><testcase classname='t' name='a'>{own}<failure message='AssertionError: abc'/></testcase>"
        f"<testcase classname='t' name='a'/><testcase classname='t' name='b'>{own}</testcase></testsuite>"
    )

    read = cases_of([report.encode()], "mark")

    assert read is not None and (read.counts.total, read.names and read.names.passed) == (1, ("t::a",))
    assert read.controls == (
        ControlCase("t::a", "abc", "failed", 2, True),
        ControlCase("t::b", "abc", "passed", 2, False),
    )
    assert cases_of([report.encode()]) == cases_of([report.encode()], "other")
