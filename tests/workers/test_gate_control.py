"""Code under test that takes its runner apart, and the platform's own tests beside it: real pytest and unittest, as
plain processes of this host, and a few of them in a real sandbox."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from lab.bare import BareSandbox, bare_python
from lab.schedule import SOAK

from envelope.messages import Workspace
from envelope.recipe import RecipeParams
from orchestrator.gating.obstacle import obstacle_in
from workers.recipes.commands import run_recipe
from workers.recipes.junit import ControlCase, cases_of

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
        "path = re.search('--junitxml=(\\\\S+)', os.environ['PYTEST_ADDOPTS'])[1]\ndef end():\n"
        "    text = open(path).read()\n"
        "    open(path, 'w').write(re.sub('<failure.*?</failure>', '', text, flags=re.S))\n    os._exit(0)\n"
        "atexit.register(end)\n"
    ),
    "a report of its own": (
        "import atexit, os, re\n"
        "path = re.search('--junitxml=(\\\\S+)', os.environ['PYTEST_ADDOPTS'])[1]\ndef end():\n"
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


HONEST = {(runner, name): code for runner in (PYTEST, UNITTEST) for name, code in (("right", RIGHT), ("wrong", WRONG))}
TAMPERED = {
    **{(PYTEST, name): WRONG + code for name, code in TAMPERING.items()},
    **{(UNITTEST, name): WRONG + code for name, code in UNITTEST_TAMPERING.items()},
}
# Of each runner one is tried in a real sandbox: what is different there is how the platform comes to know of it.
IN_A_SANDBOX = [*HONEST, (PYTEST, "the test's own call"), (UNITTEST, "the end")]
# Here one of a kind; the others are for `make soak`, as are those of tests/chaos/lab/lies.py.
SAMPLE = [
    *((PYTEST, name) for name in ("who hears of the report", "the report itself, at the end", "a report of its own")),
    *((UNITTEST, name) for name in ("what is compared", "what failed")),
]


def files(code: str) -> dict[str, str]:
    # what is read last is asserted as code under test wants it to be
    return {"calc.py": code, "test_calc.py": TESTS, "test_other.py": "import calc\n\n\n" + TESTS}


def check(case: tuple[str, str], step: dict[str, Any]) -> None:
    seen = step["control"], bool((step["tests"] or {}).get("failed"))
    if case in HONEST:
        assert seen == ("held", case[1] == "wrong") and step["digest"], (case, step)
    else:
        assert seen[0] == ("none" if case[1] in SILENT else "fooled"), (case, step)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("python"))


@pytest.mark.parametrize("case", [*HONEST, *TAMPERED] if SOAK else SAMPLE, ids="-".join)
async def test_a_runner_that_was_taken_apart_is_found_out_and_an_honest_one_is_not(case, python: Path, tmp_path: Path):
    for name, text in files((HONEST | TAMPERED)[case]).items():
        (tmp_path / name).write_text(text)
    sandbox = BareSandbox(tmp_path, python)
    try:
        [step] = await run_recipe(sandbox, RecipeParams(commands=(case[0],)), lambda _: None, counts_tests=True)  # pyright: ignore[reportArgumentType]
    finally:
        sandbox.close()

    check(case, step.model_dump())


PUT_BACK = {
    "calc.py": "import test_calc\nadd = lambda a, b: a * b\ndef begin():\n    test_calc.EXPECTED = 6\n"
    "def end():\n    test_calc.EXPECTED = 5\n",
    "test_calc.py": "import calc, unittest\nEXPECTED = 5\nclass TestAdd(unittest.TestCase):\n"
    "    def test_a(self): calc.begin()\n    def test_b(self): self.assertEqual(calc.add(2, 3), EXPECTED)\n"
    "    def test_c(self): calc.end()\n",
}


@pytest.mark.parametrize("runner", [PYTEST, UNITTEST])
async def test_a_value_is_looked_at_before_each_test(runner: str, python: Path, tmp_path: Path):
    for name, text in PUT_BACK.items():
        (tmp_path / name).write_text(text)
    sandbox = BareSandbox(tmp_path, python)
    try:
        [step] = await run_recipe(sandbox, RecipeParams(commands=(runner,)), lambda _: None, counts_tests=True)  # pyright: ignore[reportArgumentType]
    finally:
        sandbox.close()

    assert step.exit_code == 0 and step.digest is not None
    assert "test_calc.py: EXPECTED" in step.digest.changed


# Two sessions, of which the first runs one of its own: in another process, and in its own one.
NESTED = """import subprocess, sys, pytest
def test_process(tmp_path):
    (tmp_path / "test_inner.py").write_text("def test_inner(): assert 0")
    assert subprocess.run([sys.executable, "-m", "pytest", str(tmp_path)], stdout=subprocess.DEVNULL).returncode == 1
def test_own(tmp_path):
    (tmp_path / "test_deeper.py").write_text("def test_deeper(): assert 0")
    assert pytest.main([str(tmp_path), "-p", "no:terminal"]) == 1
"""
SESSIONS = {
    "one/test_one.py": NESTED,
    "two/test_two.py": "import pytest\ndef test_two(): pass\n@pytest.mark.skip\ndef test_skipped(): pass\n",
    "three/test_three.py": "import unittest\nclass T(unittest.TestCase):\n    def test_three(self): pass\n",
    "both.py": "import sys, pytest\nsys.exit(max([pytest.main(['-q', one]) for one in ('one', 'two')]))\n",
}
UNDER = "python -m unittest discover -s three"


@pytest.mark.parametrize(
    ("command", "held", "control", "counted", "beside"),
    [
        (f"{PYTEST} one; {PYTEST} two", 2, True, ("junit", 3, 1), {"pytest": 3}),
        ("python both.py", 2, True, ("junit", 3, 1), {"pytest": 3}),
        # nobody gives each session a report of its own, but what they print tells of all
        (f"{PYTEST} one; {PYTEST} two", 0, False, ("junit", 1, 1), {"pytest": 3}),
        (f"{UNDER}; {PYTEST} two; {UNDER}", 3, True, ("junit", 1, 1), {"pytest": 1, "unittest": 2}),
    ],
)
async def test_each_session_of_a_command_counts(command, held, control, counted, beside, python: Path, tmp_path: Path):
    for name, text in SESSIONS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    sandbox = BareSandbox(tmp_path, python)
    recipe = RecipeParams(commands=(command,), control=control)
    try:
        [step] = await run_recipe(sandbox, recipe, lambda _: None, counts_tests=True)  # pyright: ignore[reportArgumentType]
    finally:
        sandbox.close()

    assert step.tests is not None and step.names is not None
    assert (step.counted_by, step.tests.passed, step.tests.skipped) == counted
    assert {teller: told.passed for teller, told in step.beside.items()} == beside
    assert (step.held, step.exit_code, step.fooled) == (held, 0, ())
    if control and counted[1] == 3:
        assert step.names.passed == ("one.test_one::test_own", "one.test_one::test_process", "two.test_two::test_two")


MANY = """python -c "
import os
os.makedirs('reports')
for number in range({}):
    open(f'reports/{{number}}.xml', 'w').write(f'<testsuite><testcase name=\\'t{{number}}\\'/></testsuite>')
" """


@pytest.mark.parametrize(
    ("count", "unread"), [(1500, ""), (10_001, "more than 10000 reports in junit at reports/*.xml")]
)
async def test_all_reports_are_read_or_none_counts(count: int, unread: str, python: Path, tmp_path: Path):
    sandbox = BareSandbox(tmp_path, python)
    recipe = RecipeParams(commands=(MANY.format(count),), junit="reports/*.xml", control=False)
    try:
        [step] = await run_recipe(sandbox, recipe, lambda _: None, counts_tests=True)  # pyright: ignore[reportArgumentType]
    finally:
        sandbox.close()

    obstacle = obstacle_in([step], 0)
    assert (step.tests is None, unread in step.unread) == (bool(unread), True)
    assert obstacle is None if not unread else obstacle is not None and unread in obstacle.message


@pytest.mark.redis
@pytest.mark.docker
async def test_it_is_found_out_in_a_real_sandbox_as_well(hands, workspace: Workspace):
    commands: list[str] = []
    for number, case in enumerate(IN_A_SANDBOX):
        writes = [f"printf %s {shlex.quote(text)} > {name}" for name, text in files((HONEST | TAMPERED)[case]).items()]
        commands.append(" && ".join([f"mkdir -p /tmp/case{number}", f"cd /tmp/case{number}", *writes, case[0]]))

    # one task for all: on a busy machine it may take long
    request = hands.recipe(*commands, agent="verify", workspace=workspace, deadline_ms=280_000)
    result = await hands.result(request)

    assert result.errors == (), result.errors
    for case, step in zip(IN_A_SANDBOX, result.output.structured["steps"], strict=True):
        check(case, step)


# What an earlier command leaves running: it stops the reader, reads the key that is told, and tells an account of its
# own with nothing in it that became another.
LEFTOVER = """import glob, hashlib, json, os, signal, time

def reader():
    while True:
        for path in glob.glob('/proc/[0-9]*/fd/0'):
            try:
                pipe = os.readlink(path)
            except OSError:
                continue
            if pipe.endswith('/pipe') and os.path.dirname(pipe) not in os.environ['PYTHONPATH']:
                os.kill(int(path.split('/')[2]), signal.SIGSTOP)
                return int(path.split('/')[2]), pipe

process, pipe = reader()
file, heard, keys, said, told = os.open(pipe, os.O_RDWR), b'', {}, [], b''
while not told.endswith(b'}'):
    heard += os.read(file, 4096)
    *lines, heard = heard.split(b'\\n')
    for line in lines:
        name, second, rest = line.split(b' ', 2)
        if name == b'hello':
            keys[second] = bytes.fromhex(rest.decode().split()[0])
            said.append(line)
        else:
            told += rest.split(b' ', 2)[2]
            if rest.split(b' ', 2)[1] == b'0':
                body = b'0 0 ' + json.dumps({**json.loads(told), 'changed': []}).encode()
                sign = hashlib.blake2b(body, key=keys[name], digest_size=16).hexdigest().encode()
                said.append(b'%s %s %s' % (name, sign, body))
os.write(file, b'\\n'.join(said) + b'\\n')
os.kill(process, signal.SIGCONT)
"""


@pytest.mark.redis
@pytest.mark.docker
async def test_a_process_that_an_earlier_command_left_running_tells_nothing_in_the_readers_place(hands, workspace):
    work = {**PUT_BACK, "leftover.py": LEFTOVER}
    writes = [f"printf %s {shlex.quote(text)} > {name}" for name, text in work.items()]
    first = " && ".join(["mkdir -p /tmp/case", "cd /tmp/case", *writes])
    leaves = "cd /tmp/case && { setsid python leftover.py > /tmp/case/said 2>&1 < /dev/null & } && sleep 1 && echo left"

    request = hands.recipe(first, leaves, f"cd /tmp/case && {PYTEST}", agent="verify", workspace=workspace)
    result = await hands.result(request)

    *_, step = result.output.structured["steps"]
    assert step["exit_code"] == 0, step
    assert step["digest"] is not None and "test_calc.py: EXPECTED" in step["digest"]["changed"]


@pytest.mark.redis
@pytest.mark.docker
async def test_a_clock_is_moved_in_the_image_that_muster_builds(hands, workspace: Workspace):
    request = hands.recipe(agent="verify", workspace=workspace)
    params = {"commands": ["date +%s"], "clock": "+90d"}
    request = request.model_copy(update={"input": request.input.model_copy(update={"params": params})})

    [step] = (await hands.result(request)).output.structured["steps"]

    assert (step["clock"], step["exit_code"]) == ("moved", 0)
    assert 89.9 < (int(step["output_tail"]) - time.time()) / 86_400 < 90.1


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
