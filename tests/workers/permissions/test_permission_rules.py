"""Rules and scope, as tables."""

from __future__ import annotations

import pytest

from workers.permissions.ceiling import under
from workers.permissions.guard import Ask, Denied, Guard
from workers.permissions.rules import DEFAULTS, Action, Rule, evaluate, hidden, match, parse_rules
from workers.tools.base import Target
from workers.tools.bash import Bash
from workers.tools.edit import Edit
from workers.tools.read import Read

ALLOW, ASK, DENY = Action.ALLOW, Action.ASK, Action.DENY
EVERYTHING = ("*:*",)


def reason(denied: Denied | None) -> str:
    assert denied is not None
    return denied.reason


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


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("*", "", True),
        ("*", "a/b\nc", True),
        ("src/*", "src/a/b.py", True),
        ("src/*", "a/src/b.py", False),
        ("src", "src/", False),
        ("a?c", "abc", True),
        ("a?c", "a\nc", True),
        ("a?c", "ac", False),
        ("a?c", "abbc", False),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("{a,b}", "a", False),
        ("(a|b)+$", "(a|b)+$", True),
        ("ls *", "ls", True),
        ("ls *", "ls -l", True),
        ("ls *", "ls -l\nrm x", True),
        ("ls *", "lsof", False),
        ("ls *", "ls\t-l", False),
        ("ls*", "lsof", True),
        ("git * push *", "git -C x push", True),
        ("src\\a.py", "src/a.py", True),
        ("src/a.py", "src\\a.py", True),
        ("README", "readme", False),
        ("a/**/*.x", "a/b/c.x", True),
        ("a/**/*.x", "a/b/c/d.x", True),
        ("a/**/*.x", "a/b.x", False),
        ("~/a", "/home/agent/a", False),
    ],
)
def test_a_wildcard_matches_the_whole_text_or_not_at_all(pattern: str, text: str, matches: bool):
    assert match(pattern, text) is matches


@pytest.mark.parametrize(
    ("written", "rules"),
    [
        ("ask", [("*", "*", ASK)]),
        ({"bash": "deny", "read": "allow"}, [("bash", "*", DENY), ("read", "*", ALLOW)]),
        ({"read": "allow", "bash": "deny"}, [("read", "*", ALLOW), ("bash", "*", DENY)]),
        ({"bash": {"git *": "ask", "*": "deny"}}, [("bash", "git *", ASK), ("bash", "*", DENY)]),
        ({"external_directory": {"~": "ask"}}, [("external_directory", "/home/agent", ASK)]),
        ({"external_directory": {"~/x/*": "ask"}}, [("external_directory", "/home/agent/x/*", ASK)]),
        ({"external_directory": {"$HOME/*": "ask"}}, [("external_directory", "/home/agent/*", ASK)]),
        ({"read": {"$HOMES/~/~x": "ask", "~x": "ask"}}, [("read", "$HOMES/~/~x", ASK), ("read", "~x", ASK)]),
    ],
)
def test_rules_are_read_in_the_order_in_which_they_are_written(written, rules: list[tuple[str, str, Action]]):
    assert [(rule.permission, rule.pattern, rule.action) for rule in parse_rules(written)] == rules


def test_a_permission_is_named_by_a_wildcard_too():
    rules = (Rule("*", "*", DENY), Rule("mcp_*", "*", ASK), Rule("mcp_docs_?et", "*", ALLOW))

    names = ("bash", "mcp_docs_set", "mcp_docs_get")
    assert [evaluate(rules, name, ["x"]).action for name in names] == [DENY, ALLOW, ALLOW]
    assert evaluate(rules, "mcp_docs_reset", ["x"]).action is ASK


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


def test_the_decision_names_the_rule_and_the_pattern_that_decided():
    rules = parse_rules({"edit": {"*": "allow", "denied*": "deny"}})

    decision = evaluate(rules, "edit", ["a", "denied 1", "denied 2"])

    assert (decision.pattern, decision.rule) == ("denied 1", rules[1])


@pytest.mark.parametrize(
    ("written", "tool", "is_hidden"),
    [
        ({"edit": "deny"}, "edit", True),
        ({"edit": "deny"}, "write", True),
        ({"edit": "deny"}, "apply_patch", True),
        ({"edit": "deny"}, "read", False),
        ({"edit": {"*": "deny", "docs/*": "allow"}}, "edit", False),
        ({"edit": {"docs/*": "allow", "*": "deny"}}, "edit", True),
        ({"edit": {"**": "deny"}}, "edit", False),
        ({"bash": "allow", "*": "deny"}, "bash", True),
        ({"*": "deny", "bash": "ask"}, "bash", False),
        ("deny", "bash", True),
        ({}, "bash", False),
    ],
)
def test_a_tool_is_hidden_by_a_last_deny_of_everything_only(written, tool: str, is_hidden: bool):
    assert hidden(parse_rules(written), tool) is is_hidden


def test_what_is_no_action_is_refused_when_rules_are_read():
    with pytest.raises(ValueError, match="maybe"):
        parse_rules({"bash": "maybe"})


def test_the_scope_is_a_ceiling_that_no_rule_lifts():
    guard = Guard(("edit:src/**",), (Rule("*", "*", ALLOW),))

    assert guard.check([Target("edit", "src/a.py")]) is None
    assert "outside this task's scope (edit:src/**)" in reason(guard.check([Target("edit", "setup.py")]))
    assert "no such grant" in reason(guard.check([Target("bash", "ls")]))


def test_a_fixed_deny_is_lifted_by_nothing():
    guard = Guard(EVERYTHING, parse_rules("allow"), fixed=parse_rules({"edit": "deny"}))

    assert "never uses edit" in reason(guard.check([Target("edit", "a")]))
    assert guard.hides("write")
    assert not guard.hides("read")


def test_an_ask_is_denied_with_its_reason_where_nobody_can_be_asked():
    assert "needs a person's approval" in reason(Guard(EVERYTHING, DEFAULTS).check([Target("read", ".env")]))


def test_every_target_of_a_call_must_be_allowed():
    guard = Guard(("bash:ls *", "bash:wc *"), DEFAULTS)

    assert guard.check(Bash().targets({"command": "ls | wc -l"})) is None
    assert "rm -rf x" in reason(guard.check(Bash().targets({"command": "ls && rm -rf x"})))


ONLINE = ("bash:**", "network:example.org")
FREE = parse_rules({"bash": "allow"})


@pytest.mark.parametrize(
    ("scope", "rules"),
    [
        (("bash:git *",), parse_rules("allow")),
        (("bash:echo *",), parse_rules("allow")),
        (("bash:*eval*",), parse_rules("allow")),
        (("bash:git *", "bash:echo *"), parse_rules({"bash_unparsed": "allow"})),
        (("bash:**",), parse_rules({"bash": {"*": "deny", "git *": "allow"}, "bash_unparsed": "allow"})),
    ],
)
def test_an_unparsed_command_is_outside_of_a_scope_for_some_commands(scope: tuple[str, ...], rules: tuple[Rule, ...]):
    script = Bash().targets({"command": "git log; eval 'rm x'"})

    assert isinstance(Guard(scope, (*DEFAULTS, *rules)).judge(script), Denied)


def test_an_unparsed_command_that_is_granted_as_it_stands_is_within_the_scope():
    assert Guard(("bash:eval x",), parse_rules("allow")).check(Bash().targets({"command": "eval x"})) is None


@pytest.mark.parametrize("scope", [("bash:*",), ("bash:**", "read:**"), ("*:**",)])
@pytest.mark.parametrize("command", ["eval echo x", "cd $X && rm y", "for f in *; do $f; done"])
def test_where_all_of_bash_is_allowed_and_there_is_no_network_what_is_unparsed_runs(
    scope: tuple[str, ...], command: str
):
    assert Guard(scope, (*DEFAULTS, *FREE)).check(Bash().targets({"command": command})) is None


@pytest.mark.parametrize(
    "guard",
    [
        Guard(("bash:**",), DEFAULTS),
        Guard(ONLINE, (*DEFAULTS, *FREE)),
        Guard(("bash:**", "credential:pypi"), (*DEFAULTS, *FREE)),
        Guard(("bash:**",), (*DEFAULTS, *FREE, *parse_rules({"bash_unparsed": "ask"}))),
        Guard(("bash:**",), (*DEFAULTS, *parse_rules({"bash_unparsed": "ask"}), *FREE)),
        Guard(("bash:**",), under(DEFAULTS, FREE)),
        Guard(("bash:**",), (*DEFAULTS, *parse_rules({"bash": {"*": "allow", "git push *": "deny"}}))),
        Guard(("bash:**",), (*DEFAULTS, *parse_rules({"bash": {"*": "ask", "git *": "allow"}}))),
        Guard(("bash:**",), (*DEFAULTS, *FREE), fixed=parse_rules({"bash": {"rm *": "deny"}})),
        Guard(("bash:**",), (*DEFAULTS, *FREE), inherited=(parse_rules({"bash": {"rm *": "deny"}}),)),
    ],
)
def test_anything_that_limits_it_has_an_unparsed_command_asked_for(guard: Guard):
    script = Bash().targets({"command": "eval echo x"})

    assert isinstance(guard.judge(script), Ask)
    assert "which commands it runs cannot be told" in reason(guard.check(script))
    free = Guard(guard.scope, (*guard.rules, Rule("bash_unparsed", "*", ALLOW)), guard.fixed, guard.inherited)
    assert free.check(script) is None


@pytest.mark.parametrize("command", ["", "  ", "\n\n", "# only this", "  # a\n\n# b; rm x"])
def test_nothing_is_asked_for_a_text_without_a_command(command: str):
    assert Bash().targets({"command": command}) == []


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
