"""Patches: how they are read, where their chunks fit, and what is refused."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.tools.patch import PatchRefused, apply_patch, parse_patch, patched
from workers.tools.patch_tree import Add, Chunk, Delete, Update


def envelope(body: str) -> str:
    return f"*** Begin Patch\n{body}*** End Patch\n"


def updated(text: str, body: str) -> str | None:
    return apply_patch({"f": text}, parse_patch(envelope(f"*** Update File: f\n{body}")))["f"]


EVERYTHING = """\
*** Add File: src/new.py
+one
+
++two
*** Delete File: old name.py
*** Update File: a.py
*** Move to: b.py
@@ def f():
 same
-gone
+come
@@
-x

-y
*** End of File
"""


def test_a_patch_is_a_tree():
    assert parse_patch(envelope(EVERYTHING)).sections == (
        Add("src/new.py", "one\n\n+two\n"),
        Delete("old name.py"),
        Update(
            "a.py",
            (
                Chunk("def f():", ((" ", "same"), ("-", "gone"), ("+", "come"))),
                Chunk("", (("-", "x"), (" ", ""), ("-", "y")), at_end=True),
            ),
            move_to="b.py",
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("*** Begin Patch\n*** Delete File: a\n*** End Patch", id="bare"),
        pytest.param("\n\n  *** Begin Patch  \n*** Delete File: a\n*** End Patch  \n\n", id="blanks around"),
        pytest.param("Here it is:\n```\n*** Begin Patch\n*** Delete File: a\n*** End Patch\n```\nDone.", id="words"),
        pytest.param("apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: a\n*** End Patch\nEOF\n", id="heredoc"),
        pytest.param("*** Begin Patch\r\n*** Delete File: a\r\n*** End Patch\r\n", id="carriage returns"),
        pytest.param("*** Begin Patch\n\n*** Delete File: a\n\n*** End Patch", id="blank lines between sections"),
    ],
)  # fmt: skip
def test_what_is_around_the_envelope_is_passed_over(text: str):
    assert parse_patch(text).sections == (Delete("a"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"no line '\*\*\* Begin Patch'"),
        ("*** Delete File: a\n*** End Patch", r"no line '\*\*\* Begin Patch'"),
        ("*** Begin Patch\n*** Delete File: a", r"no line '\*\*\* End Patch' after line 1"),
        ("*** Begin Patch\n*** Update File: a\n@@\n-x\n *** End Patch", r"no line '\*\*\* End Patch'"),
        (envelope(""), "empty"),
        (envelope("*** Delete File: a\n") + envelope("*** Delete File: b\n"), "line 4: a second patch"),
        (envelope("stray\n*** Delete File: a\n"), "line 2: 'stray' belongs to no section"),
        (envelope("*** Delete File: a\n+x\n"), "line 3: '.x'"),
        (envelope("*** Add File: a\n+x\ny\n+z\n"), "line 4: 'y'"),
        (envelope("*** Add File: a\n+x\n\n+z\n"), "line 5: '.z'"),
        (envelope("*** Update File: a\n@@\n-x\ny\n"), "line 5: 'y'"),
        (envelope("*** Update File: a\n@@\n-x\n*** End of File\n-y\n"), "line 6: '-y'"),
        (envelope("*** Update File: a\n@@\n-x\n*** Move to: b\n"), "line 5: '.*Move to"),
        (envelope("*** Rename File: a\n"), "line 2: .*Rename"),
        (envelope("*** Add File:  \n+x\n"), "line 2: .* names no path"),
        (envelope("*** Update File: a\n*** Move to:\n@@\n-x\n"), "line 3: .* names no path"),
        (envelope("*** Update File: a\n"), "update of a needs a chunk"),
        (envelope("*** Update File: a\nstray\n"), "line 3: .*update of a needs a chunk"),
        (envelope("*** Update File: a\n@@ f\n*** Delete File: b\n"), "line 3: this chunk has no lines"),
        (envelope("*** Update File: a\n@@ f\n@@ g\n"), "line 3: this chunk has no lines"),
        (envelope("*** Update File: a\n--- a/a\n+++ b/a\n"), "update of a needs a chunk"),
    ],
)
def test_a_line_that_belongs_to_nothing_is_refused(text: str, words: str):
    with pytest.raises(PatchRefused, match=words):
        parse_patch(text)


@pytest.mark.parametrize(
    ("text", "body", "after"),
    [
        pytest.param("a\nb\nc\n", "@@\n a\n-b\n+x\n+y\n c\n", "a\nx\ny\nc\n", id="in its context"),
        pytest.param("a\nb\n", "-a\n+x\n", "x\nb\n", id="the first chunk without its @@"),
        pytest.param("a\nb\na\nb\n", "@@\n-b\n+1\n@@\n-b\n+2\n", "a\n1\na\n2\n", id="each after the one before"),
        pytest.param("x\ndef f\nx\n", "@@ def f\n-x\n+y\n", "x\ndef f\ny\n", id="below its context line"),
        pytest.param("f\nx\nf\nx\n", "@@ f\n-x\n+1\n@@ f\n-x\n+2\n", "f\n1\nf\n2\n", id="context lines in their order"),
        pytest.param("x\na\nx\n", "@@\n-x\n+y\n*** End of File\n", "x\na\ny\n", id="at the end of the file"),
        pytest.param("a\n\nb\n", "@@\n a\n\n-b\n+c\n", "a\n\nc\n", id="a blank line of context that lost its blank"),
        pytest.param("a\nb\n", "@@\n-a\n+x\n\n@@\n-b\n+y\n", "x\ny\n", id="a blank line between chunks"),
        pytest.param("a\nb\n", "@@\n+c\n+d\n", "a\nb\nc\nd\n", id="without old lines, at the end"),
        pytest.param("a\nb\n", "@@ a\n+c\n", "a\nc\nb\n", id="without old lines, below its context"),
        pytest.param(
            "a\nb\n", "@@ a\n+c\n*** End of File\n", "a\nb\nc\n", id="without old lines, at the end all the same"
        ),
        pytest.param("a\nb\n", "@@\n+z\n@@\n-a\n+x\n", "x\nb\nz\n", id="added at the end, and a change above"),
        pytest.param("", "@@\n+a\n", "a\n", id="into an empty file"),
        pytest.param("a\n", "@@\n-a\n", "", id="the last line gone"),
        pytest.param("a\nb", "@@\n-b\n+c\n", "a\nc\n", id="ends with a newline, as it did not"),
        pytest.param("a\nb", "@@\n-a\n+c\n", "c\nb\n", id="ends with a newline, changed elsewhere"),
        pytest.param("a\n\n", "@@\n-a\n+c\n", "c\n\n", id="blank lines at its end stay"),
        pytest.param("a\r\nb\r\n", "@@\n a\n-b\n+c\n+d\n", "a\r\nc\r\nd\r\n", id="carriage returns stay"),
        pytest.param("a\r\nb", "@@\n-a\n+c\n", "c\r\nb\r\n", id="carriage returns, to the last line"),
        pytest.param("\ufeffa\n", "@@\n-a\n+b\n", "\ufeffb\n", id="the mark of bytes stays"),
        pytest.param("a\x0cb\nc\n", "@@\n-a\x0cb\n+d\n", "d\nc\n", id="only newlines end lines"),
        pytest.param("*** End Patch\nx\n", "@@\n *** End Patch\n-x\n+y\n", "*** End Patch\ny\n", id="marks as content"),
    ],
)
def test_chunks_are_put_where_they_fit(text: str, body: str, after: str):
    assert updated(text, body) == after


@pytest.mark.parametrize(
    ("text", "body", "after"),
    [
        pytest.param("a  \nb\n", "@@\n a\n-b\n+c\n", "a  \nc\n", id="blanks at the end of lines"),
        pytest.param("\ta\nb\n", "@@\n     a\n-b\n+c\n", "\ta\nc\n", id="blanks on both sides"),
        pytest.param(
            "say “hi” – it’s…\nb\n", '@@\n say "hi" - it\'s...\n-b\n+c\n', "say “hi” – it’s…\nc\n", id="signs"
        ),
        pytest.param("a\u00a0b\nx\n", "@@ a b\n-x\n+y\n", "a\u00a0b\ny\n", id="a context line, too"),
        pytest.param(" x\nx \nx\n", "@@\n-x\n+y\n", " x\nx \ny\n", id="exact before loose, though later"),
        pytest.param(" x\nx \n", "@@\n-x\n+y\n", " x\ny\n", id="blanks at the end before blanks on both sides"),
    ],
)
def test_lines_are_compared_more_and_more_loosely_and_those_that_stay_are_the_files(text: str, body: str, after: str):
    assert updated(text, body) == after


@pytest.mark.parametrize(
    ("text", "body", "words"),
    [
        ("a\n", "@@\n-b\n+c\n", "f has no such lines; read it again"),
        ("a\nb\n", "@@\n-b\n+x\n@@\n-a\n+y\n", "in the place that the patch says"),
        ("a\n", "@@ g\n-a\n+b\n", "context line after '@@'"),
        ("x\nf\n", "@@ f\n-x\n+y\n", "in the place that the patch says"),
        ("x\na\n", "@@\n-x\n+y\n*** End of File\n", "lines at the end of the file in the place"),
        ("x\n", "@@\n-x\n+y\n@@\n-x\n+z\n", "in the place that the patch says"),
        ("", "@@\n-x\n", "has no such lines"),
        ("a\nb\nc\n", "@@\n-a\n # ...\n-c\n+x\n", "leaves lines out .'# ...'., and must have all lines"),
        ("a\n", "@@ // ... existing code ...\n-a\n+x\n", "context line after '@@': the patch leaves lines out"),
    ],
)
def test_a_chunk_that_does_not_fit_is_refused(text: str, body: str, words: str):
    with pytest.raises(PatchRefused, match=words):
        updated(text, body)


TWO = """\
class A:
    def f(self):
        return 1

    def g(self):
        return 2


class B(Base):
    def f(self):
        return 1

    def h(self):
        return 2
"""


@pytest.mark.parametrize(
    ("body", "line", "becomes"),
    [
        pytest.param("@@ class B(Base):\n@@     def f(self):\n-        return 1\n+        return 3\n", 11,
                     "        return 3", id="two headers"),
        pytest.param("@@ class B(Base):\n@@ def f(self):\n-        return 1\n+        return 3\n", 11,
                     "        return 3", id="two headers, without indentation"),
        pytest.param("@@ class B\n@@ def f\n-        return 1\n+        return 3\n", 11, "        return 3",
                     id="two headers, as lines begin"),
        pytest.param("@@\n@@ class B(Base):\n@@ ...\n-        return 1\n+        return 3\n", 11, "        return 3",
                     id="headers that say nothing"),
        pytest.param("@@ class B(Base): @@\n-        return 1\n+        return 3\n", 11, "        return 3",
                     id="a header that is closed"),
        pytest.param("@@ -10,2 +10,2 @@ class B(Base):\n     def f(self):\n-        return 1\n+        return 3\n", 11,
                     "        return 3", id="a unified header"),
        pytest.param("@@ -10,2 +10,2 @@\n     def f(self):\n-        return 1\n+        return 3\n", 11,
                     "        return 3", id="a unified header, by its number"),
        pytest.param("@@ -900,2 +900,2 @@ class B\n     def f(self):\n-        return 1\n+        return 3\n", 11,
                     "        return 3", id="a unified header, its number wrong"),
        pytest.param("--- a/f\n+++ b/f\n@@ -2,2 +2,2 @@ class A:\n     def f(self):\n-        return 1\n"
                     "+        return 3\n\\ No newline at end of file\n", 3, "        return 3",
                     id="all of a unified diff"),
        pytest.param("@@ def g(self):\n-        return 2\n+        return 3\n", 6, "        return 3", id="one header"),
    ],
)  # fmt: skip
def test_headers_say_where_a_chunk_is(body: str, line: int, becomes: str):
    lines = TWO.split("\n")
    assert updated(TWO, body) == "\n".join([*lines[: line - 1], becomes, *lines[line:]])
    assert lines[line - 1] != becomes


def test_the_same_header_may_stand_above_two_chunks():
    body = "@@ def f():\n-    a\n+    1\n@@ def f():\n-    c\n+    3\n"

    assert updated("def f():\n    a\n    b\n    c\n", body) == "def f():\n    1\n    b\n    3\n"


@pytest.mark.parametrize(
    ("body", "after_line"),
    [
        pytest.param("@@ class B(Base):\n+    x = 1\n", 9, id="below its header"),
        pytest.param("@@ class B\n@@ def h(self):\n+    x = 1\n", 13, id="below the inner one of two"),
        pytest.param("@@ class A:\n@@ def f(self):\n+    x = 1\n", 2, id="below the first of two that are alike"),
        pytest.param("@@ -9,0 +10,1 @@\n+    x = 1\n", 9, id="where a unified header says"),
        pytest.param("@@ -0,0 +1,1 @@\n+    x = 1\n", 0, id="at the top"),
        pytest.param("@@\n+    x = 1\n", 14, id="at the end where nothing says"),
        pytest.param("@@ -3,2 +3,3 @@ class B(Base):\n+    x = 1\n", 9, id="a unified header that counts wrongly"),
    ],
)
def test_a_header_decides_where_an_addition_lands(body: str, after_line: int):
    lines = TWO.split("\n")
    assert updated(TWO, body) == "\n".join([*lines[:after_line], "    x = 1", *lines[after_line:]])


@pytest.mark.parametrize(
    ("text", "body", "after"),
    [
        pytest.param("class A:\n    def f(self):\n        a()\n        b()\n",
                     "@@\n def f(self):\n     a()\n-    b()\n+    c()\n+    if d:\n+        e()\n",
                     "class A:\n    def f(self):\n        a()\n        c()\n        if d:\n            e()\n",
                     id="moved right"),
        pytest.param("def f():\n    a()\n", "@@\n     def f():\n-        a()\n+        b()\n", "def f():\n    b()\n",
                     id="moved left"),
        pytest.param("if x:\n\ta()\n", "@@\n if x:\n-    a()\n+    b()\n+    if y:\n+        c()\n",
                     "if x:\n\tb()\n\tif y:\n\t\tc()\n", id="tabs"),
        pytest.param("if x:\n\ta()\n", "@@\n-    a()\n+\tb()\n", "if x:\n\tb()\n", id="there already"),
        pytest.param("say “a”\nx\n", '@@\n-say "a"\n+say "b"\n x\n', "say “b”\nx\n",
                     id="quotes of a line that changes"),
        pytest.param("cafe\u0301 1\nx\n", "@@\n-café 1\n+café 2\n x\n", "cafe\u0301 2\nx\n", id="accents"),
        pytest.param("a\r\nb\nc\r\n", "@@\n-b\n+x\n", "a\r\nx\nc\r\n", id="mixed line ends, as the line it replaces"),
        pytest.param("a\nb\r\nc\n", "@@\n a\n+x\n", "a\nx\nb\r\nc\n", id="mixed line ends, as the line before it"),
    ],
)  # fmt: skip
def test_what_comes_has_the_files_indentation_signs_and_line_ends(text: str, body: str, after: str):
    assert updated(text, body) == after


@pytest.mark.parametrize(
    ("text", "body", "words"),
    [
        pytest.param("if a:\n    b()\nc()\n", "@@\n   if a:\n       b()\n-      c()\n+      d()\n",
                     "another indentation", id="another structure"),
        pytest.param("\ta\n  a\nb\n", "@@\n-    a\n+    c\n", "resembles them stands at lines 1 and 2",
                     id="two places"),
        pytest.param(TWO, "@@ def f(self):\n+        x = 1\n", "at lines 2 and 10", id="an addition at two places"),
        pytest.param(TWO, "@@ class A:\n@@ def h(self):\n-        return 2\n+        return 3\n", "context line",
                     id="a header that is in another class"),
        pytest.param(TWO, "@@ def g(self):\n-        return 1\n+        return 3\n", "no such lines in 'def g.self.:'",
                     id="lines that are in another function"),
        pytest.param(TWO, "@@ -40,0 +41,1 @@\n+    x = 1\n", "does not say where", id="an addition beyond the end"),
        pytest.param("a\nb\nc\n", "@@\n-a\n-b\n+# ... existing code ...\n c\n", "in place of lines", id="elided"),
    ],
)  # fmt: skip
def test_a_chunk_whose_place_is_not_clear_is_refused(text: str, body: str, words: str):
    with pytest.raises(PatchRefused, match=words):
        updated(text, body)


def test_an_added_file_with_lines_left_out_does_not_replace_one():
    body = "*** Add File: a\n+def f():\n+    # ... rest of the code ...\n"

    with pytest.raises(PatchRefused, match="in place of lines"):
        apply_patch({"a": "x\n"}, envelope(body))
    assert "rest" in apply_patch({}, envelope(body))["a"]


def test_a_patch_knows_what_it_took_to_be_meant():
    done = patched(
        {"a": "x\nx\n", "b": "x \n", "c": "x\n"},
        envelope("".join(f"*** Update File: {name}\n@@\n-x\n+y\n" for name in "abc")),
    )

    assert done.loose == ("b",)
    assert done.remarks == ("a: line 1 was changed; the same stands at lines 1 and 2",)


@pytest.mark.parametrize(
    ("files", "body", "after"),
    [
        ({}, "*** Add File: a\n+x\n", {"a": "x\n"}),
        ({}, "*** Add File: a\n", {"a": ""}),
        ({"a": "old\n"}, "*** Add File: a\n+x\n", {"a": "x\n"}),
        ({"a": "x\n", "b": "y\n"}, "*** Delete File: a\n", {"b": "y\n"}),
        ({"a": "x"}, "*** Update File: a\n*** Move to: b\n", {"b": "x"}),
        ({"a": "x\n"}, "*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n", {"b": "y\n"}),
        ({"a": "x\n"}, "*** Update File: a\n*** Move to: a\n@@\n-x\n+y\n", {"a": "y\n"}),
        ({"a": "x\n"}, "*** Update File: a\n@@\n-x\n+y\n*** Update File: a\n@@\n-y\n+z\n", {"a": "z\n"}),
        ({"a": "x\n"}, "*** Delete File: a\n*** Add File: a\n+y\n", {"a": "y\n"}),
    ],
)
def test_sections_apply_in_their_order(files: dict, body: str, after: dict):
    assert apply_patch(files, parse_patch(envelope(body))) == apply_patch(files, envelope(body)) == after


@pytest.mark.parametrize(
    "body",
    [
        "*** Delete File: absent\n",
        "*** Update File: absent\n@@\n-x\n",
        "*** Delete File: a\n*** Delete File: a\n",
        "*** Delete File: a\n*** Update File: a\n@@\n-x\n",
        "*** Update File: a\n*** Move to: b\n*** Delete File: a\n",
    ],
)
def test_a_file_that_is_not_there_cannot_be_changed(body: str):
    with pytest.raises(PatchRefused, match="does not exist"):
        apply_patch({"a": "x\n"}, parse_patch(envelope(body)))


def test_a_patch_with_one_chunk_that_does_not_fit_changes_nothing():
    files = {"a": "x\n", "b": "x\n"}

    with pytest.raises(PatchRefused):
        apply_patch(files, parse_patch(envelope("*** Update File: a\n@@\n-x\n+y\n*** Delete File: c\n")))

    assert files == {"a": "x\n", "b": "x\n"}


def test_lines_that_resemble_each_other_everywhere_are_searched_in_linear_time():
    """Ten thousand times ten thousand comparisons in each pass would take minutes."""
    wanted = "-x\n" * 10_000 + "-y\n"

    with pytest.raises(PatchRefused, match="no such lines"):
        updated("x\n" * 100_000, f"@@\n{wanted}")
    assert updated("x\n" * 100_000 + "y\n", f"@@\n{wanted}") == "x\n" * 90_000


WORDS = st.lists(st.text("abc é\t", max_size=4), max_size=12)


@given(before=WORDS, after=WORDS)
def test_one_chunk_over_all_makes_any_text_of_any_other(before: list[str], after: list[str]):
    body = "".join(f"-{line}\n" for line in before) + "".join(f"+{line}\n" for line in after)
    text, wanted = ("".join(f"{line}\n" for line in lines) for lines in (before, after))
    if before:
        assert updated(text, f"@@\n{body}*** End of File\n") == wanted
    elif after:
        assert updated(text, f"@@\n{body}") == wanted


@given(st.text("*@ +-\nabEndPatchBegiF:l", max_size=80))
def test_whatever_a_model_writes_is_read_or_refused(text: str):
    try:
        assert parse_patch(envelope(text)).sections
    except PatchRefused as refused:
        assert str(refused)


CODE = st.lists(
    st.builds(
        lambda indent, word, end: indent + word + end,
        st.sampled_from(["", "    ", "        ", "\t"]),
        st.sampled_from(["alpha", "beta", "def f():", "class A:", "}", ""]),
        st.sampled_from(["", "", " "]),
    ),
    max_size=10,
)


@given(text=CODE, chunk=CODE, signs=st.lists(st.sampled_from(" -+"), min_size=10, max_size=10), header=st.sampled_from(
    ["", " def f():", " class A", " -3,2 +3,2 @@", " -2,0 +3,1 @@ class A:"]), shift=st.integers(0, 8))  # fmt: skip
def test_lines_that_no_chunk_takes_away_are_still_there(text, chunk, signs, header, shift):
    """A chunk of lines that are in the file, at any indentation, takes away those that it marks and no others."""
    first = shift % max(1, len(text))
    lines = [*text[first : first + len(chunk)], *chunk] if shift % 2 else chunk
    marked = [(sign, line.strip() if shift % 3 == 0 else line) for sign, line in zip(signs, lines, strict=False)]
    body = f"@@{header}\n" + "".join(f"{sign}{line}\n" for sign, line in marked)
    try:
        after = updated("".join(f"{line}\n" for line in text), body)
    except PatchRefused:
        return
    gone = Counter(text) - Counter((after or "").split("\n"))
    assert all(line.strip() in {named.strip() for sign, named in marked if sign == "-"} for line in gone)
