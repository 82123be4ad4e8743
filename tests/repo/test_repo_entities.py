"""Two changes of one file that meet by lines, but not by what the lines define."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from repo.apart import Apart
from repo.entities import contradict, unite

BASE = b"""\
import os
import signal

LIMIT = 3


def first():
    return os.sep


class Box:
    size = 1

    def get(self):
        return 1
"""
END = b"    def get(self):\n        return 1\n"


def made(*changes: tuple[bytes, bytes]) -> bytes:
    text = BASE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def in_line(*parts: bytes, text: bytes | None) -> bool:
    assert text is not None
    return [text.find(part) for part in parts] == sorted(text.index(part) for part in parts)


def test_functions_added_at_one_place_stand_one_after_the_other():
    ours = BASE + b"\n\ndef ours():\n    return 1\n"
    theirs = BASE + b"\n\n# why\ndef theirs():\n    return 2\n"
    united = unite(BASE, ours, theirs)
    assert united == ours + b"\n\n# why\ndef theirs():\n    return 2\n"


def test_methods_added_at_one_place_of_a_class_are_both_in_it():
    ours = made((END, END + b"\n    def put(self, x):\n        self.x = x\n"))
    theirs = made((END, END + b"\n    @property\n    def empty(self):\n        return True\n"))
    assert in_line(b"class Box", b"def get", b"@property", b"def empty", b"def put", text=unite(BASE, ours, theirs))


def test_neighbours_that_each_side_changed_come_from_it():
    ours = made((b"LIMIT = 3", b"LIMIT = 4"), (b"return os.sep", b"return os.sep + os.sep"))
    theirs = made((b"import os\n", b"import os\nimport re\n"), (b"class Box:", b"class Box(dict):"))
    united = unite(BASE, ours, theirs)
    assert united == made(
        (b"import os\n", b"import os\nimport re\n"),
        (b"LIMIT = 3", b"LIMIT = 4"),
        (b"return os.sep", b"return os.sep + os.sep"),
        (b"class Box:", b"class Box(dict):"),
    )


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "united"),
    [
        (b"import a\n", b"import a\nimport b\n", b"import a\nimport c\n", b"import a\nimport b\nimport c\n"),
        (b"from m import a\n", b"from m import a, b\n", b"from m import a, c\n", b"from m import a, b, c\n"),
        (b"from m import a, z\n", b"from m import a\n", b"from m import a, y, z\n", b"from m import a, y\n"),
        (b"x = 1\n", b"from m import a\nx = 1\n", b"from m import b\nx = 1\n", b"from m import a, b\nx = 1\n"),
        (b"from m import a\r\n", b"from m import a, b\r\n", b"from m import a, c\r\n", b"from m import a, b, c\r\n"),
        (
            b"from m import (\n    a,\n)\n",
            b"from m import (\n    a,\n    b,\n)\n",
            b"from m import (\n    a,\n    c as d,\n)\n",
            b"from m import (\n    a,\n    b,\n    c as d,\n)\n",
        ),
    ],
    ids=["two more", "one more name each", "one gone, one more", "both new", "CRLF", "in brackets"],
)
def test_imports_of_both_sides_are_united(base, ours, theirs, united):
    assert unite(base, ours, theirs) == united


SAME = {
    "one function changed twice": (made((b"os.sep", b"1")), made((b"os.sep", b"2"))),
    "changed and removed": (made((b"def first():\n    return os.sep\n\n\n", b"")), made((b"os.sep", b"2"))),
    "one name added twice": (BASE + b"\n\ndef new():\n    return 1\n", BASE + b"\n\nnew = 2\n"),
    "one name imported from two places": (b"from a import x\n" + BASE, b"from b import x\n" + BASE),
    "statements without a name on both sides": (BASE + b"\nprint(1)\n", BASE + b"\nprint(2)\n"),
    "one class attribute changed twice": (made((b"size = 1", b"size = 2")), made((b"size = 1", b"size = 3"))),
    "moved about": (b"LIMIT = 3\n" + made((b"LIMIT = 3\n", b"")), BASE + b"\n\ndef new():\n    return 1\n"),
    "one side does not parse": (BASE + b"\ndef (:\n", BASE + b"\n\ndef new():\n    return 1\n"),
    "no end of the last line": (BASE + b"\nx = 1", BASE + b"\ny = 1\n"),
    "two statements on one line": (BASE + b"\nx = 1; z = 2\n", BASE + b"\ny = 1\n"),
    "a comment that both put something below": (
        made((b"LIMIT = 3\n", b"# how many\nOURS = 1\nLIMIT = 3\n")),
        made((b"LIMIT = 3\n", b"# how many\nTHEIRS = 1\nLIMIT = 3\n")),
    ),
    "not utf-8 and cut": (BASE + b"\nx = '\xff\n", BASE + b"\ny = 1\n"),
}


@pytest.mark.parametrize("ours, theirs", SAME.values(), ids=SAME)
def test_what_is_in_doubt_stays_a_conflict_whichever_side_comes_first(ours, theirs):
    assert unite(BASE, ours, theirs) is None
    assert unite(BASE, theirs, ours) is None


@pytest.mark.parametrize("top", [b'"""What."""\n', b"from __future__ import annotations\n"])
def test_what_must_stand_at_the_top_is_never_pushed_down(top):
    ours, theirs = top + BASE, b"import re\n" + BASE
    assert unite(BASE, ours, theirs) == unite(BASE, theirs, ours) == top + theirs


def test_a_property_and_its_setter_are_two():
    getter = b"    @property\n    def x(self):\n        return 1\n"
    setter = b"    @x.setter\n    def x(self, v):\n        pass\n"
    base = b"class A:\n" + getter + b"\n" + setter
    ours, theirs = base.replace(b"return 1", b"return 2"), base.replace(b"pass", b"self.v = v")
    assert unite(base, ours, theirs) == base.replace(b"return 1", b"return 2").replace(b"pass", b"self.v = v")


NESTED = b"".join(b" " * depth + b"class a:\n" for depth in range(1300)) + b" " * 1300 + b"x\n"


@pytest.mark.parametrize("hostile", [b"[" * 300_000 + b"\n", NESTED], ids=["open brackets", "classes in classes"])
async def test_hostile_source_ends_its_own_process_alone(hostile):
    texts = (BASE, BASE + b"\nx = 1\n", BASE + b"\ny = 1\n")
    told = BASE + b"\nx = 1\n\ny = 1\n"
    async with Apart() as apart:
        for _ in range(2):  # the first of a process, and one after others
            assert (
                await apart.ask("repo.entities", "Python", texts=(hostile, hostile + b"x\n", hostile + b"y\n")) is None
            )
            assert await apart.ask("repo.entities", "Python", texts=texts) == unite(*texts) == told


async def test_one_process_answers_all_and_ends_with_them():
    texts = (BASE, BASE + b"\nx = 1\n", BASE + b"\ny = 1\n")
    before = set(children())
    async with Apart() as apart:
        for _ in range(3):
            await apart.ask("repo.entities", "Python", texts=texts)
            await apart.ask("repo.data_keys", "json", texts=[b"{}"] * 4)
            assert len(set(children()) - before) == 2
    assert set(children()) == before


async def test_a_process_that_died_is_replaced_and_its_end_is_no_riddle(caplog: pytest.LogCaptureFixture):
    texts = (BASE, BASE + b"\nx = 1\n", BASE + b"\ny = 1\n")
    before = set(children())
    async with Apart() as apart:
        for _ in range(5):
            assert await apart.ask("repo.entities", "Python", texts=texts) == unite(*texts)
            [only] = set(children()) - before
            os.kill(int(only), signal.SIGKILL)
    assert set(children()) == before
    assert caplog.records == []  # asyncio would tell of a child that somebody else has waited for


async def test_who_gives_up_in_the_middle_of_an_answer_leaves_none_to_the_next():
    texts = (BASE, BASE + b"\nx = 1\n", BASE + b"\ny = 1\n")
    before = set(children())
    async with Apart() as apart:
        asked = asyncio.create_task(apart.ask("repo.entities", "Python", texts=texts))
        while not set(children()) - before:
            await asyncio.sleep(0)
        asked.cancel()
        with suppress(asyncio.CancelledError):
            await asked
        assert set(children()) == before
        assert await apart.ask("repo.entities", "Python", "compare", texts=[*texts, texts[0]]) == b""


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


LARGE = {
    "functions": "def f{n}(a, b):\n    x = a + b\n    return x * {n}\n\n",
    "names in a list": ("NAMES = [\n", "    name{n},\n", "]\n"),
    "calls in a chain": ("x = a", ".b()", "\n"),
    "terms of a sum": ("x = a", " + a", "\n"),
    "brackets": ("x = 1", " + (1", ")" * 2000 + "\n"),
    "routes": "app.get('/r{n}/{{{{x}}}}')\n",
    "classes": "class A{n}(B{n}):\n    def f(self):\n        return self.g(x)\n\n",
}


@pytest.mark.parametrize("kind", LARGE)
def test_the_time_for_a_file_grows_with_its_length_alone(kind: str):
    """A process of ten seconds reads it: where that is too little, git's merge stands unseen."""
    first, each, last = LARGE[kind] if isinstance(LARGE[kind], tuple) else ("", LARGE[kind], "")
    text = (first + "".join(each.format(n=n) for n in range(2000)) + last).encode()
    started = time.process_time()

    assert not contradict(text, b"\n" + text, text + b"\n", b"\n" + text + b"\n", "Python")

    assert time.process_time() - started < 9
