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
