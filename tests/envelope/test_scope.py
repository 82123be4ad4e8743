"""Patterns and scopes, compared with brute force: every text over a small alphabet."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envelope.errors import ScopeExceeded
from envelope.pattern import MAX_PATTERN_CHARS, covers, match
from envelope.scope import allows, common, narrow, offers

# `c` and a space stand in no generated pattern or only at its end: what a pattern does not name must be tried, too.
ALPHABET = "ab c"
TEXTS = ["".join(chars) for length in range(6) for chars in itertools.product(ALPHABET, repeat=length)]

patterns = st.text(alphabet="ab*? ", min_size=1, max_size=4)
tools = st.sampled_from(["read", "edit", "bash", "*", "r*", "e???"])
grants = st.builds(lambda tool, pattern: f"{tool}:{pattern}", tools, patterns)
scopes = st.lists(grants, max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("**", "a/b/c", True),
        ("src/*", "src/a/b.py", True),
        ("src/*", "srcs/a", False),
        ("?", "ab", False),
        ("*.py", "a.pyc", False),
        ("ls *", "ls", True),
        ("ls *", "ls -l", True),
        ("ls *", "lsof", False),
        ("a.b", "axb", False),
        ("src\\*", "src/a", True),
        ("*", "two\nlines", True),
    ],
)
def test_a_pattern_matches_as_documented(pattern, text, expected):
    assert match(pattern, text) is expected


@given(parents=st.lists(patterns, min_size=1, max_size=3), child=patterns)
@settings(max_examples=400, deadline=None)
def test_covers_says_what_brute_force_says(parents, child):
    expected = all(any(match(parent, text) for parent in parents) for text in TEXTS if match(child, text))

    # Texts of 5 characters tell any two of these patterns apart: a child of 4 elements needs at most 4 of them,
    # and one more for each star to grow.
    assert covers(parents, child) is expected


@given(parent=scopes, wanted=scopes)
@settings(max_examples=300, deadline=None)
def test_narrowing_never_widens(parent, wanted):
    try:
        narrowed = narrow(parent, wanted)
    except ScopeExceeded:
        return

    for tool in ("read", "edit", "bash", "write", "rx"):
        for text in TEXTS[::7]:
            assert not allows(narrowed, tool, text) or allows(parent, tool, text)


@given(parent=scopes)
@settings(deadline=None)
def test_a_scope_holds_itself_and_nothing_wanted_is_all_of_it(parent):
    assert narrow(parent, parent) == parent == narrow(parent, None)
    assert narrow(parent, ()) == ()


def test_what_is_too_much_is_named():
    with pytest.raises(ScopeExceeded, match="bash:rm") as refusal:
        narrow(("read:**", "bash:ls *"), ("read:src/**", "bash:rm *"))
    assert "bash:ls *" in refusal.value.hint


def test_a_pattern_too_long_to_compare_is_refused_not_guessed():
    assert not covers(["*"], "a" * (MAX_PATTERN_CHARS + 1))


def test_a_costly_comparison_ends_with_no():
    assert not covers(["*a" + "?" * 20 + "*b" * 5], "*a*" + "?" * 20 + "b*")


def test_one_grant_governs_the_tools_that_do_the_same():
    assert allows(("edit:src/**",), "write", "src/a")
    assert offers(("edit:src/**",), "apply_patch")
    assert not offers(("read:**",), "edit")
    assert not allows((), "read", "a")


@pytest.mark.parametrize(
    ("scope", "other"),
    [
        (
            ("bash: *", "bash:?*", f"bash:*a{'?' * 490}", "bash:a" + "".join(chr(0x4E00 + n) for n in range(200))),
            ("bash:*x",),
        ),
        (tuple(f"*{n}:*a{'?' * 480}" for n in range(300)), tuple(f"*{n}:*a{'?' * 480}b" for n in range(300))),
        (tuple(f"edit:{n}/*" for n in range(20_000)), tuple(f"edit:{n}/a*" for n in range(20_000))),
    ],
    ids=["an automaton of 2**490 states", "many large ones", "many small ones"],
)
def test_hostile_scopes_are_compared_at_once(scope: tuple[str, ...], other: tuple[str, ...]):
    began_s = time.process_time()
    common(scope, other)
    assert time.process_time() - began_s < 10  # it was minutes, or days


def test_a_scope_of_many_files_is_handed_on_whole():
    scope = tuple(f"edit:src/{n}.py" for n in range(5000))
    assert narrow(scope, scope) == scope
    assert narrow(("edit:src/**",), scope) == scope
