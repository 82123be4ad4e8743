"""Whatever a real shell runs, our reading of its text must name, or the text must not be understood.

The texts are made of markers (`m0` … `m3`: functions that tell that they ran) in all constructs that we read, then
damaged. Nothing else can run: PATH leads nowhere, and no text that could define a function is given to a shell.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from workers.permissions.shell import Unparsable, read

MARKERS = ("m0", "m1", "m2", "m3")
PRELUDE = "".join(f"{marker}() {{ echo {marker}; }}\n" for marker in MARKERS)
SHELLS = [name for name in ("bash", "dash") if shutil.which(name)]
RUN_TIMEOUT_S = 20

BLANKS = st.sampled_from([" ", "  ", "\t", " \\\n"])
ARGUMENTS = st.sampled_from(
    [
        "a",
        "E",
        "-",
        "'m1'",
        "';m1'",
        '"&m1"',
        '"\nm2\n"',
        "'\nm1\n'",
        "a#",
        "\\;",
        "$x",
        "${x:-a}",
        "{a,b}",
        "*",
        "$'m1'",
    ]
)
REDIRECTS = st.sampled_from(["", "", "", " >f", " 2>&1", " <f", " >f m1", " &>f", " &>f m1", " >&2", " <<<a"])
JOINTS = st.sampled_from([" | ", " && ", " || ", "; ", " & ", "\n", " |\n", " # '\n", " # m1 `\n", ";\\\n"])
RUNNERS = st.sampled_from(["", "", "", "command ", "exec ", "time ", "! ", "builtin ", "x=1 ", ">f ", "x=1 >f "])
DAMAGE = st.sampled_from(
    [
        *("'", '"', "`", "\\", "\\\n", "\n", ";", "&", "|", "(", ")", "{ ", " }", "$", "$(", "${", "((", "[[ ", " ]]"),
        *("#", " #", "<<", "<<E", "\nE\n", "E\n", "<", ">", "=", "m1", " m1 ", "$'", '$"', "esac", "fi", "do ", "[ "),
        *("eval ", "sh -c ", "time ", "! ", "-", "\r", "\u00a0", "é", "$[", "case ", ";;", "!(", "<(", "x=", "~", "@"),
    ]
)
WRAPS = st.sampled_from(
    [
        *("({})", "{{ {}; }}", "m0 $({})", 'm0 "a $({}) b"', "m0 `{}`", 'm0 "`{}`"', "x=$({})", "if {}; then m1; fi"),
        *("if m0; then {}; else {}; fi", "for x in a b; do {}; done", "for x in $({}); do m1; done", "sh -c '{}'"),
        *("case a in a|b) {};; esac", "case $({}) in (*) m1 ;; esac", "[ a = b ] || {}", "[[ a && m1 ]]; {}"),
        *("[ a > m1 ]; {}", "(( m2 )); {}", "m0 ${{x:-$({})}}", "m0 <<E\n$({})\nE\n", "m0 <<'E'\n{}\nE\nm1"),
        *("m0 <<-E | m1\n\tx\n\tE\n{}", "m0 <<E\n`{}`\nE\n", "m0 <<E\nE\\\n\n{}\nE\n", "m0 <<\\E\n{}\nE\n"),
        *("m0 <<E && {}\nx\nE\n", "m0 - <<E\n{}\nE\n", "[[ a && {} ]]", "[[ a || {} ]]", "! [[ a && {} ]]", "(( {} ))"),
        *(
            "(( x = 1, {} )) || m3",
            "m0 $(( {} ))",
            "m0 $(( $({}) ))",
            "a=({})",
            "a[$({})]=1",
            "for ((i=0; i<2; i++)); do {}; done",
        ),
        *(
            "[[ $({}) -gt 1 ]]",
            "m0 ${{a[$({})]}}",
            "m0 ${{x%%{}}}",
            "[[ x =~ ({}) ]]",
            "m0 {{1..3}} $'{}'",
            "[[ -f a || -f $({}) ]]",
        ),
    ]
)


@st.composite
def simple(draw: st.DrawFn) -> str:
    words = draw(st.lists(st.tuples(BLANKS, ARGUMENTS), max_size=2))
    return draw(RUNNERS) + draw(st.sampled_from(MARKERS)) + "".join(map("".join, words)) + draw(REDIRECTS)


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    wrapped = st.builds(lambda wrap, text: wrap.format(*[text] * wrap.count("{}")), WRAPS, inner)
    return wrapped | st.tuples(inner, JOINTS, inner).map("".join)


@st.composite
def texts(draw: st.DrawFn) -> str:
    text = draw(st.recursive(simple(), nested, max_leaves=4))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(DAMAGE) + text[at + draw(st.integers(0, 1)) :]
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shells")


def ran(shell: str, text: str, folder: Path) -> set[str]:
    """The markers that this shell runs."""
    ended = subprocess.run(
        [shutil.which(shell) or shell, "-c", PRELUDE + text],
        env={"PATH": "/nonexistent"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=RUN_TIMEOUT_S,
    )
    return set(re.findall(r"^m[0-3]$", ended.stdout.decode("utf-8", "replace"), re.MULTILINE))


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(text=texts())
def test_no_shell_runs_a_command_that_is_not_found_in_its_text(shell: str, folder: Path, text: str):
    assume(not re.search(r"\(\s*\)", text.replace("\\\n", "")))  # a function could call itself
    try:
        found = {command.name for command in read(text).commands}
    except Unparsable:
        return

    assert ran(shell, text, folder) <= found


@pytest.mark.parametrize("shell", SHELLS)
def test_a_marker_tells_that_it_ran(shell: str, folder: Path):
    assert ran(shell, "m0 a | m1; (m2) >/dev/null; echo m3 x", folder) >= {"m1"}
