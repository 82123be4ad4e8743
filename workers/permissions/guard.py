"""The two layers that must both say yes: the task's scope, and the rules below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envelope.scope import Scope, allows, offers

from ..tools.base import Target
from .rules import Action, Decision, Rule, evaluate, hidden

# Permissions that are no tool of their own: the grant of the tool that needs them is what counts.
SCOPED_AS = {"bash_unparsed": "bash"}
# Asked for beside a tool's own permission; a scope has no grants for them.
UNSCOPED = frozenset({"external_directory", "doom_loop"})
# permission → what the model can do instead
HINTS = {
    "bash_unparsed": "; which commands it runs cannot be told: write them plainly (programs by their names, no eval,"
    " no [[ ]], no arithmetic on variables), one call for each if need be"
}


@dataclass(frozen=True, slots=True)
class Denied:
    """Why a call was not run, in words for the model."""

    reason: str


@dataclass(frozen=True, slots=True)
class Guard:
    """`scope` is a ceiling, `fixed` holds denies that no rule lifts, and in `rules` the last match wins."""

    scope: Scope
    rules: tuple[Rule, ...]
    fixed: tuple[Rule, ...] = ()

    def check(self, targets: Sequence[Target]) -> Denied | None:
        """None when every target is within the scope and allowed. An ask cannot be answered here and denies."""
        return next((denied for target in targets if (denied := self._check(target))), None)

    def hides(self, tool: str) -> bool:
        """Is the tool withheld from the model altogether?"""
        return not offers(self.scope, tool) or hidden(self.rules, tool) or hidden(self.fixed, tool)

    def _check(self, target: Target) -> Denied | None:
        permission, pattern = target.permission, target.pattern
        tool = SCOPED_AS.get(permission, permission)
        if tool not in UNSCOPED and not allows(self.scope, tool, pattern):
            granted = ", ".join(grant for grant in self.scope if offers((grant,), tool)) or "no such grant"
            return Denied(f"not allowed: {tool} {pattern!r} is outside this task's scope ({granted})")
        if evaluate(self.fixed, permission, [pattern]).action is Action.DENY:
            return Denied(f"not allowed: this agent never uses {permission} on {pattern!r}")
        return _denial(evaluate(self.rules, permission, [pattern]), permission)


def _denial(decision: Decision, permission: str) -> Denied | None:
    match decision.action:
        case Action.ALLOW:
            return None
        case Action.DENY:
            rule = f"{decision.rule.permission}: {decision.rule.pattern}" if decision.rule else "none"
            return Denied(f"not allowed: {permission} {decision.pattern!r} is denied by the rule `{rule}`")
        case Action.ASK:
            asked = f"{permission} {decision.pattern!r}"
            hint = HINTS.get(permission, "")
            return Denied(f"not allowed: {asked} needs a person's approval, and this run cannot ask for it{hint}")
