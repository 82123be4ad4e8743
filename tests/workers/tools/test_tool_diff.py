"""The diff that a writing tool leaves for people."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.tools.diff import MAX_MATCHED_LINES, diff_of, unified_diff


@pytest.mark.parametrize(
    ("before", "after", "diff"),
    [
        (b"a\n", b"a\n", ""),
        (None, b"a\nb\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n"),
        (b"a\n", None, "--- a/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n"),
        (b"a\nb\n", b"a\nc\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
        (b"a", b"a\n", "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"),
    ],
)
def test_a_diff_is_unified(before: bytes | None, after: bytes | None, diff: str):
    assert unified_diff("f", before, after) == diff


def test_a_change_deep_in_a_long_file_is_shown_alone():
    lines = [f"{n}\n" for n in range(5000)]
    changed = [*lines[:4000], "new\n", *lines[4001:]]

    diff = unified_diff("f", "".join(lines).encode(), "".join(changed).encode())

    assert "@@ -3998,7 +3998,7 @@\n 3997\n 3998\n 3999\n-4000\n+new\n 4001\n" in diff
    assert len(diff.splitlines()) == 11


def test_what_differs_too_much_to_be_compared_is_one_change():
    before = "".join(f"{n}\n" for n in range(MAX_MATCHED_LINES))

    diff = unified_diff("f", before.encode(), before.replace("5", "x").encode())

    assert diff.count("@@ -") == 1


async def test_a_diff_is_no_longer_than_what_a_tool_may_say():
    content = "".join(f"{n}\n" for n in range(10_000)).encode()

    diff = (await diff_of({"/workspace/f": (None, content)}))["diff"]

    assert len(diff.splitlines()) < 2010
    assert "more lines)" in diff


LINES = st.lists(st.sampled_from("abc"), max_size=30).map(lambda lines: "".join(f"{line}\n" for line in lines))


@given(before=LINES, after=LINES)
def test_a_diff_leads_from_the_one_text_to_the_other(before: str, after: str):
    rebuilt: list[str] = []
    old = before.splitlines(keepends=True)
    at = 0
    for line in unified_diff("f", before.encode(), after.encode()).splitlines(keepends=True)[2:]:
        if hunk := re.match(r"@@ -(\d+),(\d+) ", line):
            start = int(hunk[1]) - (hunk[2] != "0")
            rebuilt += old[at:start]
            at = start
        elif line[0] == "+":
            rebuilt.append(line[1:])
        else:
            assert old[at] == line[1:]
            rebuilt += [old[at]] if line[0] == " " else []
            at += 1
    assert "".join([*rebuilt, *old[at:]]) == after
