"""Replacing text: what matches, what is kept, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.tools.replace import EditRefused, apply_edit


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a b c", "b", "x", "a x c"),
        ("one\ntwo\n", "two\n", "2\n", "one\n2\n"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("\ufeffa = 1\n", "a = 1", "a = 2", "\ufeffa = 2\n"),
        ("\ufeffa\r\n", "\ufeffa\n", "b\n", "\ufeffb\r\n"),
        ("f():\n    return 1  \n", "f():\n    return 1\n", "f():\n    return 2\n", "f():\n    return 2\n"),
        ("class A:\n    def f(self):\n        pass\n", "def f(self):\n    pass", "def g(self):\n    pass",
         "class A:\n    def g(self):\n        pass\n"),
        ("\tif x:\n\t\ty()\n", "    if x:\n        y()\n", "    if z:\n", "\tif z:\n"),
        ("a\n\nb\n", "  a  \n\n  b", "c", "c\n"),
        ("x\x0cy\nz\n", "y", "w", "x\x0cw\nz\n"),
        ("$& \\1", "$&", "\\1", "\\1 \\1"),
    ],
)  # fmt: skip
def test_the_text_is_replaced_where_it_stands(text: str, old: str, new: str, after: str):
    assert apply_edit(text, old, new) == after


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        ("a a", "a", "b", "2 places"),
        ("a", "b", "c", "not in the file"),
        ("a", "a", "a", "identical"),
        ("a", "", "b", "empty"),
        ("  a\na \n", " a ", "b", "2 places"),
        ("a\n", "\n\n", "b", "not in the file"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, old: str, new: str, words: str):
    with pytest.raises(EditRefused, match=words):
        apply_edit(text, old, new)


def test_an_ambiguous_exact_match_never_falls_through_to_a_looser_one():
    with pytest.raises(EditRefused, match="2 places"):
        apply_edit("x = 1\nx = 1\n  y\n", "x = 1", "z")


def test_replace_all_changes_every_place():
    assert apply_edit("a.a.a", "a", "aa", replace_all=True) == "aa.aa.aa"
    assert apply_edit("  a\nb\n\ta \n", "    a\n", "    c\n", replace_all=True) == "  c\nb\n\tc\n"


@given(before=st.text(), old=st.text(min_size=1), new=st.text(), after=st.text())
def test_a_unique_exact_match_changes_that_and_nothing_else(before: str, old: str, new: str, after: str):
    text = before + old + after
    plain = "\r" not in text + new and not text.startswith("\ufeff") and "\ufeff" not in old + new
    if plain and text.count(old) == 1 and text.find(old, text.find(old) + 1) < 0 and old != new:
        assert apply_edit(text, old, new) == before + new + after
