"""The two layers that must both say yes: the task's scope, and the rules below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from envelope.pattern import covers, match
from envelope.reach import credentials_of, hosts_of
from envelope.scope import Scope, allows, offers, split

from ..tools.base import Target
from .rules import (
    CODE,
    UNPARSED,
    Action,
    Decision,
    Rule,
    evaluate,
    evaluate_spellings,
    frees_bash,
    hidden,
    limits_bash,
)

# Permissions on a whole tool: they need a grant for all of it, and a rule that bans the tool bans them.
WHOLE_OF = {"bash_unparsed": "bash"}
# Asked for beside a tool's own permission; a scope has no grants for them.
PLAN_FILE = "plan_file"  # the one file that whoever plans may write; it is in no workspace
ENGINE = "engine"  # what a program with `engine: acp` asks for that is none of our tools
UNSCOPED = frozenset({"external_directory", "doom_loop", "question", "plan_exit", PLAN_FILE, ENGINE})
# What a headless task is not even offered: tools that do nothing but ask people.
HEADLESS = tuple(Rule(tool, "*", Action.DENY) for tool in ("question", "plan_enter", "plan_exit"))
# permission → what the model can do instead
HINTS = {
    "bash_unparsed": "; which commands it runs cannot be told, or in which folder: write them plainly (programs and"
    " folders by their names, no eval), one call for each if need be"
}


@dataclass(frozen=True, slots=True)
class Denied:
    """Why a call was not run, in words for the model."""

    reason: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """Nothing stands in the way."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What people must allow first: permission → all that the call touches with it, in the order of the call."""

    wanted: Mapping[str, tuple[str, ...]]


Verdict = Allowed | Denied | Ask
MAX_TOLD_CHARS = 1000  # of a pattern: a command may be a file of its own
MAX_TOLD = 20  # patterns of one call


@dataclass(frozen=True, slots=True)
class Guard:
    """`scope` is a ceiling, `fixed` holds denies that no rule lifts, and in `rules` the last match wins. So it does in
    each list of `inherited`, which hold what is denied to the callers of a subagent, and to it.

    A shell text that is not understood needs a grant for all of bash, and is asked for by default; but where the rules
    say `bash: allow`, nothing limits it, and the sandbox has no network, it is allowed like any other."""

    scope: Scope
    rules: tuple[Rule, ...]
    fixed: tuple[Rule, ...] = ()
    inherited: tuple[tuple[Rule, ...], ...] = ()

    def judge(self, targets: Sequence[Target], approved: Sequence[Rule] = ()) -> Verdict:
        """A call with all its targets: any deny denies it, else any ask asks. `approved`: what people have answered
        "always" to; it answers asks, and lifts no deny."""
        actions = [(target, self._judge(target, approved)) for target in targets]
        if denied := next((verdict for _, verdict in actions if isinstance(verdict, Denied)), None):
            return denied
        asking = dict.fromkeys(target.permission for target, action in actions if action is Action.ASK)
        return Ask({name: _patterns(targets, name) for name in asking}) if asking else Allowed()

    def check(self, targets: Sequence[Target]) -> Denied | None:
        """None when every target is within the scope and allowed. Where nobody can be asked, an ask denies."""
        match self.judge(targets):
            case Allowed():
                return None
            case Denied() as denied:
                return denied
            case Ask(wanted):
                return unanswerable(wanted)

    def hides(self, tool: str) -> bool:
        """Is the tool withheld from the model altogether?"""
        return self.bans(tool) or hidden(self.rules, tool)

    def bans(self, tool: str) -> bool:
        """Is the tool withheld by what no rule lifts?"""
        granted = tool in UNSCOPED or offers(self.scope, tool)
        return not granted or any(hidden(rules, tool) for rules in (self.fixed, *self.inherited))

    def _judge(self, target: Target, approved: Sequence[Rule]) -> Denied | Action:
        permission, pattern = target.permission, target.pattern
        tool = WHOLE_OF.get(permission, permission)
        if tool not in UNSCOPED and not self._is_granted(target):
            granted = ", ".join(grant for grant in self.scope if offers((grant,), tool)) or "no such grant"
            hint = HINTS.get(permission, "")
            return Denied(f"not allowed: {tool} {_short(pattern)} is outside this task's scope ({granted}){hint}")
        if _decided(self.fixed, target).action is Action.DENY:
            return Denied(f"not allowed: this agent never uses {permission} on {_short(pattern)}")
        if any(_decided(rules, target).action is Action.DENY for rules in self.inherited):
            return Denied(f"not allowed: {permission} {_short(pattern)} is denied to the agent that started this task")
        decision = _decided(self.rules, target)
        if decision.action is Action.DENY:
            rule = f"{decision.rule.permission}: {decision.rule.pattern}" if decision.rule else "none"
            return Denied(f"not allowed: {permission} {_short(pattern)} is denied by the rule `{rule}`")
        if decision.rule is UNPARSED and self._bash_is_free():
            return Action.ALLOW
        is_approved = evaluate(approved, permission, [pattern]).action is Action.ALLOW
        return Action.ALLOW if is_approved else decision.action

    def _is_granted(self, target: Target) -> bool:
        tool = WHOLE_OF.get(target.permission, target.permission)
        grants = [pattern for name, pattern in map(split, self.scope) if match(name, tool)]
        if tool == "bash" and target.pattern.removeprefix(CODE) in filter(_is_literal, grants):
            return True
        if tool != target.permission:
            return covers(grants, "*")
        return any(allows(self.scope, tool, spelling) for spelling in target.spellings)

    def _bash_is_free(self) -> bool:
        """Does a rule allow all of bash, and does it reach nothing but its sandbox? What a text runs makes no
        difference then."""
        if hosts_of(self.scope) | credentials_of(self.scope):
            return False
        inherited = [rule for rules in (self.fixed, *self.inherited) for rule in rules]
        return frees_bash(self.rules) and not any(limits_bash(rule) for rule in inherited)


def _short(pattern: str) -> str:
    """As whoever wrote it is told of it, which need not be all of it."""
    return repr(pattern if len(pattern) <= MAX_TOLD_CHARS else f"{pattern[:MAX_TOLD_CHARS]}…")


def _is_literal(pattern: str) -> bool:
    return not {"*", "?"} & set(pattern)


def _decided(rules: Sequence[Rule], target: Target) -> Decision:
    """What the rules say of a target; of a whole tool nothing freer than "no" when they ban that tool."""
    if target.pattern.startswith(CODE):  # a rule on its very text is about it, too
        literal = target.pattern.removeprefix(CODE)
        rules = [replace(rule, pattern=target.pattern) if rule.pattern == literal else rule for rule in rules]
    decision = evaluate_spellings(rules, target.permission, target.spellings)
    tool = WHOLE_OF.get(target.permission)
    if tool is not None and decision.action is not Action.DENY:
        about_all = (rule for rule in reversed(rules) if match(rule.permission, tool) and covers([rule.pattern], "*"))
        banned = next(about_all, None)
        if banned is not None and banned.action is Action.DENY:
            return Decision(Action.DENY, banned, target.pattern)
    return decision


def unanswerable(wanted: Mapping[str, tuple[str, ...]]) -> Denied:
    """What a call is told whose ask nobody can answer."""
    permission, patterns = next(iter(wanted.items()))
    asked, hint = f"{permission} {', '.join(map(_short, patterns[:MAX_TOLD]))}", HINTS.get(permission, "")
    return Denied(f"not allowed: {asked} needs a person's approval, and this run cannot ask for it{hint}")


def _patterns(targets: Sequence[Target], permission: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(target.pattern for target in targets if target.permission == permission))
