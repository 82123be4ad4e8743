"""Rules, scope and shell commands, as tables."""

from __future__ import annotations

import pytest

from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS, Action, Rule, evaluate, hidden, parse_rules
from workers.permissions.shell import Unparsable, commands
from workers.tools.base import Target
from workers.tools.bash import Bash
from workers.tools.edit import Edit
from workers.tools.read import Read

ALLOW, ASK, DENY = Action.ALLOW, Action.ASK, Action.DENY
EVERYTHING = ("*:*",)


@pytest.mark.parametrize(
    ("permission", "pattern", "action"),
    [
        ("read", "src/a.py", ALLOW),
        ("read", ".env", ASK),
        ("read", "deploy/prod.env", ASK),
        ("read", ".env.local", ASK),
        ("read", ".env.example", ALLOW),
        ("edit", ".env", ALLOW),
        ("bash", "rm -rf build", ALLOW),
        ("bash_unparsed", "for x in *; do rm $x; done", ASK),
        ("external_directory", "/etc/*", ASK),
        ("external_directory", "/tmp/x/*", ALLOW),
        ("doom_loop", "grep", ASK),
        ("question", "*", DENY),
        ("plan_exit", "*", DENY),
    ],
)
def test_the_defaults_decide(permission: str, pattern: str, action: Action):
    assert evaluate(DEFAULTS, permission, [pattern]).action is action


def test_the_last_match_wins_whatever_came_before():
    rules = parse_rules({"bash": {"*": "deny", "git *": "allow", "git push *": "ask"}})

    assert [evaluate(rules, "bash", [text]).action for text in ("ls", "git log", "git push")] == [DENY, ALLOW, ASK]
    assert evaluate((*rules, Rule("*", "*", ALLOW)), "bash", ["ls"]).action is ALLOW


def test_no_match_asks_and_so_does_a_request_without_patterns():
    assert evaluate((), "bash", ["ls"]).action is ASK
    assert evaluate(DEFAULTS, "bash", []).action is ASK


@pytest.mark.parametrize(
    ("patterns", "action"),
    [(["a", "b"], ALLOW), (["a", "asks"], ASK), (["asks", "a"], ASK), (["asks", "denied"], DENY)],
)
def test_of_several_patterns_the_strictest_decides(patterns: list[str], action: Action):
    rules = parse_rules({"edit": {"*": "allow", "asks": "ask", "denied": "deny"}})

    assert evaluate(rules, "edit", patterns).action is action


def test_a_tool_is_hidden_by_a_last_deny_of_everything_only():
    assert hidden(parse_rules({"edit": "deny"}), "write")
    assert not hidden(parse_rules({"edit": {"*": "deny", "docs/*": "allow"}}), "edit")
    assert hidden(parse_rules("deny"), "bash")
    assert not hidden((), "bash")


def test_what_is_no_action_is_refused_when_rules_are_read():
    with pytest.raises(ValueError, match="maybe"):
        parse_rules({"bash": "maybe"})


def test_the_scope_is_a_ceiling_that_no_rule_lifts():
    guard = Guard(("edit:src/**",), (Rule("*", "*", ALLOW),))

    assert guard.check([Target("edit", "src/a.py")]) is None
    assert "outside this task's scope (edit:src/**)" in guard.check([Target("edit", "setup.py")]).reason
    assert "no such grant" in guard.check([Target("bash", "ls")]).reason


def test_a_fixed_deny_is_lifted_by_nothing():
    guard = Guard(EVERYTHING, parse_rules("allow"), fixed=parse_rules({"edit": "deny"}))

    assert "never uses edit" in guard.check([Target("edit", "a")]).reason
    assert guard.hides("write")
    assert not guard.hides("read")


def test_an_ask_is_denied_with_its_reason_where_nobody_can_be_asked():
    assert "needs a person's approval" in Guard(EVERYTHING, DEFAULTS).check([Target("read", ".env")]).reason


def test_every_target_of_a_call_must_be_allowed():
    guard = Guard(("bash:ls *", "bash:wc *"), DEFAULTS)

    assert guard.check(Bash().targets({"command": "ls | wc -l"})) is None
    assert "rm -rf x" in guard.check(Bash().targets({"command": "ls && rm -rf x"})).reason


def test_an_unparsed_command_needs_a_grant_for_all_of_it_and_an_allow():
    script = Bash().targets({"command": "for x in a b; do echo $x; done"})

    assert "scope" in Guard(("bash:echo *",), parse_rules("allow")).check(script).reason
    assert "approval" in Guard(("bash:*",), DEFAULTS).check(script).reason
    assert Guard(("bash:*",), (*DEFAULTS, Rule("bash_unparsed", "*", ALLOW))).check(script) is None


@pytest.mark.parametrize(
    ("path", "targets"),
    [
        ("src/a.py", [("read", "src/a.py")]),
        ("/workspace/src/../b.py", [("read", "b.py")]),
        ("/workspace/../etc/passwd", [("external_directory", "/etc/*"), ("read", "/etc/passwd")]),
        ("/workspaces/a", [("external_directory", "/workspaces/*"), ("read", "/workspaces/a")]),
        ("//workspace/a", [("read", "a")]),
    ],
)
def test_paths_are_normalised_before_they_are_judged(path: str, targets: list[tuple[str, str]]):
    found = Read().targets({"filePath": path})

    assert [(target.permission, target.pattern) for target in found] == targets


def test_a_path_that_climbs_out_of_a_granted_folder_is_denied():
    guard = Guard(("edit:src/**",), DEFAULTS)

    assert guard.check(Edit().targets({"filePath": "src/../setup.py"})) is not None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ls", ["ls"]),
        ("ls -l; pwd", ["ls -l", "pwd"]),
        ("a && b || c | d & e", ["a", "b", "c", "d", "e"]),
        ("echo 'a; b' \"c && d\" e\\;f", ["echo 'a; b' \"c && d\" e\\;f"]),
        ('echo \\" ; rm x ; echo \\"', ['echo \\"', "rm x", 'echo \\"']),
        ("make 2>&1 >log.txt | tee x", ["make 2>&1 >log.txt", "tee x"]),
        ("make &> all.txt", ["make &> all.txt"]),
        ("echo a#b; ls # and; this", ["echo a#b", "ls"]),
        ("ls # it's fine\npwd", ["ls", "pwd"]),
        ('echo $HOME ${USER} "$X"', ['echo $HOME ${USER} "$X"']),
        ("python -c 'import x\nx.y()'", ["python -c 'import x\nx.y()'"]),
        ("find . -name '*.py' -exec wc {} \\;", ["find . -name '*.py' -exec wc {} \\;"]),
        ("FOO=1 make", ["FOO=1 make"]),
    ],
)
def test_a_command_line_is_split_into_its_simple_commands(text: str, parts: list[str]):
    assert [command.text for command in commands(text)] == parts


@pytest.mark.parametrize(
    "text",
    [
        "echo $(rm x)", "echo `rm x`", 'echo "$(rm x)"', 'echo "`rm x`"', "(rm x)", "cat <<E\nE", "cat <(ls)",
        "for x in a; do rm $x; done", "if true; then rm x; fi", "f() { rm x; }", "{ rm x; }", "echo 'open",
        'echo "open',
        "$RM x", "'rm' x", "\\rm x", "{rm,x}", "eval rm x", "echo ${X:-$(rm x)}", "echo $'a\\'; rm x; \\''", "", "  ",
        "# only this", "! rm x", "echo $((1+1))",
    ],
)  # fmt: skip
def test_what_is_more_than_simple_commands_does_not_parse(text: str):
    with pytest.raises(Unparsable):
        commands(text)


def test_changing_the_directory_is_not_judged_but_what_follows_is():
    targets = Bash().targets({"command": "cd /workspace/src && rm x"})

    assert [target.pattern for target in targets] == ["rm x"]
