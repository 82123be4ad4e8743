"""Replacing text: what matches, what is kept, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.tools.distance import distance
from workers.tools.edit import apply_edit
from workers.tools.replace import EditRefused


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a b c", "b", "x", "a x c"),
        ("one\ntwo\n", "two\n", "2\n", "one\n2\n"),
        ("x\x0cy\nz\n", "y", "w", "x\x0cw\nz\n"),
        ("$& \\1", "$&", "\\1", "\\1 \\1"),
        ("a b", "a", "$& $1 \\g<0>", "$& $1 \\g<0> b"),
        ("a\nb\n", "b\n", "", "a\n"),
        # what stands there exactly is what is meant, whatever looks like it
        ("  a\na\n", "  a", "b", "b\na\n"),
    ],
)
def test_the_exact_text_is_replaced_as_it_is_written(text: str, old: str, new: str, after: str):
    assert apply_edit(text, old, new) == after


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "x\r\ny\nz", "x\r\ny\r\nz\r\n"),
        ("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"),
        ("a\r\n  b \r\nc\r\n", "a\nb\n", "x\n", "x\r\nc\r\n"),
        ("\ufeffa = 1\n", "a = 1", "a = 2", "\ufeffa = 2\n"),
        ("\ufeffa\r\n", "\ufeffa\n", "b\n", "\ufeffb\r\n"),
        ("a\n", "a", "\ufeffb", "b\n"),
    ],
)
def test_line_endings_and_the_mark_of_bytes_stay(text: str, old: str, new: str, after: str):
    assert apply_edit(text, old, new) == after


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        pytest.param("f():\n  x = 1  \n  y\n", "  x = 1\n  y", "  z", "f():\n  z\n", id="line-trimmed"),
        pytest.param("a\n\nb\n", "  a  \n\n  b", "c", "c\n", id="line-trimmed, over a blank line"),
        pytest.param("a\nb \n", "a\nb\n", "c\n", "c\n", id="line-trimmed, with its last newline"),
        pytest.param("x\na ", " a\n", "c\n", "x\nc", id="line-trimmed, where the file has no last newline"),
        pytest.param("a  =   1\n", "a = 1", "a = 2", "a = 2\n", id="whitespace collapsed, a line"),
        pytest.param("if (a  and\tb): c\n", "a and b", "d", "if (d): c\n", id="whitespace collapsed, part of a line"),
        pytest.param("f(a,  b,\nc)\n", "f(a,\nb, c)", "f()", "f()\n", id="whitespace collapsed, lines in all"),
        pytest.param("def f():\n\treturn 1\n", "    def f():\n        return 1", "    def g():\n        return 2",
                     "def g():\n\treturn 2\n", id="indentation-insensitive"),
        pytest.param('say("a")\nb\n', 'say(\\"a\\")\\nb', "x", "x\n", id="escape-decoded"),
        pytest.param('say("a")\n', 'say(\\"a\\")', 'say(\\"b\\")', 'say("b")\n', id="escape-decoded, new, too"),
        pytest.param("cost: $5\t(net)\n", "cost: \\$5\\t(net)", "free", "free\n", id="escape-decoded, $ and tab"),
        pytest.param("x = f(1,\n  2)\n", "\nf(1,\n  2)\n", "g()", "x = g()\n", id="outer blanks trimmed"),
        pytest.param("x = f(1,\n  2)\n", "\nf(1,\n  2)\n", "\ng(\n  2)\n", "x = g(\n  2)\n", id="outer blanks of new"),
    ],
)  # fmt: skip
def test_what_is_nearly_there_is_found(text: str, old: str, new: str, after: str):
    assert old not in text
    assert apply_edit(text, old, new) == after


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        pytest.param("class A:\n    def f(self):\n        pass\n", "def f(self):\n    pass",
                     "def g(self):\n    x\n    y",
                     "class A:\n    def g(self):\n        x\n        y\n", id="moved right"),
        pytest.param("def f():\n  pass\nx\n", "    def f():\n      pass", "    def g():\n      pass\n    y",
                     "def g():\n  pass\ny\nx\n", id="moved left"),
        pytest.param("\tif x:\n\t\ty()\n", "    if x:\n        y()",
                     "    if z:\n        w()\n        if v:\n            u()",
                     "\tif z:\n\t\tw()\n\t\tif v:\n\t\t\tu()\n", id="tabs for four blanks"),
        pytest.param("if x:\n\ty()\n", "if x:\n    y()", "if x:\n    z()", "if x:\n\tz()\n", id="tabs"),
        pytest.param("if x:\n    y()\n", "if x:\n\ty()", "if x:\n\tif z:\n\t\tw()", "if x:\n    if z:\n        w()\n",
                     id="four blanks for tabs"),
        pytest.param("if a:\n    if b:\n        c\n", "if a:\n  if b:\n    c",
                     "if a:\n  d\n  if b:\n    if e:\n      c",
                     "if a:\n    d\n    if b:\n        if e:\n            c\n", id="four blanks for two"),
        pytest.param("if a:\n\tb()\n", "    b()", "    if c:\n        b()", "if a:\n\tif c:\n\t\tb()\n",
                     id="one line, the step of the file"),
        pytest.param("if a:\n\tif b:\n\t\tc()\n", "        c()", "        c()\n    else:\n        d()",
                     "if a:\n\tif b:\n\t\tc()\n\telse:\n\t\td()\n", id="a dedent"),
        pytest.param("if a:\n    b()  \n", "b()\n\n", "c()", "if a:\n    c()  \n", id="behind an indent"),
        pytest.param("  a\n\n  b\n", "a\n\nb", "c\n\nd", "  c\n\n  d\n", id="blank lines stay empty"),
    ],
)  # fmt: skip
def test_a_replacement_has_the_indentation_of_the_file(text: str, old: str, new: str, after: str):
    assert apply_edit(text, old, new) == after


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        ("a", "a", "a", "identical"),
        ("a", "", "", "identical"),
        ("a\r\n", "a\r\n", "a\n", "identical"),
        ("a", "", "b", "empty"),
        ("\ufeff", "\ufeff", "b", "empty"),
        ("a", "b", "c", "not found in the file; read it again"),
        ("a\n", "\n\n", "b", "not found in the file"),
        ("a\n", "   ", "b", "not found in the file"),
        ("{\nabcdef\n}\n", "{\nuvwxyz\n}", "b", "not found in the file"),
        ("a a", "a", "b", "multiple matches.* 2 places"),
        ("aaa", "aa", "b", "multiple matches.* 2 places"),
        ("  a\n  a\n", " a ", "b", "resembles it has multiple matches"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, old: str, new: str, words: str):
    with pytest.raises(EditRefused, match=words):
        apply_edit(text, old, new)


def test_an_ambiguous_exact_match_never_falls_through_to_a_looser_one():
    with pytest.raises(EditRefused, match="at 2 places"):
        apply_edit("x = 1\nx = 1\n  y\n", "x = 1", "z")


def test_several_looser_candidates_are_ambiguous_although_one_of_them_is_written_otherwise():
    with pytest.raises(EditRefused, match="lines 1, 2 and 3"):
        apply_edit("  a\n  a\n\ta\n", " a ", " b ")


@pytest.mark.parametrize(
    ("text", "old"),
    [
        pytest.param("a" + "\n" * 9 + "b\n", "a  \n  b", id="lines"),
        pytest.param("a" + " " * 600 + "\nb\n", "a\nb\n", id="characters"),
    ],
)
def test_a_match_far_larger_than_what_was_named_is_refused(text: str, old: str):
    with pytest.raises(EditRefused, match="much larger"):
        apply_edit(text, old, "x")


def test_a_long_match_within_one_line_is_not_too_large():
    assert apply_edit("a" + " " * 600 + "b\n", "a b", "x") == "x\n"


def test_replace_all_changes_every_place():
    assert apply_edit("a.a.a", "a", "aa", replace_all=True) == "aa.aa.aa"
    assert apply_edit("aaaa", "aa", "$&", replace_all=True) == "$&$&"


def test_replace_all_changes_every_place_of_the_first_looser_candidate():
    assert apply_edit("  a\nb\n  a\n", "    a\n", "    c\n", replace_all=True) == "  c\nb\n  c\n"


def test_too_much_text_is_looked_through_for_the_exact_only():
    text = "a\n" * 2000 + " b\n"

    assert apply_edit(text, " b\n", "c\n").endswith("a\nc\n")
    with pytest.raises(EditRefused, match="too much text"):
        apply_edit(text, "b\n" * 600, "c")


@given(before=st.text(), old=st.text(min_size=1), new=st.text(), after=st.text())
def test_a_unique_exact_match_changes_that_and_nothing_else(before: str, old: str, new: str, after: str):
    text = before + old + after
    plain = (
        "\r" not in text + new
        and not old.endswith("\n")
        and not text.startswith("\ufeff")
        and "\ufeff" not in old + new
    )
    if plain and text.count(old) == 1 and text.find(old, text.find(old) + 1) < 0 and old != new:
        assert apply_edit(text, old, new) == before + new + after


LINES = st.lists(st.text(" \tbc\\n$'(", max_size=6), max_size=6).map("\n".join)


@given(text=LINES, old=LINES, new=LINES, replace_all=st.booleans())
def test_lines_that_resemble_nothing_stay_whatever_is_asked_for(text: str, old: str, new: str, replace_all: bool):
    try:
        after = apply_edit(f"first\n{text}\nlast", old, new, replace_all=replace_all)
    except EditRefused:
        return
    assert after.startswith("first") and after.endswith("last")


@given(one=st.text("abc", max_size=12), other=st.text("abc", max_size=12))
def test_the_distance_is_levenshteins(one: str, other: str):
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        above, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (letter != wanted))
    assert distance(one, other) == row[-1]
