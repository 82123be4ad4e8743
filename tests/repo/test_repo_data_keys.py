"""Data that git merges, and whether it can stand."""

from __future__ import annotations

import pytest

from repo.data_keys import FORMS, contradict
from repo.entities import SYNTAXES, across
from repo.entities import contradict as contradict_source

TABLE = "CREATE TABLE last (\n  id int\n);\n"


def test_a_table_on_one_line_ends_there():
    ours, theirs = "CREATE TABLE ours (id int);\n", "CREATE TABLE theirs (id int);\n"
    middle = f"{TABLE.replace('last', 'middle')}\n"

    texts = (middle + TABLE, ours + middle + TABLE, middle + theirs + TABLE, ours + middle + theirs + TABLE)
    both = (TABLE, ours + TABLE, theirs + TABLE, ours + theirs + TABLE)

    assert not contradict(*(text.encode() for text in texts), form="sql")
    assert not contradict(*(text.encode() for text in both), form="sql")


# What both have, what each adds around it, and whether both can stand.
ADDED = {
    "one resource twice": ("blocks", "", 'resource "a" "b" {\n}\n', 'resource "a" "b" {\n  x = 1\n}\n', True),
    "two resources": ("blocks", "", 'resource "a" "b" {\n}\n', 'resource "a" "c" {\n}\n', False),
    "one function of a shell twice": ("shell", "", "run() {\n  one\n}\n", "run() {\n  two\n}\n", True),
    "two functions of a shell": ("shell", "", "run() {\n  one\n}\n", "stop() {\n  two\n}\n", False),
    "one type of a schema twice": ("graphql", "", "type A { a: Int }\n", "type A { b: Int }\n", True),
    "two types of a schema": ("graphql", "", "type A { a: Int }\n", "type B { a: Int }\n", False),
}


@pytest.mark.parametrize("said", ADDED)
def test_two_that_have_one_name_cannot_both_stand(said: str):
    form, middle, ours, theirs, is_contradiction = ADDED[said]
    texts = (middle, ours + middle, middle + theirs, ours + middle + theirs)

    assert contradict(*(text.encode() for text in texts), form=form) is is_contradiction


def test_a_group_that_one_version_removes_and_another_one_includes_is_gone():
    base, keep = '[dependency-groups]\nlint = ["a"]\ntest = ["b"]\n', '[dependency-groups]\ntest = ["b"]\n'
    new = 'all = [{include-group = "lint"}]\n'

    assert contradict(*(text.encode() for text in (base, keep, base + new, keep + new)), form="toml")


ODD = [
    b"\0",
    b"\xff\xfe\n",
    b"[" * 5000,
    b"{" * 5000,
    b"\r",
    b"\xe2\x80\xa8\n",
    b"'" * 5000,
    b"a: &a [*a]\n",
    b"9" * 9000,
]


@pytest.mark.parametrize("form", FORMS)
def test_odd_bytes_on_both_sides_are_no_reason_to_doubt_git(form: str):
    for odd in ODD:
        assert not contradict(b"", odd, odd, odd, form=form)


@pytest.mark.parametrize("language", SYNTAXES)
def test_odd_bytes_in_source_are_none_either(language: str):
    end = SYNTAXES[language].suffixes[0]
    for odd in ODD:
        assert not contradict_source(odd, odd, odd, odd, language)
        assert not across(odd, odd, odd, odd, language=language, path=f"a.{end}", file=f"b.{end}")
