"""Rules under a ceiling: a list that is nowhere freer than another one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envelope.pattern import match

from .rules import Action, Rule, evaluate, frees_bash

STRICTNESS = (Action.ALLOW, Action.ASK, Action.DENY)
_WILD = frozenset("*?")
_EVERYTHING = ("*", "**")


def under(ceiling: Sequence[Rule], rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """One list that decides as `rules` do, wherever `ceiling` is not stricter, and as `ceiling` does elsewhere.

    `ceiling` must begin with a rule on everything. Where two wildcards overlap and neither holds the other, what the
    ceiling asks about is denied: less than both, never more.
    """
    narrowed = (*ceiling, *(narrow for rule in rules for narrow in _under(ceiling, rule)))
    if frees_bash(narrowed) and not frees_bash(ceiling):
        # `bash: allow` would speak for texts, too, that cannot be understood (see `guard`)
        return (*narrowed, Rule("bash_unparsed", "*", evaluate(ceiling, "bash_unparsed", "*").action))
    return narrowed


def frees(ceiling: Sequence[Rule], rule: Rule) -> bool:
    """Would the rule, if it stood below the ceiling's, allow anything that these do not?"""
    return any(_strictness(narrow) > _strictness(rule) for narrow in _under(ceiling, rule))


def _under(ceiling: Sequence[Rule], rule: Rule) -> Iterator[Rule]:
    """The rule once for each rule of the ceiling that it meets, so that the last of these decides there, too."""
    if rule.action is Action.DENY:
        yield rule
        return
    for limit in ceiling:
        permission, pattern = _met(rule.permission, limit.permission), _met(rule.pattern, limit.pattern)
        if _are_apart(rule.permission, limit.permission) or _are_apart(rule.pattern, limit.pattern):
            continue
        if permission is not None and pattern is not None:
            yield Rule(permission, pattern, max(rule.action, limit.action, key=STRICTNESS.index))
        elif limit.action is not Action.ALLOW:
            yield Rule(limit.permission, limit.pattern, Action.DENY)


def _strictness(rule: Rule) -> int:
    return STRICTNESS.index(rule.action)


def _met(one: str, other: str) -> str | None:
    """The narrower of two patterns; None when it is not plain to see which that is.

    `envelope.pattern.covers` would know, at a price that a hostile file can set.
    """
    if one == other or _holds(other, one):
        return one
    return other if _holds(one, other) else None


def _holds(wide: str, narrow: str) -> bool:
    return wide in _EVERYTHING or (not _WILD & set(narrow) and match(wide, narrow))


def _are_apart(one: str, other: str) -> bool:
    """Is there certainly no text that both match? Known only of a pattern without wildcards."""
    if not _WILD & set(one):
        return not match(other, one)
    return not _WILD & set(other) and not match(one, other)
