"""The one wildcard language of Muster: scopes, permission rules and the tools' switches all use it.

`*` is any run of characters, `/` and newline included; `?` is exactly one; everything else stands for itself. A
pattern is anchored at both ends, and one that ends in space-star also matches without arguments: `ls *` matches `ls`
and `ls -l`, not `lsof`. A backslash reads as a slash. Paths must be normalised before they come here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

MAX_PATTERN_CHARS = 512
# Steps that `covers` may take, of less than a microsecond each: letters × places in the parents, for each state. Real
# grants need some thousands; what needs more is refused, not guessed.
MAX_COVER_STEPS = 500_000
# Each task asks for the same few tools and grants hundreds of times. Answers to what is longer are not kept: that is
# somebody's command or path, which is hardly asked for twice, and would fill the memory.
MAX_KEPT_CHARS = 512

Position = tuple[int, int]  # which pattern, and how far into it

_OTHER = "\0other"  # stands for every character that no pattern at hand names


@lru_cache(maxsize=4096)
def _regex(pattern: str) -> re.Pattern[str]:
    """Between two stars the first place that fits is as good as any, so nothing is tried twice: patterns come from
    repositories, and one with twenty stars must not take for ever."""
    tail = "(?: .*)?" if pattern.endswith(" *") else ""
    first, *others = map(_plain, re.split(r"\*+", pattern.removesuffix(" *") if tail else pattern))
    if others:
        *inner, last = others
        first += "".join(f"(?>.*?{part})" for part in inner) + f".*{last}"
    return re.compile(first + tail, re.DOTALL)


def _plain(part: str) -> str:
    return "".join("." if char == "?" else re.escape(char) for char in part)


def match(pattern: str, text: str) -> bool:
    """Does the pattern match the whole text?

    >>> match("ls *", "ls"), match("ls *", "lsof"), match("src/**", "src/a/b.py")
    (True, False, True)
    """
    return (_kept_match if len(pattern) + len(text) <= MAX_KEPT_CHARS else _match)(pattern, text)


def _match(pattern: str, text: str) -> bool:
    return _regex(pattern.replace("\\", "/")).fullmatch(text.replace("\\", "/")) is not None


_kept_match = lru_cache(maxsize=4096)(_match)


@dataclass(slots=True)
class Effort:
    """What comparisons may take together: who compares scopes that a stranger wrote has one for all of them."""

    steps_left: int = 4 * MAX_COVER_STEPS


def covers(parents: Iterable[str], child: str, effort: Effort | None = None) -> bool:
    """Does every text that `child` matches also match one of `parents`? Exact; False when it would be too costly.

    Walks the product of the child's automaton with the determinised union of the parents', looking for a word that
    the child accepts and the parents do not.
    """
    effort = effort or Effort()
    if effort.steps_left < 0:
        return False
    among = tuple(parents)
    chars = sum(map(len, among)) + len(child)
    effort.steps_left -= chars
    if child in among:
        return True
    is_short = chars <= MAX_KEPT_CHARS
    found, steps = (_kept_cover if is_short else _cover)(among, child)
    effort.steps_left -= steps
    return found and effort.steps_left >= 0


def _cover(parents: tuple[str, ...], child: str) -> tuple[bool, int]:
    """And the steps that it took."""
    parent_forms = [form for parent in parents for form in _forms(parent)]
    if len(child) > MAX_PATTERN_CHARS or any(len(form) > MAX_PATTERN_CHARS for form in parent_forms):
        return False, 0
    steps = 0
    for form in _forms(child):
        is_covered, more = _covers(parent_forms, form)
        steps += more
        if not is_covered:
            return False, steps
    return True, steps


_kept_cover = lru_cache(maxsize=4096)(_cover)


def _forms(pattern: str) -> list[str]:
    pattern = pattern.replace("\\", "/")
    return [pattern, pattern.removesuffix(" *")] if pattern.endswith(" *") else [pattern]


def _covers(parents: Sequence[str], child: str) -> tuple[bool, int]:
    if any(parent and set(parent) == {"*"} for parent in parents):  # most grants' parents hold everything
        return True, 0
    if not {"*", "?"} & {*child}:
        return any(match(parent, child) for parent in parents), len(parents)
    alphabet = {*child, *"".join(parents), _OTHER}
    start: tuple[int, frozenset[Position]] = (0, _closed(parents, {(index, 0) for index in range(len(parents))}))
    seen: set[tuple[int, frozenset[Position]]] = {start}
    queue: list[tuple[int, frozenset[Position]]] = [start]
    steps = 0
    while queue:
        at, states = queue.pop()
        if at == len(child) and not any(position == len(parents[index]) for index, position in states):
            return False, steps
        steps += len(alphabet) * (1 + len(states))
        if steps > MAX_COVER_STEPS:
            return False, steps
        for char in alphabet:
            after = _closed(parents, _step(parents, states, char))
            for _, position in _step([child], {(0, at)}, char):
                pair = (position, after)
                if pair not in seen:
                    seen.add(pair)
                    queue.append(pair)
        at_star = at < len(child) and child[at] == "*"
        if at_star and (skipped := (at + 1, states)) not in seen:
            seen.add(skipped)
            queue.append(skipped)
    return True, steps


def _closed(patterns: Sequence[str], states: Iterable[Position]) -> frozenset[Position]:
    """States and all that a star lets one reach without reading."""
    closed: set[Position] = set()
    for index, position in states:
        closed.add((index, position))
        while position < len(patterns[index]) and patterns[index][position] == "*":
            position += 1
            closed.add((index, position))
    return frozenset(closed)


def _step(patterns: Sequence[str], states: Iterable[Position], char: str) -> set[Position]:
    """Where one may be after reading `char` (literal stars and question marks are characters here, too)."""
    after: set[Position] = set()
    for index, position in states:
        if position == len(patterns[index]):
            continue
        element = patterns[index][position]
        if element == "*":
            after.add((index, position))
        elif element in ("?", char):
            after.add((index, position + 1))
    return after
