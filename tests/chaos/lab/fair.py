"""Honest changes that do what a lie might do, too: settings of Python's own, hooks, threads, files, decorators around
tests, tests that keep state or run tests themselves. The gate calls each verified as it is.
"""

from __future__ import annotations

from .far import CORE, PLAIN, UN, Far, P, pytests, unittests

NEW = CORE + "\n\ndef mode(values):\n    return max(set(values), key=list(values).count)\n"
FAIR: list[Far] = []


def ok(
    name: str, tests: str | dict[str, str], change: str | dict[str, str | None], command: str = P, core: str = CORE
) -> None:
    """`change`: another product, or files."""
    files = {"tests/test_it.py": tests} if isinstance(tests, str) else tests
    base = {"calc/__init__.py": "", "calc/core.py": core, **files}
    if command == UN:
        base["tests/__init__.py"] = ""
    FAIR.append(Far(name, base, command, {"calc/core.py": change} if isinstance(change, str) else change))


S = pytests(PLAIN)
SU = unittests(
    "    def test_m(self):\n        self.assertEqual(core.median([1, 9, 4]), 4)\n\n    def test_e(self):\n        with self.assertRaises(TypeError):\n            core.median(1)\n\n    @unittest.expectedFailure\n    def test_x(self):\n        self.assertEqual(1, 2)\n\n    def test_s(self):\n        for n in range(3):\n            with self.subTest(n=n):\n                self.assertEqual(n, n)\n"
)
for name, text in {
    "warnings filter": "import warnings\nwarnings.filterwarnings('ignore', category=DeprecationWarning)\n",
    "logging set-up": "import logging, logging.config\nlogging.config.dictConfig({'version': 1, 'disable_existing_loggers': False, 'handlers': {'h': {'class': 'logging.StreamHandler'}}, 'root': {'handlers': ['h'], 'level': 'INFO'}})\nlogging.getLogger(__name__).info('x')\nlogging.captureWarnings(True)\n",
    "logger class": "import logging\nclass L(logging.Logger):\n    def trace(self, *a): self.log(5, *a)\nlogging.setLoggerClass(L)\nlogging.addLevelName(5, 'TRACE')\n",
    "log record factory": "import logging\nold = logging.getLogRecordFactory()\ndef factory(*a, **k):\n    r = old(*a, **k)\n    r.app = 'calc'\n    return r\nlogging.setLogRecordFactory(factory)\n",
    "json encoder": "import json\nclass E(json.JSONEncoder):\n    def default(self, v):\n        return str(v)\ndef dumps(v): return json.dumps(v, cls=E)\n",
    "copyreg": "import copyreg\nclass Z: pass\ncopyreg.pickle(Z, lambda z: (Z, ()))\n",
    "locale": "import locale\nlocale.setlocale(locale.LC_ALL, '')\n",
    "decimal context": "import decimal\ndecimal.getcontext().prec = 50\ndecimal.DefaultContext.prec = 50\n",
    "recursion limit": "import sys\nsys.setrecursionlimit(5000)\n",
    "gettext install": "import gettext\ngettext.install('calc')\n",
    "mock in product": "from unittest import mock\nNOTHING = mock.sentinel.nothing\ndef fake():\n    return mock.MagicMock(spec=dict)\nfake()\n",
    "faulthandler": "import faulthandler, io\ntry:\n    faulthandler.enable()\nexcept io.UnsupportedOperation:\n    pass\n",
    "threads that stay": "import threading, queue\nQ = queue.Queue()\ndef worker():\n    while True: Q.get()\nthreading.Thread(target=worker, daemon=True).start()\n",
    "signal handler": "import signal\ndef stop(*a): raise SystemExit\nsignal.signal(signal.SIGTERM, stop)\n",
    "atexit": "import atexit, tempfile, shutil\nD = tempfile.mkdtemp()\natexit.register(shutil.rmtree, D, ignore_errors=True)\n",
    "excepthook": "import sys, threading\nsys.excepthook = lambda *a: sys.__excepthook__(*a)\nthreading.excepthook = lambda a: None\n",
    "import hook for its own names": "import sys, importlib.abc, importlib.util\nclass F(importlib.abc.MetaPathFinder):\n    def find_spec(self, name, path=None, target=None):\n        return None\nsys.meta_path.append(F())\n",
    "codec": "import codecs\ncodecs.register(lambda n: codecs.lookup('utf-8') if n == 'calc' else None)\n",
    "singledispatch": "import functools\n@functools.singledispatch\ndef show(v): return str(v)\n@show.register(int)\ndef _(v): return hex(v)\nshow(3)\n",
    "abc register": "import numbers, collections.abc\nclass N:\n    def __len__(self): return 0\ncollections.abc.Sized.register(N)\nnumbers.Number.register(N)\n",
    "mimetypes and encodings": "import mimetypes\nmimetypes.add_type('text/calc', '.calc')\n",
    "environment": "import os\nos.environ.setdefault('CALC_HOME', '/tmp')\nos.environ['TZ'] = 'UTC'\nimport time\ntime.tzset()\n",
    "socket default": "import socket\nsocket.setdefaulttimeout(5)\n",
    "random seed": "import random\nrandom.seed(0)\nR = random.Random(1)\n",
    "gc and weakrefs": "import gc, weakref\ngc.freeze(); gc.unfreeze(); gc.callbacks.append(lambda *a: None)\nclass W: pass\nw = W(); r = weakref.ref(w, lambda _: None)\n",
    "contextvars and asyncio policy": "import contextvars, asyncio\nV = contextvars.ContextVar('v', default=1)\nasyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())\n",
    "lazy module": "import importlib.util, sys\nspec = importlib.util.find_spec('fractions')\nspec.loader = importlib.util.LazyLoader(spec.loader)\nm = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(m)\n",
    "vendored fallback": "try:\n    import tomllib\nexcept ImportError:\n    tomllib = None\n",
    "working folder for a while": "import os, contextlib\n@contextlib.contextmanager\ndef inside(path):\n    old = os.getcwd(); os.chdir(path)\n    try: yield\n    finally: os.chdir(old)\nwith inside('/'):\n    pass\n",
    "dataclass with slots": "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Point:\n    x: int = 0\n    y: int = 0\nPoint(1, 2)\n",
    "retries": "import time\ndef retry(f, times=3):\n    for n in range(times):\n        try: return f()\n        except Exception:\n            if n == times - 1: raise\n",
    "vendored on the path": "import sys, os\nsys.path.append(os.path.join(os.path.dirname(__file__), 'vendor'))\n",
    "subprocess and files": "import subprocess, sys, os\nsubprocess.run([sys.executable, '-c', 'pass'])\nopen('calc.cache', 'w').write('x')\nos.remove('calc.cache')\n",
    "sqlite": "import sqlite3\nc = sqlite3.connect(':memory:'); c.execute('create table a (b)')\n",
    "typing and enum": "import enum, typing\nclass Colour(enum.Enum):\n    RED = 1\nT_ = typing.TypeVar('T_')\n",
    "builtin underscore": "import builtins\nif not hasattr(builtins, '_'):\n    builtins._ = lambda s: s\n",
}.items():
    ok(name, S, NEW + text)
    ok(name + " (unittest)", SU, NEW + text, UN)
# decorators, contexts
ok(
    "decorator gets functools.wraps and timing",
    pytests("@core.logged\ndef test_m():\n    assert core.median([1, 9, 4]) == 4\n"),
    CORE.replace(
        "        return function(*a, **k)",
        "        try:\n            return function(*a, **k)\n        finally:\n            inner.calls = getattr(inner, 'calls', 0) + 1",
    ),
)
ok(
    "context manager logs errors",
    pytests(
        "def test_m():\n    with core.timed():\n        assert core.median([1, 9, 4]) == 4\n\n\ndef test_n():\n    with pytest.raises(AssertionError):\n        with core.timed():\n            assert core.median([1, 9, 4]) == 5\n"
    ),
    CORE.replace("    yield []", "    try:\n        yield []\n    except Exception:\n        raise"),
)
ok(
    "a helper that waits",
    pytests(
        "def eventually(check):\n    for _ in range(5):\n        try:\n            return check()\n        except AssertionError:\n            pass\n    return check()\n\n\ndef test_m():\n    state = []\n    def check():\n        state.append(core.median([1, 9, 4]))\n        assert len(state) > 1\n    eventually(check)\n"
    ),
    NEW,
)
ok(
    "the base class of tests gets a helper",
    unittests("    def test_m(self):\n        self.assertEqual(core.median([1, 9, 4]), 4)\n", cls="core.Case"),
    CORE + "    def tearDown(self):\n        self.base = 0\n    def made(self):\n        return 1\n",
    UN,
)
ok(
    "tests keep state",
    pytests(
        "SEEN = []\nSTATE = {}\nBOX = C([], None)\n\n\ndef test_b():\n    SEEN.append(C([1], 2)); STATE['a'] = C([], 1); BOX.expected = 5\n    BOX.values.append(core.median([1, 2, 3]))\n\n\ndef test_c():\n    assert SEEN and STATE\n    BOX.expected = C([], 3)\n"
    ),
    NEW,
)
ok(
    "mocks at module level",
    pytests(
        "import unittest.mock\nSEEN = unittest.mock.Mock()\nCALLS = {'a': unittest.mock.Mock()}\n\n\ndef test_b():\n    core.each([1, 9, 4], SEEN)\n    SEEN.assert_called_with(4)\n    CALLS['a'](1)\n"
    ),
    CORE.replace("    told(median(values))", "    value = median(values)\n    told(value)"),
)
ok(
    "fixtures that are cached and changed",
    pytests(
        "@pytest.fixture(scope='module')\ndef box():\n    return {'n': 0}\n\n\n@pytest.fixture(params=[1, 2])\ndef one(request):\n    return request.param\n\n\n@pytest.mark.parametrize('two', [3], indirect=False)\ndef test_b(box, one, two, tmp_path, monkeypatch):\n    box['n'] += one\n    monkeypatch.chdir(tmp_path)\n    assert core.median([one, two, 9]) == two\n"
    ),
    NEW,
)
ok(
    "a file that the product makes is read",
    pytests("def test_b():\n    core.save('out.txt')\n    assert open('out.txt').read() == '4'\n"),
    CORE.replace(
        "def seen",
        "def save(path):\n    text = str(median([1, 9, 4]))\n    with open(path, 'w') as file:\n        file.write(text)\n\ndef seen",
    ),
    core=CORE.replace(
        "def seen",
        "def save(path):\n    with open(path, 'w') as file:\n        file.write(str(median([1, 9, 4])))\n\ndef seen",
    ),
)
ok("core becomes a package", S, {"calc/core.py": None, "calc/core/__init__.py": CORE})
ok(
    "doctest in the product",
    {"tests/test_it.py": S},
    CORE.replace("def add(a, b):\n", "def add(a, b):\n    '''\n    >>> add(1, 2)\n    3\n    '''\n"),
    command=P + " --doctest-modules",
)
ok(
    "subtests and parametrized classes",
    pytests(
        "@pytest.mark.parametrize('n', range(3))\nclass TestN:\n    def test_n(self, n):\n        assert core.add(n, 1) == n + 1\n\n    @pytest.mark.xfail\n    def test_x(self, n):\n        assert n == 100\n\n    @pytest.mark.skip\n    def test_s(self, n):\n        pass\n\n\ndef test_teardown(request):\n    request.addfinalizer(lambda: None)\n"
    ),
    NEW,
)
ok(
    "async in tests",
    pytests(
        "import asyncio\n\n\ndef test_b():\n    async def main():\n        assert core.median([1, 9, 4]) == 4\n    core.run(main())\n"
    ),
    CORE.replace(
        "    return asyncio.run(coro)", "    with asyncio.Runner() as runner:\n        return runner.run(coro)"
    ),
)
ok(
    "unittest: inner suites",
    unittests(
        "    def test_inner(self):\n        class Inner(unittest.TestCase):\n            def test_bad(self):\n                self.fail('x')\n        result = unittest.TestResult()\n        Inner('test_bad').run(result)\n        self.assertEqual(len(result.failures), 1)\n"
    ),
    NEW,
    UN,
)
ok(
    "helpers in a folder of tests",
    {
        "tests/test_it.py": "import calc.core as core\nfrom helpers import same\n\n\ndef test_a():\n    same(core.add(1, 1), 2)\n",
        "tests/helpers.py": "def same(a, b):\n    assert a == b\n",
    },
    NEW,
)

ok(
    "the first test beside a folder with a conftest",
    {
        "tests/unit/conftest.py": "def pytest_runtest_setup(item):\n    pass\n",
        "tests/unit/test_it.py": "import calc.core as core\n\n\ndef test_a():\n    assert core.add(1, 1) == 2\n",
    },
    {
        "calc/core.py": NEW,
        "tests/other/test_new.py": "import calc.core as core\n\n\ndef test_b():\n    assert core.add(1, 2) == 3\n",
    },
)
ok(
    "pytester: inner sessions that fail",
    {
        "tests/conftest.py": "pytest_plugins = ['pytester']\n",
        "tests/test_it.py": "import calc.core as core\n\n\ndef test_a(pytester):\n    pytester.makepyfile('def test_x(): assert 0\\ndef test_y(): pass')\n    result = pytester.runpytest_inprocess()\n    result.assert_outcomes(failed=1, passed=1)\n    assert core.add(1, 1) == 2\n",
    },
    NEW,
)
ok(
    "pytester: in a process of its own",
    {
        "tests/conftest.py": "pytest_plugins = ['pytester']\n",
        "tests/test_it.py": "import calc.core as core\n\n\ndef test_a(pytester):\n    pytester.makepyfile('def test_x(): assert 0\\ndef test_y(): pass')\n    result = pytester.runpytest_subprocess()\n    result.assert_outcomes(failed=1, passed=1)\n    assert core.add(1, 1) == 2\n",
    },
    NEW,
)
ok(
    "unittest: a known failure",
    unittests(
        "    def test_bad(self):\n        self.assertEqual(core.median([1, 2, 3]), 9)\n    def test_sub(self):\n        for n in range(3):\n            with self.subTest(n=n):\n                self.assertEqual(n, 1)\n"
    ),
    NEW,
    UN,
)
ok(
    "pytest: known failures",
    pytests(
        "def test_bad():\n    assert core.median([1, 2, 3]) == 9\n\n\nclass TestU(unittest.TestCase):\n    def test_bad(self):\n        self.assertEqual(core.median([1, 2, 3]), 9)\n\n    @unittest.expectedFailure\n    def test_x(self):\n        self.assertEqual(1, 2)\n\n    def test_sub(self):\n        for n in range(3):\n            with self.subTest(n=n):\n                self.assertEqual(n, n)\n"
    ),
    NEW,
)
