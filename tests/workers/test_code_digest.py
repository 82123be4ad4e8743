"""What processes tell of their tests' code: what of it counts, and how it is carried. No process runs here."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

import pytest

from envelope.recipe import CodeDigest
from workers.recipes.digest import MAX_CARRIED_CHARS, digest_in

KEY = bytes(range(16))
HELLO = f"hello one {KEY.hex()}\n"


def message(**more: Any) -> dict[str, Any]:
    empty = {
        "tests": {},
        "code": {},
        "runner": {},
        "changed": [],
        "changed_in": {},
        "plugins": [],
        "files": [],
        "plugin_files": [],
        "libraries": [],
        "modules": [],
        "failed": 0,
        "passed": None,
    }
    empty |= {"passed": None, "wrong": ""}
    return {**empty, "tests": {"t.py::test": "a"}, **more}


def line(text: str, number: int = 0, left: int = 0, *, name: str = "one", key: bytes = KEY) -> str:
    body = f"{number} {left} {text}"
    return f"{name} {hashlib.blake2b(body.encode(), key=key, digest_size=16).hexdigest()} {body}\n"


def read(*lines: str) -> CodeDigest | None:
    return digest_in("".join(lines).encode())


def test_what_is_signed_counts_and_may_come_in_parts():
    text = json.dumps(message(failed=2))

    digest = read(HELLO, line(text[:20], 0, 1), "noise\n", "one more noise\n", line(text[20:], 1, 0))

    assert digest is not None and (digest.tests, digest.failed) == ({"t.py::test": "a"}, 2)


def test_of_failures_those_count_that_no_test_has_made_in_a_process_of_its_own():
    hello, other = f"hello one {KEY.hex()} 70 2\n", f"hello other {KEY.hex()} 90 80 70 2\n"
    inner = line(json.dumps(message(failed=3, passed=4)), name="other")

    digest = read(hello, other, inner, line(json.dumps(message(failed=1, passed=2))))

    assert digest is not None and (digest.failed, digest.passed) == (1, 2)


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (HELLO,),
        (line(json.dumps(message())),),
        (HELLO, line(json.dumps(message()), key=b"another")),
        (HELLO, line(json.dumps(message()), number=1)),
        (HELLO, line(json.dumps(message()), left=1)),
        (HELLO, line(json.dumps(message())).replace('"a"', '"b"')),
        (HELLO, "x" + line(json.dumps(message()))),
        (HELLO, line(json.dumps(message(wrong="ValueError()")))),
        (HELLO, line(json.dumps({}))),
        (f"hello other {KEY.hex()}\n", HELLO, line(json.dumps(message()))),
    ],
    ids=["nothing", "a beginning", "no beginning", "another key", "a line is gone", "the end is gone", "changed",
         "spoilt", "went wrong", "empty", "the first process says no more"],
)  # fmt: skip
def test_an_account_that_is_not_whole_is_none(lines: tuple[str, ...]):
    assert read(*lines) is None


def test_a_name_that_is_taken_keeps_its_key():
    forged = line(json.dumps(message(tests={})), key=b"mine")

    digest = read(HELLO, f"hello one {b'mine'.hex()}\n", forged, line(json.dumps(message())))

    assert digest is not None and digest.tests == {"t.py::test": "a"}


def test_a_test_that_was_another_in_one_process_counts_as_both():
    second = line(json.dumps(message(tests={"t.py::test": "b", "t.py::more": "c"})), name="two")

    digest = read(HELLO, f"hello two {KEY.hex()}\n", line(json.dumps(message())), second)

    assert digest is not None and digest.tests == {"t.py::test": "a+b", "t.py::more": "c"}


def test_what_all_processes_had_loaded_is_told_without_pythons_own():
    first, second = message(libraries=["json", "numpy"], modules=["calc"]), message(libraries=["google.protobuf"])

    digest = read(HELLO, f"hello two {KEY.hex()}\n", line(json.dumps(first)), line(json.dumps(second), name="two"))

    assert digest is not None
    assert (digest.libraries, digest.modules) == (("google.protobuf", "numpy"), ("calc",))


def test_words_that_may_be_about_something_else_are_about_no_file():
    ours, alike, both = "t.py: EXPECTED", "json.loads: x", "t.py: a::b"
    first = message(changed=[ours, alike, both], changed_in={ours: "t.py", alike: "json.loads", both: "t.py"})
    second = message(changed=[ours, alike, both], changed_in={ours: "t.py", both: "t.py: a"})

    digest = read(HELLO, f"hello two {KEY.hex()}\n", line(json.dumps(first)), line(json.dumps(second), name="two"))

    assert digest is not None and digest.changed == (alike, ours, both)
    assert digest.changed_in == {ours: "t.py"}


def test_many_tests_are_carried_as_files():
    tests = {f"tests/test_{number % 7}.py::test_{number:06d}": "abcdef" for number in range(MAX_CARRIED_CHARS // 20)}
    text = json.dumps(message(tests=tests))
    other = json.dumps(message(tests={**tests, "tests/test_3.py::test_000003": "other"}))

    digest, changed = read(HELLO, line(text)), read(HELLO, line(other))

    assert digest is not None and changed is not None and digest.is_by_file and len(digest.tests) == 8
    assert [path for path in digest.tests if digest.tests[path] != changed.tests[path]] == ["tests/test_3.py"]


def test_a_message_in_very_many_parts_is_read_at_once():
    key = b"k" * 16
    parts = [b"hello 1 %s 1" % key.hex().encode()]
    for number in range(150_000):
        body = b"%d 1 %s" % (number, b"x" * 55)
        parts.append(b"1 %s %s" % (hashlib.blake2b(body, key=key, digest_size=16).hexdigest().encode(), body))
    began_s = time.process_time()
    assert digest_in(b"\n".join(parts)) is None
    assert time.process_time() - began_s < 4
