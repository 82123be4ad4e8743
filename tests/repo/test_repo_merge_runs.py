"""What is merged by entities runs: each name has the value that it has in the version which changed it."""

from __future__ import annotations

import os
import types
from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from repo.entities import unite

SOAK = os.environ.get("MUSTER_CHAOS") == "soak"
NAMES = ("aa", "bb", "cc", "dd", "x", "first", "Box", "sum")
BASE = """\
import contextlib
import enum
import math

x = 1


def first(values):
    return x


class Box:
    size = 1

    def get(self):
        return first(2)


class Flag(enum.IntFlag):
    READ = 1
"""
# `n` and `m` are names, `v` a number that no other version writes.
PIECES = (
    *("import json as {n}\n", "import math as {n}\n", "from math import pi as {n}\n", "{n} = {v}\n"),
    *("{n} = {m} = {v}\n", "{n}, {m} = {v}, 2\n", "for {n} in range({v}):\n    pass\n", "if x:\n    {n} = {v}\n"),
    *("x += {v}\n", "del x\n", "{n} = x + {v}\n", "{n} = sum([x])\n", "{n} = first({v})\n", "(lambda: None)()\n"),
    "try:\n    import missing_ as {n}\nexcept ImportError:\n    {n} = {v}\n",
    "match {v}:\n    case {n}:\n        pass\n",
    *("with contextlib.nullcontext({v}) as {n}:\n    pass\n", "def {n}(values):\n    return {v}\n"),
    *("def {n}(values):\n    return {m}\n", "class {n}(Box):\n    size = {v}\n", "class {n}:\n    {m} = {v}\n"),
    *("def {n}(values):\n    {m} = {v}\n    return {m}\n", "def first(values):\n    return {v}\n"),
    "@contextlib.contextmanager\ndef {n}():\n    yield {v}\n",
)  # fmt: skip
CHANGES = (
    *(("x = 1", "x = {v}"), ("size = 1", "size = {v}"), ("first(2)", "first({v})"), ("return x\n", "return x + {v}\n")),
    *(("import math\n", "import math as {n}\n"), ("READ = 1\n", "READ = 1\n    {n} = {v}\n")),
    *(("class Box:", "class {n}:"), ("def get", "def {n}"), ("x = 1\n\n\n", "")),
    ("size = 1\n", "size = 1\n    {n} = {v}\n"),
    ("return first(2)\n", "return first(2)\n\n    def {n}(self):\n        return {v}\n"),
)  # fmt: skip


@st.composite
def versions(draw: st.DrawFn, count: int) -> list[str]:
    made: list[str] = []
    for number in range(count):
        text = BASE
        for at in range(draw(st.integers(1, 3))):
            words = {"n": draw(st.sampled_from(NAMES)), "m": draw(st.sampled_from(NAMES)), "v": 16 << (number * 4 + at)}
            if draw(st.booleans()):
                text += "\n\n" * draw(st.booleans()) + draw(st.sampled_from(PIECES)).format(**words)
            else:
                old, new = draw(st.sampled_from(CHANGES))
                text = text.replace(old, new.format(**words), 1)
        made.append(text)
    return made


def outcome(source: str) -> dict[str, Any] | None:
    """What each name means when it has run. None: it does not run."""
    names: dict[str, Any] = {"__name__": "made"}
    try:
        exec(compile(source, "made", "exec"), names)
    except Exception:
        return None
    return {name: meaning(value) for name, value in names.items() if not name.startswith("__")}


def meaning(value: Any) -> Any:
    if isinstance(value, types.FunctionType):
        code = value.__code__
        return ("function", code.co_code, code.co_consts if not value.__closure__ else meaning(value.__wrapped__))
    if isinstance(value, type):
        members = {name: meaning(one) for name, one in vars(value).items() if not name.startswith("_")}
        return ("class", [base.__name__ for base in value.__bases__], members)
    return repr(value)


def expected(base: dict[str, Any], sides: list[dict[str, Any]]) -> dict[str, Any]:
    """Each name as the side has it that changed it; of a class that several changed, each member."""
    found = dict(base)
    for side in sides:
        for name in [name for name in {*base, *side} if side.get(name) != base.get(name)]:
            three = [one.get(name) for one in (base, side, found)]
            if name not in side:
                found.pop(name, None)
            elif all(isinstance(one, tuple) and one[0] == "class" for one in three):
                old, mine, made = three
                bases = mine[1] if mine[1] != old[1] else made[1]
                changed = {key for key in {*old[2], *mine[2]} if mine[2].get(key) != old[2].get(key)}
                members = {key: one for key, one in made[2].items() if key not in changed}
                found[name] = ("class", bases, members | {key: mine[2][key] for key in changed if key in mine[2]})
            else:
                found[name] = side[name]
    return found


def whole(sides: list[str]) -> list[str]:
    """Without those whose changed lines another one changes too, and more: what these lines mean beside the others is
    for that one to say."""
    changed = [lines_of(side) for side in dict.fromkeys(sides)]
    return [
        side
        for side, own in zip(dict.fromkeys(sides), changed, strict=True)
        if not any(own < other for other in changed)
    ]


def lines_of(side: str) -> set[tuple[str, int]]:
    """What a side adds and takes away, and how often."""
    now, before = Counter(side.splitlines()), Counter(BASE.splitlines())
    return {(line, now[line] - before[line]) for line in now | before if now[line] != before[line]}


PARTS = 10 if SOAK else 1


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
@example(sides=[BASE.replace("x = 1", "x = 16") + "aa = sum([x])\n", BASE + "aa = sum([x])\n"])
@settings(
    max_examples=20_000 // PARTS if SOAK else 150,
    deadline=None,
    derandomize=not SOAK,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(sides=versions(2) | versions(3))
def test_a_merged_program_does_what_its_versions_say(part: int, sides: list[str]):
    united = [unite(BASE.encode(), *(side.encode() for side in order)) for order in permutations(sides)]
    assert len(set(united)) == 1
    base, alone = outcome(BASE), [outcome(side) for side in whole(sides)]
    assert base is not None
    ran = [one for one in alone if one is not None]
    if united[0] is None or len(ran) < len(alone):
        return
    found = outcome(united[0].decode())
    wanted = expected(base, ran)
    assert found == wanted, united[0].decode()
