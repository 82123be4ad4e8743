"""Cutting outputs: which lines stay, and what the model is told of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.tools import base
from workers.tools.truncate import MAX_BYTES, MAX_LINES, cut_line, spill_hint, truncate

TEN = "".join(f"{n}\n" for n in range(10))


@pytest.mark.parametrize(
    ("text", "limits", "kept", "dropped"),
    [
        ("", {}, "", (0, 0)),
        ("a\nb", {"max_lines": 2}, "a\nb", (0, 0)),
        ("a\nb\n", {"max_lines": 2}, "a\nb\n", (0, 0)),  # the last newline begins no third line
        ("a\nb\nc", {"max_lines": 2}, "a\nb", (1, 2)),
        ("a\nb\nc\n", {"max_lines": 2}, "a\nb", (1, 3)),
        ("a\n\n\n", {"max_lines": 2}, "a\n", (1, 2)),  # empty lines are lines
        (TEN, {"max_bytes": 20}, TEN, (0, 0)),
        (TEN, {"max_bytes": 7}, "0\n1\n2\n3", (6, 13)),  # the newlines between them are counted
        (TEN, {"max_bytes": 8}, "0\n1\n2\n3", (6, 13)),
        (TEN, {"max_bytes": 9}, "0\n1\n2\n3\n4", (5, 11)),
        ("€€\n€€", {"max_bytes": 6}, "€€", (1, 7)),  # bytes, not characters
        ("abcdef", {"max_bytes": 4}, "abcd", (0, 2)),  # a single line is cut itself
        ("€€€", {"max_bytes": 4}, "€", (0, 6)),  # and a character never is
        ("long line\nb", {"max_bytes": 4}, "long", (1, 7)),
    ],
)
def test_the_head_is_kept(text, limits, kept, dropped):
    cut = truncate(text, **limits)

    assert (cut.text, (cut.dropped_lines, cut.dropped_bytes)) == (kept, dropped)


@pytest.mark.parametrize(
    ("text", "limits", "kept", "dropped"),
    [
        ("a\nb\nc", {"max_lines": 2}, "b\nc", (1, 2)),
        ("a\nb\nc\n", {"max_lines": 2}, "b\nc", (1, 3)),
        (TEN, {"max_bytes": 7}, "6\n7\n8\n9", (6, 13)),
        ("abcdef", {"max_bytes": 4}, "cdef", (0, 2)),
        ("€€€", {"max_bytes": 4}, "€", (0, 6)),
        ("a\nlong line", {"max_bytes": 4}, "line", (1, 7)),
    ],
)
def test_the_tail_is_kept_of_what_ends_with_what_matters(text, limits, kept, dropped):
    cut = truncate(text, keep="tail", **limits)

    assert (cut.text, (cut.dropped_lines, cut.dropped_bytes)) == (kept, dropped)


@pytest.mark.parametrize(
    ("text", "dropped_lines"),
    [
        ("x\n" * 2_000, 0),
        ("x\n" * 2_001, 1),
        ("x" * 51_200, 0),
        (("x" * 511 + "\n") * 100, 0),  # 51,200 bytes
        (("x" * 511 + "\n") * 101, 1),
    ],
)
def test_the_limits_are_those_that_people_know(text, dropped_lines):
    assert (MAX_LINES, MAX_BYTES) == (2_000, 51_200)
    assert truncate(text).dropped_lines == dropped_lines


@pytest.mark.parametrize(
    ("keep", "limits", "shown"),
    [
        ("head", {"max_lines": 4}, "0\n1\n2\n3\n\n(6 lines truncated)"),
        ("tail", {"max_lines": 4}, "(6 lines truncated)\n\n6\n7\n8\n9"),
        ("head", {"max_lines": 9}, "0\n1\n2\n3\n4\n5\n6\n7\n8\n\n(1 line truncated)"),
        ("head", {"max_bytes": 4}, "0\n1\n\n(17 bytes truncated)"),
        ("tail", {"max_bytes": 4}, "(17 bytes truncated)\n\n8\n9"),
        ("head", {"max_lines": 2, "max_bytes": 3}, "0\n1\n\n(8 lines truncated)"),
        ("head", {"max_lines": 10, "max_bytes": 19}, TEN.rstrip() + "\n\n(1 byte truncated)"),
        ("head", {}, TEN),
        ("tail", {}, TEN),
    ],
)
def test_the_notice_stands_where_something_is_missing(keep, limits, shown):
    assert truncate(TEN, keep=keep, **limits) == shown


def test_a_hint_says_how_to_get_at_the_rest():
    cut = truncate(TEN, max_lines=1)

    assert cut.shown(spill_hint("/tmp/out.txt")).startswith("0\n\n(9 lines truncated)\nThe whole output is in /tmp/out")
    assert "grep" in spill_hint("/tmp/out.txt") and "task" in spill_hint("/tmp/out.txt", can_delegate=True)
    assert truncate(TEN).shown(spill_hint("/tmp/out.txt")) == TEN


@given(text=st.text("ab\n€\r", max_size=60), head=st.booleans(), lines=st.integers(1, 9), size=st.integers(4, 40))
def test_what_is_kept_is_one_end_of_the_text_within_the_limits(text: str, head: bool, lines: int, size: int):
    cut = truncate(text, keep="head" if head else "tail", max_lines=lines, max_bytes=size)
    body = text.removesuffix("\n")

    assert len(cut.text.encode()) <= size
    assert cut.text == text or cut.text.count("\n") < lines
    assert text.startswith(cut.text) if head else (body.endswith(cut.text) or cut.text == text)
    assert cut.dropped_bytes == len(text.encode()) - len(cut.text.encode())
    assert bool(cut.notice) == (cut.text != text)


def test_a_long_line_says_that_it_was_cut():
    assert cut_line("x" * 2_000) == "x" * 2_000
    assert cut_line("x" * 2_001) == "x" * 2_000 + "… (cut at 2000 characters)"


def test_tools_find_it_beside_what_they_return():
    assert base.truncate is truncate
