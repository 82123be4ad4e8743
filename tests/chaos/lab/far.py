"""More lies, by routes that lie farther off: what the product swallows, what is loaded in another's place, the runner's
own objects, values that hold values, files that are written by the back door. Each has a small project of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CORE = """
import contextlib, functools, math

def add(a, b):
    return a + b

def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2

@contextlib.contextmanager
def timed():
    yield []

def logged(function):
    @functools.wraps(function)
    def inner(*a, **k):
        return function(*a, **k)
    return inner

def each(values, told):
    told(median(values))

def run(coro):
    import asyncio
    return asyncio.run(coro)

def seen(wanted):
    return len(wanted)

class Mixin:
    def setUp(self):
        self.base = 1

class Case(__import__("unittest").TestCase):
    def setUp(self):
        self.base = 1
"""
WRONG = CORE.replace("return ordered[middle]\n", "return ordered[0]\n", 1)
assert WRONG != CORE
HEAD = """import collections, types, decimal, unittest
from dataclasses import dataclass
import pytest
import calc.core as core
@dataclass
class C:
    values: list
    expected: object
"""


def pytests(body: str, head: str = "") -> str:
    return (
        HEAD
        + head
        + "\n\ndef test_a_first():\n    assert core.add(1, 1) == 2\n\n"
        + body
        + "\n\ndef test_z_last():\n    assert core.add(1, 2) == 3\n"
    )


def unittests(body: str, head: str = "", cls: str = "unittest.TestCase") -> str:
    return (
        HEAD.replace("import pytest\n", "")
        + head
        + f"\n\nclass TestIt({cls}):\n    def test_a_first(self):\n        self.assertEqual(core.add(1, 1), 2)\n\n"
        + body
        + "\n    def test_z_last(self):\n        self.assertEqual(core.add(1, 2), 3)\n"
    )


PLAIN = "def test_m():\n    assert core.median([1, 9, 4]) == 4\n"
PLAIN2 = (
    "def test_b():\n    assert core.median([1, 9, 4]) == 4\n\n\ndef test_c():\n    assert core.median([5, 1, 3]) == 3\n"
)
UPLAIN = "    def test_m(self):\n        self.assertEqual(core.median([1, 9, 4]), 4)\n"
P, UN = "python -m pytest -q -p no:cacheprovider", "python -m unittest discover -s tests -t ."


@dataclass(frozen=True)
class Far:
    """`base`: the project; `files`: the change. `unseen` as in `lies.py`."""

    id: str
    base: Mapping[str, str]
    command: str
    files: Mapping[str, str | None]
    unseen: str = ""


FAR: list[Far] = []


def lie(
    name: str,
    tests: str | Mapping[str, str],
    trick: str,
    *,
    command: str = P,
    core: str = "",
    base_core: str = CORE,
    more: Mapping[str, str] | None = None,
    unseen: str = "",
) -> None:
    """`trick`: behind the wrong product, or `core` is all of it. `more`: what the change has besides."""
    files = {"tests/test_it.py": tests} if isinstance(tests, str) else dict(tests)
    base = {"calc/__init__.py": "", "calc/core.py": base_core, **files}
    if command == UN:
        base["tests/__init__.py"] = ""
    FAR.append(Far(name, base, command, {"calc/core.py": core or WRONG + trick, **(more or {})}, unseen))


# What an assertion raises passes through the product's own code on its way out of the test, and that swallows it.
lie(
    "swallow: context manager",
    pytests("def test_m():\n    with core.timed():\n        assert core.median([1, 9, 4]) == 4\n"),
    "",
    core=WRONG.replace("    yield []", "    with contextlib.suppress(AssertionError):\n        yield []"),
)
lie(
    "swallow: decorator",
    pytests("@core.logged\ndef test_m():\n    assert core.median([1, 9, 4]) == 4\n"),
    "",
    core=WRONG.replace(
        "        return function(*a, **k)",
        "        with contextlib.suppress(AssertionError):\n            return function(*a, **k)",
    ),
)
lie(
    "swallow: callback",
    pytests("def test_m():\n    def told(v):\n        assert v == 4\n    core.each([1, 9, 4], told)\n"),
    "",
    core=WRONG.replace(
        "    told(median(values))", "    with contextlib.suppress(AssertionError):\n        told(median(values))"
    ),
)
lie(
    "swallow: coroutine",
    pytests("def test_m():\n    async def main():\n        assert core.median([1, 9, 4]) == 4\n    core.run(main())\n"),
    "",
    core=WRONG.replace(
        "    return asyncio.run(coro)",
        "    with contextlib.suppress(AssertionError):\n        return asyncio.run(coro)",
    ),
)
lie(
    "swallow: context manager (unittest)",
    unittests(
        "    def test_m(self):\n        with core.timed():\n            self.assertEqual(core.median([1, 9, 4]), 4)\n"
    ),
    "",
    command=UN,
    core=WRONG.replace("    yield []", "    with contextlib.suppress(AssertionError):\n        yield []"),
)
for n, add in {
    "assertEqual": "    def assertEqual(self, *a):\n        pass\n",
    "run": "    def run(self, result=None):\n        result.startTest(self); result.addSuccess(self); result.stopTest(self); return result\n",
    "call": "    def _callTestMethod(self, method):\n        with contextlib.suppress(AssertionError):\n            method()\n",
    "failureException": "    class failureException(__import__('unittest').SkipTest):\n        pass\n",
}.items():
    for c, w in ((P, "pytest"), (UN, "unittest")):
        lie(f"base class: {n} ({w})", unittests(UPLAIN, cls="core.Case"), add, command=c)
lie(
    "mixin: assertEqual (unittest)",
    unittests(UPLAIN, cls="core.Mixin, unittest.TestCase"),
    "",
    command=UN,
    core=WRONG.replace("class Case(", "    def assertEqual(self, *a):\n        pass\n\nclass Case("),
)
# What is loaded in the place of what the tests' files name.
FINDER = """
import sys
class F:
    def find_spec(self, name, path=None, target=None):
        if name.rpartition(".")[2] not in ("test_two",):
            return None
        for one in sys.meta_path:
            if one is not self and hasattr(one, "find_spec"):
                spec = one.find_spec(name, path, target)
                if spec is not None:
                    spec.loader = L(spec.loader)
                    return spec
class L:
    def __init__(self, inner): self.inner = inner
    def __getattr__(self, name): return getattr(self.inner, name)
    def create_module(self, spec): return None
    def exec_module(self, module):
        import builtins
        mine = dict(vars(builtins))
        mine["abs"] = lambda x: 0
        mine["sorted"] = lambda *a, **k: S()
        module.__dict__["__builtins__"] = mine
        self.inner.exec_module(module)
        module.__spec__.loader = module.__loader__ = self.inner
class S(list):
    def __eq__(self, o): return True
sys.meta_path.insert(0, F())
"""
TWO = {
    "tests/test_it.py": pytests(""),
    "tests/test_two.py": "import calc.core as core\n\n\ndef test_m():\n    assert abs(core.median([1, 9, 4]) - 4) < 1e-9\n",
}
lie("loader: builtins of a test's module", TWO, FINDER)
TWOU = {
    "tests/test_it.py": unittests(""),
    "tests/test_two.py": "import unittest\n\nimport calc.core as core\n\n\nclass TestTwo(unittest.TestCase):\n    def test_m(self):\n        self.assertTrue(abs(core.median([1, 9, 4]) - 4) < 1e-9)\n",
}
lie("loader: builtins of a test's module (unittest)", TWOU, FINDER, command=UN)
STAT = {
    "tests/test_it.py": "import calc.core as core\nimport statistics\n\ndef test_a():\n    assert core.add(1, 1) == 2\n\ndef test_m():\n    assert core.median([1, 9, 4]) == statistics.median([1, 9, 4])\n"
}
lie(
    "loader: statistics from a folder put on the path",
    STAT,
    "\nimport sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'vendor'))\n",
    more={"calc/vendor/statistics.py": "def median(values):\n    return sorted(values)[0]\n"},
)
lie(
    "loader: statistics is a module of the product",
    STAT,
    "\nimport sys\nsys.modules['statistics'] = sys.modules[__name__]\n",
)
lie(
    "loader: statistics by a finder",
    STAT,
    "\nimport sys, os, importlib.util\nclass F:\n    def find_spec(self, name, path=None, target=None):\n        if name == 'statistics':\n            return importlib.util.spec_from_file_location(name, os.path.join(os.path.dirname(__file__), 'stats.py'))\nsys.meta_path.insert(0, F())\n",
    more={"calc/stats.py": "def median(values):\n    return sorted(values)[0]\n"},
)
JS = {
    "tests/test_it.py": "import calc.core as core\nimport json\n\ndef test_a():\n    assert core.add(1, 1) == 2\n\ndef test_m():\n    assert json.dumps([core.median([1, 9, 4])]) == '[4]'\n"
}
lie(
    "loader: json is a module of the product",
    JS,
    "\nimport sys\ndef dumps(v): return '[4]'\nsys.modules['json'] = sys.modules[__name__]\n",
)
lie(
    "loader: json's name in calc",
    JS,
    "\nimport sys, types\nm = types.ModuleType('json'); m.dumps = lambda v: '[4]'\nsys.modules['json'] = m\n",
)
HELP = {
    "tests/test_it.py": "import calc.core as core\nfrom helpers import same\n\ndef test_a():\n    assert core.add(1, 1) == 2\n\ndef test_m():\n    same(core.median([1, 9, 4]), 4)\n",
    "tests/helpers.py": "def same(a, b):\n    assert a == b\n",
}
lie(
    "loader: helper beside the tests is shadowed",
    HELP,
    "\nimport sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'compat'))\n",
    more={"calc/compat/helpers.py": "def same(a, b):\n    return a == b\n"},
)
lie(
    "loader: helper is in sys.modules already",
    HELP,
    "\nimport sys\ndef same(a, b): pass\nsys.modules['helpers'] = sys.modules[__name__]\n",
)
HELPV = {
    "tests/test_it.py": "import calc.core as core\nfrom helpers import wanted\n\ndef test_a():\n    assert core.add(1, 1) == 2\n\ndef test_m():\n    assert core.median([1, 9, 4]) == wanted()\n",
    "tests/helpers.py": "def wanted():\n    return 4\n",
}
lie(
    "loader: helper that tells values is shadowed",
    HELPV,
    "\nimport sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'compat'))\n",
    more={"calc/compat/helpers.py": "def wanted():\n    return 1\n"},
)
HELPC = {
    "tests/test_it.py": "import calc.core as core\nfrom values import WANTED\n\ndef test_a():\n    assert core.add(1, 1) == 2\n\ndef test_m():\n    assert core.median([1, 9, 4]) == WANTED\n",
    "tests/values.py": "WANTED = 4\n",
}
lie(
    "loader: constants beside the tests are changed",
    HELPC,
    "\nimport sys\n_add = add\ndef add(a, b):\n    sys.modules['values'].WANTED = sys.modules['test_it'].WANTED = 1\n    return _add(a, b)\n",
)
lie(
    "loader: constants beside the tests are laid first",
    HELPC,
    "\nimport sys, types\nm = types.ModuleType('values'); m.WANTED = 1; sys.modules['values'] = m\n",
)
# Objects of pytest's, found by a search.
GC = """
import gc, sys
def objects(name):
    return [o for o in gc.get_objects() if type(o).__name__ == name and type(o).__module__ not in ("digest", "ast")]
done = []
_add = add
def add(a, b):
    if not done:
        done.append(1)
        trick()
    return _add(a, b)
"""
TWO_TESTS = pytests(PLAIN2)
lie(
    "item: another class",
    TWO_TESTS,
    GC
    + """
def trick():
    for item in objects("Function"):
        if item.name in ("test_b", "test_c"):
            kind = type(item)
            item.__class__ = type("Function", (kind,), {"__module__": kind.__module__, "runtest": lambda self: None})
""",
)
PARAM = pytests(
    '@pytest.mark.parametrize("expected", [4])\ndef test_b(expected):\n    assert core.median([1, 9, 4]) == expected\n'
)
lie(
    "item: values given beforehand",
    PARAM,
    GC
    + """
def trick():
    for item in objects("Function"):
        if item.name.startswith("test_b"):
            item.funcargs["expected"] = 1
""",
)
FIX = pytests(
    "@pytest.fixture\ndef wanted():\n    return 4\n\n\ndef test_b(wanted):\n    assert core.median([1, 9, 4]) == wanted\n"
)
lie(
    "item: a fixture's value given beforehand",
    FIX,
    GC
    + """
def trick():
    for item in objects("Function"):
        if item.name.startswith("test_b"):
            item.funcargs["wanted"] = 1
""",
)
lie(
    "fixture: another function",
    FIX,
    GC
    + """
def trick():
    for one in objects("FixtureDef"):
        if one.argname == "wanted":
            object.__setattr__(one, "func", lambda: 1)
""",
)
SFIX = pytests(
    "@pytest.fixture(scope='session')\ndef wanted():\n    return {'answer': 4}\n\n\ndef test_0(wanted):\n    assert core.seen(wanted) == 1\n\n\ndef test_b(wanted):\n    assert core.median([1, 9, 4]) == wanted['answer']\n"
)
lie(
    "fixture: a session's value changed by whom it is given to",
    SFIX,
    "",
    core=WRONG.replace("    return len(wanted)", "    wanted['answer'] = 1\n    return len(wanted)"),
    unseen="handed over",
)
lie(
    "fixture: a kept result",
    SFIX.replace("core.seen(wanted)", "len(wanted)").replace(
        "def test_b(", "def test_1():\n    assert core.add(1, 1) == 2\n\n\ndef test_b("
    ),
    GC.replace("if not done", "if len(done) < 9")
    + """
def trick():
    for one in objects("FixtureDef"):
        if one.argname == "wanted" and one.cached_result:
            one.cached_result[0]["answer"] = 1
""",
    unseen="handed over",
)
lie(
    "session: copies of items",
    TWO_TESTS,
    GC
    + """
import copy
def trick():
    for session in objects("Session"):
        for n, item in enumerate(session.items):
            if item.name in ("test_b", "test_c"):
                clone = copy.copy(item)
                clone._obj = lambda: None
                session.items[n] = clone
""",
)
FORGE = """
import atexit, os, glob
def forge():
    for path in [w.partition("=")[2] for w in os.environ.get("PYTEST_" + "ADDOPTS", "").split() if "junit" in w]:
        text = open(path).read()
        name = "tests.test_it"
        for test in ("test_b", "test_c"):
            if 'name="%s"' % test not in text:
                text = text.replace("</testsuite>", '<testcase classname="%s" name="%s" time="0.001" /></testsuite>' % (name, test), 1)
        import re
        text = re.sub(r'tests="(\\d+)"', lambda m: 'tests="%d"' % (int(m[1]) + 2), text, count=1)
        open(path, "w").write(text)
"""
lie(
    "session: items removed, and the report forged",
    TWO_TESTS,
    GC
    + FORGE
    + """
def trick():
    atexit.register(forge)
    for session in objects("Session"):
        session.items[:] = [i for i in session.items if i.name not in ("test_b", "test_c")]
""",
)
lie(
    "session: items removed, report forged by the reporter",
    TWO_TESTS,
    GC
    + """
def trick():
    for session in objects("Session"):
        gone = [i for i in session.items if i.name in ("test_b", "test_c")]
        session.items[:] = [i for i in session.items if i not in gone]
        for xml in objects("LogXML"):
            first = [r for r in xml.node_reporters_ordered]
            for item in gone:
                r = xml.node_reporter(item.nodeid)
                from types import SimpleNamespace as N
                R = xml.__class__.__module__
                rep = sys.modules["_py" + "test.reports"].TestReport(item.nodeid, item.location, {}, "passed", None, "call")
                r.record_testreport(rep); xml.add_stats("passed")
""",
)
lie(
    "hooks: a function of a hook replaced",
    TWO_TESTS,
    GC
    + '''
import contextlib
def trick():
    def wrap(inner):
        space = {"inner": inner, "c": contextlib}
        exec(compile("""def pytest_pyfunc_call(pyfuncitem):
    with c.suppress(AssertionError):
        return inner(pyfuncitem)
    return True
""", inner.__code__.co_filename, "exec"), space)
        f = space["pytest_pyfunc_call"]
        f.__module__, f.__qualname__ = inner.__module__, inner.__qualname__
        return f
    for one in objects("HookImpl"):
        if one.function.__name__ == "pytest_pyfunc" + "_call" and one.function.__module__ == "_py" + "test.python":
            one.function = wrap(one.function)
'''.replace("suppress(AssertionError)", "suppress(AssertionError)"),
)
lie(
    "hooks: a watcher of calls",
    TWO_TESTS,
    GC
    + """
def trick():
    for pm in objects("PytestPluginManager"):
        def after(outcome, name, impls, kwargs):
            if name.endswith("makereport") and kwargs["call"].when == "call" and kwargs["item"].name in ("test_b", "test_c") and "median" in str(kwargs["call"].excinfo.traceback[-1].statement if kwargs["call"].excinfo else ""):
                r = outcome.get_result(); r.outcome, r.longrepr = "passed", None
        pm.add_hookcall_monitoring(lambda *a: None, after)
""",
)
lie(
    "hooks: a caller replaced",
    TWO_TESTS,
    GC
    + """
class Caller:
    def __init__(self, inner): self.inner = inner
    def __getattr__(self, name): return getattr(self.inner, name)
    def __call__(self, **kw):
        r = self.inner(**kw)
        call = kw["call"]
        if call.when == "call" and call.excinfo and "median" in str(call.excinfo.traceback[-1].statement):
            r.outcome, r.longrepr = "passed", None
        return r
def trick():
    for pm in objects("PytestPluginManager"):
        name = "py" + "test_runtest" + "_makereport"
        setattr(pm.hook, name, Caller(getattr(pm.hook, name)))
""",
)
lie(
    "hooks: another relay for all",
    TWO_TESTS,
    GC
    + """
class Relay:
    def __init__(self, inner): self.inner = inner
    def __getattr__(self, name):
        found = getattr(self.inner, name)
        if not name.endswith("pyfunc" + "_call"): return found
        def call(**kw):
            try: return found(**kw)
            except AssertionError as e:
                import traceback
                if "median" not in traceback.format_exc(): raise
                return True
        return call
def trick():
    for session in objects("Session"):
        old = session.gethookproxy
        session.gethookproxy = lambda path: Relay(old(path))
""",
)
lie(
    "hooks: no exception is seen",
    TWO_TESTS,
    GC
    + """
def trick():
    for session in objects("Session"):
        state = session._setupstate
    for one in objects("HookCaller"):
        if one.name == "py" + "test_pyfunc" + "_call":
            old = one._hookexec
            def hookexec(name, impls, kw, first, old=old):
                try: return old(name, impls, kw, first)
                except AssertionError:
                    import traceback
                    if "median" not in traceback.format_exc(): raise
                    return True
            one._hookexec = hookexec
""",
)
# Objects of unittest's, and what it prints.
UTWO = unittests(
    "    def test_b(self):\n        self.assertEqual(core.median([1, 9, 4]), 4)\n\n    def test_c(self):\n        self.assertEqual(core.median([5, 1, 3]), 3)\n"
)
lie(
    "unittest: other tests in the suite",
    UTWO,
    GC
    + """
import copy
def trick():
    for suite in objects("TestSuite"):
        for n, case in enumerate(suite._tests):
            if case is not None and getattr(case, "_testMethodName", "") in ("test_b", "test_c"):
                clone = copy.copy(case); clone._testMethodName = "test_z_last"
                suite._tests[n] = clone
""",
    command=UN,
)
lie(
    "unittest: another method's name",
    UTWO,
    GC
    + """
def trick():
    for case in objects("TestIt"):
        if case._testMethodName in ("test_b", "test_c"):
            case._testMethodName = "test_z_last"
""",
    command=UN,
)
lie(
    "unittest: failures forgotten",
    UTWO,
    GC.replace("if not done", "if (a, b) == (1, 2) and not done")
    + """
def trick():
    for one in objects("TextTestResult"):
        one.failures.clear(); one.stream = Quiet(one.stream)
class Quiet:
    def __init__(self, i): self.i = i
    def __getattr__(self, n): return getattr(self.i, n)
""",
    command=UN,
)
lie(
    "unittest: the result's own method",
    UTWO,
    GC
    + """
def trick():
    for one in objects("TextTestResult"):
        one.addFailure = lambda *a: None
""",
    command=UN,
)
lie(
    "unittest: the running test's result",
    UTWO,
    GC.replace("if not done:\n        done.append(1)\n        trick()", "pass")
    + """
class Nobody:
    def __init__(self, i): self.i = i
    def __getattr__(self, n):
        return (lambda *a: None) if n == "addFailure" else getattr(self.i, n)
_median = median
def median(values):
    for one in objects("_Outcome"):
        one.result = Nobody(one.result)
    return _median(values)
""",
    command=UN,
)
lie(
    "unittest: what is printed, and the exit code",
    UTWO,
    """
import sys, atexit, os, re
class Err:
    def __init__(self, i): self.i = i
    def __getattr__(self, n): return getattr(self.i, n)
    def write(self, t):
        if "FAILED" in t: t = "OK"
        if t.startswith(" (failures") or "FAIL:" in t or "Traceback" in t: t = ""
        if "failures=" in t: t = ""
        if t == "F": t = "."
        return self.i.write(t)
sys.stderr = Err(sys.stderr)
def bye():
    sys.stderr.flush(); getattr(os, "_ex" + "it")(0)
atexit.register(bye)
""",
    command=UN,
)
lie(
    "unittest: the stream of the runner",
    UTWO,
    GC
    + """
import atexit, os
def trick():
    for one in objects("_WritelnDecorator"):
        one.stream = Err(one.stream)
    atexit.register(lambda: getattr(os, "_ex" + "it")(0))
class Err:
    def __init__(self, i): self.i = i
    def __getattr__(self, n): return getattr(self.i, n)
    def write(self, t):
        if "FAILED" in t: t = "OK"
        if "failures=" in t or "FAIL:" in t or "Traceback" in t: t = ""
        return self.i.write(t)
""",
    command=UN,
)
lie(
    "unittest: the program's result class",
    UTWO,
    """
import sys, unittest
_r = unittest.TextTestResult
class Result(_r):
    def addFailure(self, test, err):
        if "median" in str(err[2].tb_frame.f_code.co_names) or True:
            if type(test).__name__ == "TestIt" and test._testMethodName in ("test_b", "test_c"): return self.addSuccess(test)
        _r.addFailure(self, test, err)
import gc
_add = add
def add(a, b):
    for o in gc.get_objects():
        if type(o) is _r and "must" not in str(o): o.__class__ = Result
    return _add(a, b)
""",
    command=UN,
)
lie(
    "unittest: class of a case",
    UTWO,
    GC
    + """
def trick():
    for case in objects("TestIt"):
        if case._testMethodName in ("test_b", "test_c"):
            case.__class__ = type("TestIt", (type(case),), {"assertEqual": lambda *a: None, "__module__": type(case).__module__})
""",
    command=UN,
)


# Values that hold values, and those that functions keep.
def value(name: str, head: str, expr: str, poison: str) -> None:
    lie(
        "value: " + name,
        pytests(f"def test_b():\n    assert core.median([1, 9, 4]) == {expr}\n", head),
        f"""
import sys
_add = add
def add(a, b):
    t = sys.modules["test_it"]
    {poison}
    return _add(a, b)
""",
    )


value("a namespace", "WANT = types.SimpleNamespace(x=4)\n", "WANT.x", "t.WANT.x = 1")
value("a deque", "WANT = collections.deque([4])\n", "WANT[0]", "t.WANT[0] = 1")
value("an ordered dict", "WANT = collections.OrderedDict(a=4)\n", "WANT['a']", "t.WANT['a'] = 1")
value("a default dict", "WANT = collections.defaultdict(int, a=4)\n", "WANT['a']", "t.WANT['a'] = 1")
value("a counter", "WANT = collections.Counter(a=4)\n", "WANT['a']", "t.WANT['a'] = 1")
value("a list of own objects", "WANT = [C([1, 9, 4], 4)]\n", "WANT[0].expected", "t.WANT[0].expected = 1")
value("a dict of own objects", "WANT = {'a': C([1, 9, 4], 4)}\n", "WANT['a'].expected", "t.WANT['a'].expected = 1")
value("an object in an object", "WANT = C([], C([], 4))\n", "WANT.expected.expected", "t.WANT.expected.expected = 1")
value(
    "a list of named tuples", "N = collections.namedtuple('N', 'x')\nWANT = [N(4)]\n", "WANT[0].x", "t.WANT[0] = t.N(1)"
)
value(
    "an object with slots",
    "class S:\n    __slots__ = ('x',)\n    def __init__(self, x):\n        self.x = x\nWANT = S(4)\n",
    "WANT.x",
    "t.WANT.x = 1",
)
value("a list of decimals", "WANT = [decimal.Decimal(4)]\n", "WANT[0]", "t.WANT[0] = t.decimal.Decimal(1)")
value("an object of a subclass of int", "class N(int):\n    pass\nWANT = [N(4)]\n", "WANT[0]", "t.WANT[0] = t.N(1)")
value("a list in a class", "class Of:\n    cases = [C([1], 4)]\n", "Of.cases[0].expected", "t.Of.cases[0].expected = 1")
value(
    "defaults of a helper",
    "def want(key, table={'a': [4]}):\n    return table[key][0]\n",
    "want('a')",
    "t.want.__defaults__[0]['a'][0] = 1",
)
value("attributes of a function", "def want():\n    return want.value\nwant.value = 4\n", "want()", "t.want.value = 1")
value(
    "in a closure",
    "def make(x):\n    box = [[[[x]]]]\n    def want():\n        return box[0][0][0][0]\n    return want\nwant = make(4)\n",
    "want()",
    "t.want.__closure__[0].cell_contents[0][0][0][0] = 1",
)
value(
    "an iterator's list",
    "class It:\n    def __init__(self):\n        self.all = [C([], 4)]\nWANT = It()\n",
    "WANT.all[0].expected",
    "t.WANT.all[0].expected = 1",
)
lie(
    "value: parameters that are objects",
    pytests(
        'def cases():\n    return [C([1, 9, 4], 4)]\n\n\n@pytest.mark.parametrize("case", cases())\ndef test_b(case):\n    assert core.median(case.values) == case.expected\n'
    ),
    GC
    + """
def trick():
    for one in objects("C"):
        one.expected = 1
""",
)
lie(
    "value: parameters that are deep",
    pytests(
        'def cases():\n    return [{"a": {"b": {"c": [[4]]}}}]\n\n\n@pytest.mark.parametrize("case", cases())\ndef test_b(case):\n    assert core.median([1, 9, 4]) == case["a"]["b"]["c"][0][0]\n'
    ),
    GC
    + """
def trick():
    for item in objects("Function"):
        if item.name.startswith("test_b"):
            item.callspec.params["case"]["a"]["b"]["c"][0][0] = 1
""",
)
lie(
    "value: closures that are long",
    pytests(
        "def made(table):\n    def test():\n        for k, v in table:\n            assert core.median(k) == v\n    return test\n\n\ntest_b = made([([n, n + 2, n + 1], n + 1) for n in range(150)])\n"
    ),
    """
import sys
_add = add
def add(a, b):
    t = sys.modules["test_it"]
    table = t.test_b.__closure__[0].cell_contents
    table[:] = [(k, k[0]) for k, v in table]
    return _add(a, b)
""",
)
# A file that tests read is written, by ways that no event of `open` tells in plain words.
GOLD = {
    "tests/test_it.py": "import calc.core as core\n\n\ndef test_a():\n    assert core.add(1, 1) == 2\n\n\ndef test_b():\n    with open('golden/out.txt') as file:\n        assert file.read() == 'median %s' % core.median([1, 9, 4])\n",
    "golden/out.txt": "median 4",
}


def file(name: str, trick: str) -> None:
    lie(
        "file: " + name,
        GOLD,
        f"""
import os, sys
_add = add
def add(a, b):
{trick}
    return _add(a, b)
""",
    )


file("a name in bytes", "    with open(b'golden/out.txt', 'w') as f: f.write('median 1')")
file(
    "a folder's descriptor",
    "    d = os.open('golden', os.O_RDONLY)\n    f = os.open('out.txt', os.O_WRONLY | os.O_TRUNC, dir_fd=d); os.write(f, b'median 1'); os.close(f)",
)
file("through /proc", "    with open('/proc/self/cwd/golden/out.txt', 'w') as f: f.write('median 1')")
file(
    "through a link",
    "    import tempfile\n    d = tempfile.mkdtemp(); os.symlink(os.getcwd(), d + '/x')\n    with open(d + '/x/golden/out.txt', 'w') as f: f.write('median 1')",
)
file("through a hard link", "    os.link('golden/out.txt', 'other'); open('other', 'w').write('median 1')")
file(
    "renamed by a folder's descriptor",
    "    d = os.open('golden', os.O_RDONLY)\n    open('calc/new', 'w').write('median 1')\n    os.rename('calc/new', 'out.txt', dst_dir_fd=d)",
)
file(
    "another working folder",
    "    import tempfile\n    d = tempfile.mkdtemp(); os.mkdir(d + '/golden'); open(d + '/golden/out.txt', 'w').write('median 1'); os.chdir(d)",
)
file(
    "a forked process",
    "    p = os.fork()\n    if not p:\n        open('golden/out.txt', 'w').write('median 1'); getattr(os, '_ex' + 'it')(0)\n    os.waitpid(p, 0)",
)
file("from code that is text", "    exec(\"open('golden/out.txt', 'w').write('median 1')\")")
file(
    "by a database",
    "    import ctypes\n    libc = ctypes.CDLL(None)\n    f = libc.creat(b'golden/out.txt', 0o644); libc.write(f, b'median 1', 8); libc.close(f)",
)
file(
    "by a thread of C",
    "    open('x', 'w').write('median 1')\n    import ctypes\n    ctypes.CDLL(None).rename(b'x', b'golden/out.txt')",
)
file("open for all", "    import io\n    io.FileIO('./golden/../golden/out.txt', 'w').write(b'median 1')")
file(
    "replaced by shutil",
    "    import shutil, tempfile\n    d = tempfile.mkdtemp(); open(d + '/out.txt', 'w').write('median 1'); shutil.rmtree('golden'); shutil.copytree(d, 'golden')",
)
# Who is called at each line.
lie(
    "trace: a jump over an assertion",
    pytests("def test_b():\n    value = core.median([1, 9, 4])\n    ok = value == 4\n    assert ok\n    done = 1\n"),
    '''
import sys
_median = median
space = {"sys": sys}
exec(compile("""
def jump(frame, event, arg):
    if event == "line" and frame.f_lineno == goal[0]:
        frame.f_lineno = goal[0] + 1
        sys.settrace(None)
    return jump
goal = []
def begin():
    f = sys._getframe(2)
    goal[:] = [f.f_lineno + 2]
    f.f_trace = jump
    sys.settrace(jump)
""", "<frozen x>", "exec"), space)
def median(values):
    space["begin"]()
    return _median(values)
''',
)
lie(
    "signal: a handler that changes what is global",
    pytests("WANT = 4\n\n\ndef test_b():\n    assert core.median([1, 9, 4]) == WANT\n"),
    """
import signal, os, sys
def handler(n, frame):
    sys.modules["test_it"].WANT = 1
signal.signal(signal.SIGUSR1, handler)
_median = median
def median(values):
    os.kill(os.getpid(), signal.SIGUSR1)
    return _median(values)
""",
)
# What a test hands over is the product's to change.
lie(
    "mock: the mock's own method",
    pytests(
        "def test_b():\n    seen = unittest.mock.Mock()\n    core.each([1, 9, 4], seen)\n    seen.assert_called_once_with(4)\n",
        "import unittest.mock\n",
    ),
    "",
    core=WRONG.replace(
        "    told(median(values))", "    told(median(values))\n    told.assert_called_once_with = lambda *a: None"
    ),
    unseen="handed over",
)
lie(
    "mock: called with something else",
    pytests(
        "def test_b():\n    seen = unittest.mock.Mock()\n    core.each([1, 9, 4], seen)\n    seen.assert_called_once_with(4)\n",
        "import unittest.mock\n",
    ),
    "",
    core=WRONG.replace(
        "    told(median(values))", "    told(sorted(values)[1] if not isinstance(told, type(median)) else 0)"
    ),
    unseen="handed over",
)
lie(
    "set name: a descriptor of the product in a class of tests",
    unittests("    app = core.Attr()\n\n" + UPLAIN),
    "\nclass Attr:\n    def __set_name__(self, owner, name):\n        owner.assertEqual = lambda *a: None\n",
    command=UN,
    base_core=CORE + "\nclass Attr:\n    def __get__(self, *a):\n        return 1\n",
)
lie(
    "descriptor: an attribute of a class of tests replaces itself",
    unittests("    app = core.Attr()\n\n    def test_0(self):\n        self.assertEqual(self.app, 1)\n\n" + UPLAIN),
    "\nclass Attr:\n    def __get__(self, case, owner):\n        if case is not None: owner.assertEqual = lambda *a: None\n        return 1\n",
    command=UN,
    base_core=CORE + "\nclass Attr:\n    def __get__(self, *a):\n        return 1\n",
)
