"""Where the commands of a shell text run, as tables, and against what real shells do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.permissions.guard import Denied, Guard
from workers.permissions.rules import DEFAULTS, Action, Rule
from workers.permissions.shell import Unparsable, read
from workers.tools.bash import Bash


def asked(command: str, **arguments: str) -> list[str]:
    """What a command asks for beside its own permission: folders outside, and "?" where one cannot be told."""
    names = {"external_directory": lambda pattern: pattern, "bash_unparsed": lambda _: "?"}
    targets = Bash().targets({"command": command, **arguments})
    return [names[target.permission](target.pattern) for target in targets if target.permission in names]


@pytest.mark.parametrize(
    ("command", "outside"),
    [
        ("cd /tmp && rm x", ["/tmp/*"]),
        ("cd /tmp; rm x", ["/tmp/*"]),
        ("cd /tmp\nrm x", ["/tmp/*"]),
        ("cd .. && cat y", ["/*", "/y/*"]),
        ("cd .. && cat etc/passwd", ["/*", "/etc/*"]),
        ("cd /etc && cat passwd > /srv/x/y", ["/etc/*", "/srv/x/*"]),
        ("cd src && cat ../x", []),
        ("cd src && cat ../../etc/x", ["/etc/*"]),
        ("cd src; cat ../../etc/x", ["/etc/*"]),
        ("cd src; cat ../x", ["/x/*"]),  # where there is no src
        ("cd src || exit 1; cat ../x", []),
        ("cd src || exit; cat ../x", []),
        ("cd src || { echo no; exit 1; }\ncat ../x", []),
        ("cd src || exit 1 2; cat ../x", ["/x/*"]),
        ("cd src && cd .. && cat ../x", ["/x/*"]),
        ("(cd /opt/x && make); cat y", ["/opt/x/*"]),
        ("(cd /opt/x && cat ../y/z); cat y", ["/opt/x/*", "/opt/y/*"]),
        ("(cd src && cat ../y) && cat ../z", ["/z/*"]),
        ("{ cd src; } && cat ../y", []),
        ("cd src & cat ../y", ["/y/*"]),
        ("cd src | cat ../y", ["/y/*"]),
        ("cd src && a 2>&1 | cat ../y", []),
        ("cd src && a 2>&1 | b; cat ../y", ["/y/*"]),
        ("cd src && a 2>&1 | b && cat ../y", []),
        ("a $(cd /opt/x && cat y/z) ../b", ["/opt/x/*", "/opt/x/y/*"]),
        ('x="$(cd /opt/x; cat y/z)"; cat y', ["/opt/x/*", "/opt/x/y/*"]),
        ("if cd src; then cat ../a; else cat ../b; fi", ["/b/*"]),
        ("if ! cd src; then exit 1; fi; cat ../a", []),
        ("case a in a) cd /opt/x;; esac; cat y/z", ["/opt/x/*", "/opt/x/y/*"]),
        ("for x in 1 2; do cat ../y; cd ..; done", ["/y/*", "/*"]),
        ("while cd src; do break; done; cat ../../y", ["/y/*"]),
        ("pushd /opt/x && popd && cat y/z", ["/opt/x/*"]),
        ("pushd /opt/x; cat y/z; popd", ["/opt/x/*", "/opt/x/y/*"]),
        ("pushd src && pushd && cat ../y", ["/y/*"]),
        ("cd x > /opt/y/z && cat a", ["/opt/y/*"]),
        ("cd src && a > ../b 2> ../../c/d", ["/c/*"]),
        ("cd /opt/x && { a; } > b/c", ["/opt/x/*", "/opt/x/b/*"]),
        ("cd ~ && cat a/b", ["/home/agent/*", "/home/agent/a/*"]),
        ("command cd /opt/x && cat y/z", ["/opt/x/*", "/opt/x/y/*"]),
        ("A=1 cd /opt/x && cat y/z", ["/opt/x/*", "/opt/x/y/*"]),
        ("/bin/cd /opt/x; cat ../y", ["/opt/x/*", "/y/*"]),
        ("sudo sh -c 'cd /opt/x && rm y/z'; rm ../a", ["/opt/x/*", "/opt/x/y/*", "/a/*"]),
        ("cd src && sh -c 'cat ../x ../../y/z'", ["/y/*"]),
        ("env -C /opt/x cat y/z", ["/opt/x/y/*"]),
        ("env --chdir=/opt A=1 cat y/z", ["/opt/y/*"]),
        ("cd src && env -C .. cat ../y/z", ["/y/*"]),
        ("git -C /opt/x log", ["/opt/x/*"]),
        ("git -C .. -C x --no-pager log", ["/*", "/x/*"]),
        ("cd /opt && git -C x log -C 3", ["/opt/*", "/opt/x/*"]),
        ("git --git-dir=/opt/x/.git --work-tree /opt/y log", ["/opt/x/.git/*", "/opt/y/*"]),
        ("git -c a=b log -C -C", []),
        ("git -C src log", []),
        (". venv/bin/activate && cat x > y", []),
        ("((rm /opt/x/y))", ["/opt/x/*"]),  # for a POSIX shell, a command in two subshells
        ("cd /opt && ((a > x/y))", ["/opt/*", "/opt/x/*"]),
    ],
)
def test_relative_paths_start_where_the_command_runs(command: str, outside: list[str]):
    assert sorted(asked(command)) == sorted(outside)


@pytest.mark.parametrize(
    "command",
    [
        "cd $X && rm y", "cd \"$X\"; rm y", "cd - && rm y", "cd $(a) && rm y", "cd s* && rm y", "cd {a,b} && rm y",
        "cd a b && rm y", "cd ~+ && rm y", "cd '~' && rm y", "cd -x a && rm y", "cd '' && rm y", "cd $X", "cd -",
        "pushd +1 && rm y", "popd -n; rm y", "pushd $X; rm y", "pushd $X; pushd /tmp; popd && a > y",
        "cd $X && cd y && rm z", "(cd $X; rm y)", "for d in a b; do cd $d; rm y; done; a > z",
        "while a; do cd src; done; rm y", "CDPATH=/etc; cd x && rm y", "CDPATH=/etc cd x && rm y",
        "export CDPATH=/etc && cd x && rm y", "read C\"DPATH\" && cd x && rm y", "read \"$N\"; cd x && rm y",
        "printf -v \"$N\" /etc; cd x && rm y", "HOME=/etc; cd; rm y", "OLDPWD=/etc; cd x; rm y",
        "cd() { command cd /etc; }; cd /tmp && rm y", "f() { cd src; }; f; rm y", ". ./x.sh && rm y",
        "source x; a > y", "cat <<E | cd src\nx\nE\nrm y", "env -C $X rm y", "env -C '~' rm y", "git -C $X log",
        "find . -execdir rm {} \\;", "chroot / rm y", "cd src; exit 1; cat y", "sh -c 'cd $X; rm y'",
        "export CDPATH=/etc; sh -c 'cd x; rm y'",
    ],
)  # fmt: skip
def test_what_runs_nobody_knows_where_is_asked_for(command: str):
    assert "?" in asked(command)


def test_unknown_is_not_allowed_by_a_rule_for_one_folder():
    guard = Guard(("*:*",), (*DEFAULTS, Rule("external_directory", "/opt/*", Action.ALLOW)))

    assert guard.check(Bash().targets({"command": "cd /opt && rm x"})) is None
    assert isinstance(guard.check(Bash().targets({"command": "cd $X && rm x"})), Denied)


def test_a_deny_of_a_command_holds_where_its_folder_is_unknown():
    guard = Guard(("*:*",), (*DEFAULTS, Rule("bash", "rm *", Action.DENY), Rule("bash_unparsed", "*", Action.ALLOW)))

    denied = guard.check(Bash().targets({"command": "cd $X && rm x"}))

    assert denied is not None
    assert "denied by the rule `bash: rm *`" in denied.reason


def test_links_are_followed_from_where_a_command_runs():
    targets = Bash().targets({"command": "cd here && cat ../x"})

    assert {target.path for target in targets} == {"/workspace/here", "/workspace/here/.."}


@pytest.mark.parametrize("loop", ["while a; do ", "for x in a b; do "])
@pytest.mark.parametrize("body", ["cd x", "cd x; cd ..", "cd x && break", "continue 2", "pushd x; popd"])
def test_a_text_made_to_be_slow_to_follow_is_given_up(loop: str, body: str):
    """It takes years where the bound is missing, which a suite's time-out notices."""
    for depth in (10, 40, 90):
        try:
            commands = read(loop * depth + f"{body}; rm y; " + "cd ..; done; " * depth).commands
        except Unparsable:
            continue
        assert all(None in one.folders for one in commands if one.name == "rm")


def test_a_long_text_is_followed():
    assert len(read(" && ".join(["cd /tmp", *["cat x"] * 190])).commands) == 191


MARKERS = ("m0", "m1", "m2", "m3")
PRELUDE = "".join(f'{marker}() {{ echo "{marker} $(pwd -P)"; }}\n' for marker in MARKERS)
SHELLS = [name for name in ("bash", "dash") if shutil.which(name)]
RUN_TIMEOUT_S = 20

STEPS = st.sampled_from(
    [
        *("cd a", "cd b", "cd ..", "cd .", "cd missing", "cd a/b", "cd -P a", "cd -- b", "command cd a", "x=1 cd b"),
        *("pushd a", "pushd b", "pushd", "popd", "cd a >/dev/null", "! cd a", "time cd a", "exit", "exit 1", "break"),
        *("continue", "cd ''", "cd -", "cd a b", "pushd +1", "(cd a)", "cd ../a", "builtin cd a", "cd a &"),
        *("((m0))", "((m1 > a || m2))", "((m3 / a, b))"),
    ]
)
MARKED = st.builds(lambda marker, end: marker + end, st.sampled_from(MARKERS), st.sampled_from(["", "", " 2>&1", " &"]))
JOINTS = st.sampled_from([" && ", " || ", "; ", "\n", " | "])
WRAPS = st.sampled_from(
    [
        *("({})", "(({}))", "{{ {}; }}", "m0 $({})", "x=$({})", "if {}; then m1; else m2; fi"),
        *("if m0; then {}; else {}; fi", "for x in 1 2; do {}; done", "case a in a) {};; esac", "sh -c '{}'"),
        *("case b in a) {};; b) m3;; esac", "while [ \"$n\" != xxx ]; do n=x$n; {}; done", "! ({})"),
        *("{{ {}; }} | m3", "m0 <<E | m1\nx\nE\n{}", "if ! {}; then exit; fi; m2", "{{ {}; }} || exit 1; m1"),
        *("for x in 1 2 3; do {}; m1; done; m2",),
    ]
)  # fmt: skip


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    wrapped = st.builds(lambda wrap, text: wrap.format(*[text] * wrap.count("{}")), WRAPS, inner)
    return wrapped | st.tuples(inner, JOINTS, inner).map("".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("directories").resolve()
    for path in ("a/a/a", "a/b", "b/a", "b/b"):
        (root / path).mkdir(parents=True)
    return root


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(text=st.recursive(STEPS | MARKED, nested, max_leaves=7))
def test_no_shell_runs_a_command_where_it_is_not_expected(shell: str, folder: Path, text: str):
    try:
        commands = read(text, str(folder)).commands
    except Unparsable:
        return
    expected = {name: {place for one in commands if one.name == name for place in one.folders} for name in MARKERS}

    ended = subprocess.run(
        [shutil.which(shell) or shell, "-c", PRELUDE + text],
        env={"PATH": "/nonexistent"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=RUN_TIMEOUT_S,
    )

    for marker, place in re.findall(r"^(m[0-3]) (/.*)$", ended.stdout.decode(), re.MULTILINE):
        assert None in expected[marker] or place in expected[marker], text


@pytest.mark.parametrize("shell", SHELLS)
def test_a_marker_tells_where_it_runs(shell: str, folder: Path):
    ended = subprocess.run(
        [shutil.which(shell) or shell, "-c", PRELUDE + "cd a && m0"], cwd=folder, capture_output=True, check=True
    )

    assert ended.stdout.decode() == f"m0 {folder}/a\n"
