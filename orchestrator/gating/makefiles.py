"""The part of a Makefile that its given goals can run: the rules that they need, and all that is no rule. Pure.

Where that cannot be said for sure the whole file counts: with conditions, `define`, and names that are made up by
functions.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

_ASSIGNMENT = re.compile(r"\s*(?:(?:export|override|private)\s+)*([\w.-]+)\s*(?:[:?+!]|::|:::)?=")
_UNCLEAR = re.compile(
    r"^[ \t]*(?:ifn?eq|ifn?def|else|endif|define|endef|vpath|load|undefine)\b"
    r"|\b(?:wildcard|eval|call|foreach)\b|\.DEFAULT_GOAL|\.SECONDEXPANSION|\.RECIPEPREFIX|\0",
    re.MULTILINE,
)
# What does something while the file is read, or brings in what may.
_ACTS = re.compile(r"[({]\s*(?:shell|file|guile)\s|!=|^\s*(?:-?include|sinclude)\b")
_FOLDED = re.compile(r"(?<!\\)((?:\\\\)*+)\\\n[ \t]*")  # two backslashes are one that the line ends with
_PLAIN = re.compile(r"[A-Za-z][\w-]*")
# What tools for documentation want to be told; nothing else reads it.
_OF_DOCS = re.compile(r"(?:SPHINX|MKDOCS|DOCS?)\w*|SOURCEDIR|BUILDDIR")
# A rule of n targets is kept n times: no Makefile's own text is as long as this then.
MAX_KEPT_CHARS, _OF_EACH = 4 * 1024 * 1024, 8
MAKEFILES = ("Makefile", "makefile", "GNUmakefile")  # whose own rule, if there is one, runs before all others


@dataclass(slots=True)
class _Makefile:
    """`rest`: whatever is no rule with a plain name, in order. `heads`: of rules whose needs hold variables. `acts`:
    some line outside of recipes may do something while it is read."""

    rules: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    needs: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    phony: set[str] = field(default_factory=set[str])
    rest: list[str] = field(default_factory=list[str])
    heads: list[str] = field(default_factory=list[str])
    acts: bool = False

    @property
    def first(self) -> str:
        return next(iter(self.rules), "")


def what_goals_reach(text: str, goals: Collection[str]) -> str | tuple[list[str], dict[str, list[str]], set[str]]:
    """Comparable; an empty goal is the file's own. The text itself where nobody can say.

    >>> docs = "test:\\n\\tpytest\\n\\ndocs:\\n\\tsphinx-build\\n"
    >>> what_goals_reach(docs, ["test"]) == what_goals_reach(docs + "\\tcp -r out web\\n", ["test"])
    True
    """
    if _UNCLEAR.search(text) or (found := _read(text)) is None:
        return text
    wanted = {goal or found.first for goal in goals} | {*MAKEFILES, "FORCE"}
    # whatever a variable holds may be a goal, too
    wanted |= {word for line in found.rest for word in _PLAIN.findall(line)} & found.rules.keys()
    waiting = list(wanted)
    while waiting:
        more = found.needs.get(waiting.pop(), set[str]()) - wanted
        wanted |= more
        waiting += more
    reached = {name: lines for name, lines in found.rules.items() if name in wanted}
    told = "\n".join((*found.rest, *(line for lines in reached.values() for line in lines)))
    used = frozenset(re.findall(r"\$[({](\w+)", told))
    rest = [line for line in found.rest if not _is_for_docs(line, used) or (found.acts and _is_made_up(line))]
    if found.acts:
        rest += found.heads
    return rest, reached, found.phony & wanted


def text_that_goals_reach(text: str, goals: Collection[str]) -> str:
    found = what_goals_reach(text, goals)
    if isinstance(found, str):
        return found
    return "\n".join((*found[0], *(line for lines in found[1].values() for line in lines)))


def _is_for_docs(line: str, used: Collection[str]) -> bool:
    found = _ASSIGNMENT.match(line)
    return bool(found and _OF_DOCS.fullmatch(found[1]) and found[1] not in used)


def _is_made_up(line: str) -> bool:
    return "$" in line or "!=" in line


def _read(text: str) -> _Makefile | None:
    """None where it would be much longer than its text."""
    found = _Makefile()
    current: list[list[str]] = []
    kept = 0
    for line in _FOLDED.sub(r"\1 ", text.replace("\r\n", "\n")).split("\n"):
        if line.startswith("\t"):
            if (kept := kept + len(current) * (len(line) + _OF_EACH)) > MAX_KEPT_CHARS:
                return None
            for lines in current or [found.rest]:
                lines.append(line)
            continue
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found.acts = found.acts or _ACTS.search(line) is not None
        head, colon, needs = line.partition("#")[0].partition(":")
        is_rule = bool(colon) and "=" not in head and not _ASSIGNMENT.match(line)
        # `\#` is no comment: such a line counts as it stands
        targets, needs = head.split() if is_rule and "\\#" not in line else [], needs.lstrip(":").strip()
        if targets == [".PHONY"]:
            found.phony |= set(needs.split())
            current = [[]]
        elif targets and all(_PLAIN.fullmatch(target) for target in targets):
            if (kept := kept + len(targets) * (len(needs) + _OF_EACH)) > MAX_KEPT_CHARS:
                return None
            current = [found.rules.setdefault(target, []) for target in targets]
            if _is_made_up(line):
                found.heads.append(line)
            for target in targets:
                found.rules[target].append(f"{target}: {needs}")
                found.needs.setdefault(target, set()).update(_PLAIN.findall(needs))
        else:
            found.rest.append(line)
            current = [found.rest] if is_rule else []
    return found
