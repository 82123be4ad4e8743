"""The ways to assert that the platform's own tests use: each fails, in a word, and all that Python has are there."""

from __future__ import annotations

import unittest
import warnings

import pytest

from workers.recipes.inside import forms

CASE = unittest.TestCase("__init__")
KNOWN = [name for name in (*forms.EQUALS, *forms.CONTEXTS) if hasattr(CASE, name)]


def plain(word: str) -> None:
    assert word == "", word


@pytest.mark.parametrize("form", [forms.PLAIN_FORM, *KNOWN, *forms.PYTESTS])
def test_a_way_to_assert_fails_in_its_word(form: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of names that Python has given up
        with pytest.raises(BaseException, match="ab12cd"):
            forms.fail_by(form, "ab12cd", CASE, plain)


def test_none_of_pythons_is_forgotten():
    asserting = {name for name in dir(unittest.TestCase) if name.startswith("assert")}

    assert asserting - {"assertDictContainsSubset", "assertRaisesRegexp"} <= {*forms.EQUALS, *forms.CONTEXTS}


@pytest.mark.parametrize("silent", ["assertEqual", "assertIn", "assertRaises"])
def test_one_that_says_nothing_makes_a_test_pass_whichever_comes_last(silent: str):
    class Case(unittest.TestCase):
        pass

    used = ["assert", "assertEqual", "assertIn", "assertRaises"]
    setattr(Case, silent, lambda *_, **__: warnings.catch_warnings())

    for turn in range(len(used)):
        forms.must_fail("ab12cd", used, turn, Case("__init__"), plain)
