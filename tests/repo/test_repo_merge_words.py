"""The lines of a patch, read in the process that merges: whatever stands in them, it takes no time to speak of."""

from __future__ import annotations

import time
import tracemalloc
from itertools import islice

import pytest

from repo.changes import FileChange
from repo.merge_words import Words, may_meet, names_gone, reaches, things_gone, words_of

LENGTH = 200_000
PATHS = ("a.txt", "a.py", "a.ts", "a.go", "a.java", "a.proto")
# Each of them once took hours, or would have: a pattern that begins anew at every place, or splits a run in all ways.
LINES = {
    "one word": "a" * LENGTH,
    "dots between": "a." * (LENGTH // 2),
    "slashes between": "a/" * (LENGTH // 2),
    "blanks": f"{' ' * LENGTH}x",
    "words": f" {'a ' * (LENGTH // 2)}",
    "brackets": f" {'(' * LENGTH}",
    "calls that open": f" {'a(' * (LENGTH // 2)}",
    "calls": f" {'a()' * (LENGTH // 3)}{{",
    "a call closed often": f"\ta({')' * LENGTH}{{",
    "a call ended often": f"  a({');' * (LENGTH // 2)}x",
    "receivers": "func (" * (LENGTH // 6),
    "a long receiver": f"func (a{'a' * LENGTH}",
    "headers": "def " * (LENGTH // 4),
    "blanks in a header": f"def f({' ' * LENGTH}):",
    "types in a header": f"def f({':' * LENGTH}(:",
    "types open in a header": f"def f({'[' * LENGTH}):",
    "revisions": "down_revision " * (LENGTH // 14),
    "a module far above": f"from {'.' * LENGTH}",
    "assignments": f"a{':' * LENGTH}",
    "exports": "export default " * (LENGTH // 15),
    "dots": f"{'...' * (LENGTH // 3)}x",
}


@pytest.mark.parametrize("said", LINES)
def test_a_line_of_any_kind_is_read_in_time(said: str):
    started = time.process_time()

    for path in PATHS:
        for sign in "+-":
            head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n"
            words_of(f"{head}{sign}{LINES[said]}\n".encode(), ())

    assert time.process_time() - started < 4


@pytest.mark.parametrize("path", ["lib/a.py", "lib/a.ts", "lib/a.go", "lib/a.java", "lib/a.rs"])
@pytest.mark.parametrize("said", ["\n", "a", " ", "'", ".", "import ", '"/', "from ."])
def test_a_file_of_any_kind_is_asked_in_time_what_it_uses(path: str, said: str):
    started = time.process_time()

    reaches(said.encode() * (LENGTH // len(said)), path, f"b{path[5:]}")

    assert time.process_time() - started < 2


def _diff(path: str, sign: str, *lines: str) -> bytes:
    said = "".join(f"{sign}{line}\n" for line in lines)
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n{said}".encode()


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("a.go", [f'import "x.y/{"a/" * 15_000}b"']),
        (f"{'a/' * 300}x.py", [f"import m{n:x}" for n in range(4000)]),
    ],
    ids=["a long path of an import", "many imports in a deep folder"],
)
def test_words_take_about_as_much_memory_as_their_lines(path: str, lines: list[str]):
    tracemalloc.start()
    try:
        words_of(_diff(path, "+", *lines), ())
        assert tracemalloc.get_traced_memory()[1] < 20 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("manifest", "path", "is_gone"),
    [("go.mod", "a/b.go", True), ("a/go.mod", "a/b/c.go", True), ("a/go.mod", "ab/c.go", False)],
)
def test_a_manifest_offers_to_what_is_below_it(manifest: str, path: str, is_gone: bool):
    taken = words_of(_diff(manifest, "-", "\tgithub.com/x/y v1.0.0"), ())
    other = words_of(_diff(path, "+", '\t"github.com/x/y/part"'), ())
    assert bool(things_gone(taken, other)) == is_gone
    both = words_of(_diff(manifest, "+", "\tgithub.com/x/y v1.1.0") + _diff(path, "+", '\t"github.com/x/y/part"'), ())
    assert not things_gone(taken, both)


def test_of_two_patches_with_many_files_the_first_pairs_are_found_at_once():
    taken = words_of(b"".join(_diff(f"a{n}.py", "-", "def name(): pass") for n in range(20_000)), ())
    other = words_of(b"".join(_diff(f"b{n}.py", "+", "name()") for n in range(20_000)), ())
    started = time.process_time()
    assert list(islice(may_meet(taken, other), 2)) == [("a0.py", "b0.py"), ("a0.py", "b1.py")]
    assert time.process_time() - started < 2


def test_files_meet_in_their_language_and_tests_among_themselves():
    taken = words_of(_diff("tests/a.py", "-", "def name(): pass"), ())
    paths = ("src/b.py", "tests/b.py", "tests/b.ts", "tests/a.py")
    other = words_of(b"".join(_diff(path, "+", "name()") for path in paths), ())
    assert list(may_meet(taken, other)) == [("tests/a.py", "tests/b.py")]


def test_a_path_that_is_gone_is_named_by_its_end():
    gone = FileChange("src/shop/cart.py", "D", None, 0, 1, "000000")
    taken = words_of(_diff(gone.path, "-", "x = 1"), [gone])
    other = words_of(_diff("src/app.py", "+", "from shop import cart"), ())
    assert names_gone(taken, other) == {"src/shop/cart.py", "src/app.py"}
    assert not names_gone(taken, words_of(_diff("src/app.py", "+", "from shop import cards"), ()))


def test_many_patches_that_take_away_and_name_files_are_held_against_one_another_at_once():
    def patch(number: int) -> Words:
        gone = [FileChange(f"p{number}/{'a/' * 500}{n}.py", "D", None, 0, 1, "000000") for n in range(200)]
        return words_of(_diff("b.py", "+", *(f"import p{number}.c{n}" for n in range(5000))), gone)

    patches = [patch(number) for number in range(3)]
    tracemalloc.start()
    started = time.process_time()
    for _ in range(2000):
        assert not names_gone(patches[0], patches[1]) and not names_gone(patches[2], patches[1])
    assert time.process_time() - started < 4
    assert tracemalloc.get_traced_memory()[1] < 64 * 1024 * 1024
    tracemalloc.stop()
