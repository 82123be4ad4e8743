"""Permission rules: an ordered list in which the last match wins. Pure.

Both the permission's name and the pattern are wildcards of `envelope.pattern`. Layers (defaults, agent, user, session)
are concatenated and nothing is sorted, so that what is written last is what counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from envelope.pattern import covers, match
from envelope.scope import GOVERNED_BY
from sandbox.container import HOME


class Action(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Rule:
    """`action` may be given as its word; `ValueError` for one that is none."""

    permission: str
    pattern: str
    action: Action

    def __post_init__(self) -> None:
        # an action that only looks like one would be compared by identity, and deny nothing
        object.__setattr__(self, "action", Action(self.action))

    @classmethod
    def of(cls, written: RuleForm) -> Rule:
        """The rule that is meant: a rule, its three parts in their order, or a map of them."""
        if isinstance(written, Rule):
            return written
        parts = [written[name] for name in cls.__slots__] if isinstance(written, Mapping) else written
        permission, pattern, action = parts
        return cls(permission, pattern, Action(action))


RuleForm = Rule | tuple[str, str, str] | Mapping[str, str]


class Decision(str):
    """What the rules say about one request: the word of its action, and why.

    `rule` is None when none matched, `pattern` is what decided.

    >>> evaluate([("bash", "rm *", "deny")], "bash", ["ls", "rm -r x"]) == "deny"
    True
    """

    __slots__ = ("action", "pattern", "rule")
    action: Action
    rule: Rule | None
    pattern: str

    def __new__(cls, action: Action, rule: Rule | None, pattern: str) -> Self:
        self = super().__new__(cls, action.value)
        self.action, self.rule, self.pattern = action, rule, pattern
        return self


# Before a command that holds code, beside the command itself: no rule for commands that begin alike matches it.
CODE = "(code) "
# Without another rule: asked for, unless all of bash is allowed by name (see `guard`).
UNPARSED = Rule("bash_unparsed", "*", Action.ASK)
# What holds for every agent. A file of secrets is asked for even when everything else may be read; its example is
# there to be read. A folder outside the workspace is none of the task's business.
DEFAULTS: tuple[Rule, ...] = (
    Rule("*", "*", Action.ALLOW),
    Rule("doom_loop", "*", Action.ASK),
    Rule("engine", "*", Action.ASK),  # a program of others asks, and nobody knows what for
    Rule("external_directory", "*", Action.ASK),
    # the scratch folder is the sandbox's own, and dies with its container
    Rule("external_directory", "/tmp/*", Action.ALLOW),  # noqa: S108
    UNPARSED,
    Rule("question", "*", Action.DENY),
    Rule("plan_enter", "*", Action.DENY),
    Rule("plan_exit", "*", Action.DENY),
    Rule("read", "*.env", Action.ASK),
    Rule("read", "*.env.*", Action.ASK),
    Rule("read", "*.env.example", Action.ALLOW),
)


def evaluate(rules: Iterable[RuleForm], permission: str, patterns: str | Iterable[str]) -> Decision:
    """Judge every pattern of one request: any deny denies, else any ask asks, else all are allowed.

    No match asks; so does a request without patterns. A single pattern may be given as a text.
    """
    known = [Rule.of(rule) for rule in rules]
    decision = Decision(Action.ASK, None, "")
    for index, pattern in enumerate([patterns] if isinstance(patterns, str) else patterns):
        found = _judge(known, permission, pattern)
        if found.action is Action.DENY:
            return found
        if index == 0 or decision.action is Action.ALLOW:
            decision = found
    return decision


def evaluate_spellings(rules: Sequence[Rule], permission: str, spellings: Sequence[str]) -> Decision:
    """Judge one thing that can be written in several ways: the last rule on any of them counts.

    But a deny that was written for one of them, and is the last on that one, holds whatever is said of the others.
    """
    found = [_judge(rules, permission, spelling) for spelling in spellings]
    for decision in found:
        rule = decision.rule
        if rule and rule.action is Action.DENY and not all(match(rule.pattern, spelling) for spelling in spellings):
            return decision
    return next((each for rule in reversed(rules) for each in found if each.rule is rule), found[0])


def frees_bash(rules: Sequence[Rule]) -> bool:
    """Do they allow all of bash by name (`bash: allow`), with nothing after it that limits bash?"""
    for rule in reversed(rules):
        if limits_bash(rule):
            return False
        if rule.permission == "bash" and covers([rule.pattern], "*"):
            return True
    return False


def limits_bash(rule: Rule) -> bool:
    return match(rule.permission, "bash") and rule.action is not Action.ALLOW


def hidden(rules: Sequence[Rule], tool: str) -> bool:
    """Is the tool withheld from the model: is the last rule on its permission's name a deny of everything?

    A narrow allow after it keeps the tool visible.
    """
    permission = GOVERNED_BY.get(tool, tool)
    last = next((rule for rule in reversed(rules) if match(rule.permission, permission)), None)
    return last is not None and last.action is Action.DENY and last.pattern == "*"


def parse_rules(written: str | Mapping[str, str | Mapping[str, str]]) -> tuple[Rule, ...]:
    """Rules as people write them: one action for everything, or permission → action, or permission → pattern → action.

    The order of the keys is kept: it is meaning. A pattern's leading `~` or `$HOME` is the home folder in the sandbox;
    it is so only here, where rules are read. `ValueError` names what is no action.
    """
    if isinstance(written, str):
        return (Rule("*", "*", Action(written)),)
    rules: list[Rule] = []
    for permission, value in written.items():
        patterns = {"*": value} if isinstance(value, str) else value
        rules += [Rule(permission, _from_home(pattern), Action(action)) for pattern, action in patterns.items()]
    return tuple(rules)


def _from_home(pattern: str) -> str:
    """
    >>> _from_home("~/a"), _from_home("$HOME"), _from_home("~x/a"), _from_home("a/~")
    ('/home/agent/a', '/home/agent', '~x/a', 'a/~')
    """
    return re.sub(r"^(?:~(?=/|$)|\$HOME(?!\w))", HOME, pattern)


def _judge(rules: Sequence[Rule], permission: str, pattern: str) -> Decision:
    for rule in reversed(rules):
        if match(rule.permission, permission) and match(rule.pattern, pattern):
            return Decision(rule.action, rule, pattern)
    return Decision(Action.ASK, None, pattern)
