"""The part of a Makefile that its given goals can run. Pure.

All of its text counts, in its order, but for what is known to be harmless: rules with plain names that the goals do not
need, names behind `.PHONY` that nothing else says, and plain variables for documentation. Where it cannot be said what
the goals need the whole file counts: with conditions, `define`, and names that are made up.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

_UNCLEAR = re.compile(
    r"^[ \t]*(?:ifn?eq|ifn?def|else|endif|define|endef|vpath|load|undefine)\b|^[ \t]*export[ \t]*$|\.EXPORT_ALL"
    r"|\b(?:wildcard|eval|call|foreach|value)\b|\.DEFAULT_GOAL|\.SECONDEXPANSION|\.RECIPEPREFIX|\0"
    r"|\$[({][\w.-]*\$",  # a variable whose name is made up
    re.MULTILINE,
)
_FOLDED = re.compile(r"(?<!\\)((?:\\\\)*+)\\\n[ \t]*")  # two backslashes are one that the line ends with
_PLAIN = re.compile(r"[A-Za-z][\w-]*")
# A rule's first line, of names and variables alone: behind `;`, `=`, `%` and a second `:` stands something else.
_HEAD = re.compile(
    r"(?!(?:(?:un)?export|override|private|s?include)[ \t])"
    r"(?P<targets>[A-Za-z][\w-]*+(?:[ \t]+[A-Za-z][\w-]*+)*+)[ \t]*::?(?P<needs>[^=;:#\\%]*)(?:#.*)?"
)
_PHONY = re.compile(r"\.PHONY[ \t]*:(?P<names>[\w \t-]*)(?:#.*)?")
_ASSIGNMENT = re.compile(
    r"[ \t]*(?:(?:export|override|private)[ \t]+)*(?P<name>[\w.-]+)[ \t]*(?P<how>[?+!]|:{1,3})?=(?P<value>.*)"
)
_OF_TARGET = re.compile(r":[ \t]*(?:(?:export|override|private)[ \t]+)*[\w.-]+[ \t]*(?:[?+!]|:{1,3})?=.*")
# What tools for documentation want to be told; nothing else reads it.
_OF_DOCS = re.compile(r"(?P<name>(?:SPHINX|MKDOCS|DOC(?!KER))\w*|SOURCEDIR|BUILDDIR)[ \t]*(?:[?+]|:{1,3})?=[^$]*")
_USE = re.compile(r"(?<![\w-])\$[({](\w+)[)}](?![\w-])")
# Of make, and of just: other files that are read, and variables of these.
_INCLUDES = re.compile(
    r"^[ \t]*(?:(?:-?include|sinclude|import\??)[ \t]+|set[ \t]+[\w-]+[ \t]*:=)(?P<names>.*)"
    r"|^[ \t]*mod\??[ \t]+(?P<module>\w+)(?P<path>.*)",
    re.MULTILINE,
)
_THE_SAME = re.compile(r"\$[({](?:wildcard|sort|strip|realpath|abspath|firstword|lastword)[ \t]++([^$(){},]*)[)}]")
_VALUE = re.compile(r"\$[({](\w+)[)}]")
MAX_DEPTH, MAX_CHARS = 5, 20_000  # of variables in variables
# Endings of what GNU make's own rules make `%`, or a source, of.
_MAKES_PROGRAMS = (".sh", ".o", ".c", ".cc", ".C", ".cpp", ".p", ".f", ".F", ".m", ".r", ".s", ".S", ".mod")
_MAKES_SOURCES = (".y", ".ym", ".yl", ".l", ".lm", ".w", ".web")
MAKEFILES = ("Makefile", "makefile", "GNUmakefile")  # whose own rule, if there is one, runs before all others


@dataclass(slots=True)
class _Rule:
    """With its recipe. Without `targets`: other lines, which always count."""

    lines: list[str]
    targets: Sequence[str] = ()
    needs: str = ""


def what_goals_reach(text: str, goals: Collection[str]) -> str:
    """An empty goal is the file's own. The text itself where nobody can say.

    >>> docs = "test:\\n\\tpytest\\n\\ndocs:\\n\\tsphinx-build\\n"
    >>> what_goals_reach(docs, ["test"]) == what_goals_reach(docs + "\\tcp -r out web\\n", ["test"])
    True
    """
    if _UNCLEAR.search(text):
        return text
    rules, phony = _read(text)
    others = [line for rule in rules if not rule.targets for line in rule.lines]
    first = next((rule.targets[0] for rule in rules if rule.targets), "")
    # whatever another line says may be a goal, too
    wanted = {goal or first for goal in goals} | {word for line in others for word in _PLAIN.findall(line)}
    wanted = _needed(rules, wanted | {*MAKEFILES, "FORCE"})
    is_kept = [not rule.targets or not wanted.isdisjoint(rule.targets) for rule in rules]
    heads = [rule.needs for rule, kept in zip(rules, is_kept, strict=True) if kept]
    heads += [_OF_TARGET.sub(":", line) for line in others if _may_be_head(line)]
    told = _told(others)
    if any(_makes_names_up(head, told) for head in heads):
        return text
    lines: list[str] = []
    for rule, kept in zip(rules, is_kept, strict=True):
        lines += rule.lines if kept else rule.lines[:1] if "$" in rule.needs else []
    words = {word for line in lines if not _OF_DOCS.fullmatch(line) for word in re.findall(r"[\w-]+", line)}
    lines = [line for line in lines if not (found := _OF_DOCS.fullmatch(line)) or found["name"] in words]
    return "\n".join((*lines, f".PHONY: {' '.join(sorted(phony & words))}"))


def _may_be_head(line: str) -> bool:
    return ":" in line and not line.startswith("\t") and not _ASSIGNMENT.fullmatch(line)


def _needed(rules: Sequence[_Rule], wanted: Collection[str]) -> set[str]:
    """These names, and all that their rules need."""
    by_name: dict[str, list[_Rule]] = {}
    for rule in rules:
        for target in rule.targets:
            by_name.setdefault(target, []).append(rule)
    found, waiting, seen = set(wanted), list(wanted), set[int]()
    while waiting:
        new = [rule for rule in by_name.get(waiting.pop(), ()) if id(rule) not in seen]
        seen.update(map(id, new))
        more = {name for rule in new for name in _PLAIN.findall(rule.needs)} - found
        found |= more
        waiting += more
    return found


def _told(lines: Sequence[str]) -> set[str]:
    """Variables that nobody but these lines gives a value, and each of them in plain words."""
    given = [found for line in lines if (found := _ASSIGNMENT.fullmatch(line))]
    unclear = {one["name"] for one in given if one["how"] in ("?", "!") or re.search("[$%]", one["value"])}
    return {one["name"] for one in given} - unclear


def _makes_names_up(head: str, told: Collection[str]) -> bool:
    """May it have a plain name that no line of the file says? One with a slash or a dot is none."""
    patterns = [word for word in re.split(r"[\s:|;]+", head) if "%" in word]
    if any(_PLAIN.fullmatch(word.replace("%", "x")) for word in patterns):
        return True
    uses = list(_USE.finditer(head))
    is_told = all(use[1] in told or head[use.end() : use.end() + 1] in ("/", ".") for use in uses)
    return not is_told or "$" in _USE.sub("", head)


def _read(text: str) -> tuple[list[_Rule], set[str]]:
    """And the names behind `.PHONY`."""
    rules, phony = [_Rule([])], set[str]()
    for line in _FOLDED.sub(r"\1 ", text.replace("\r\n", "\n")).split("\n"):
        if line.startswith("\t"):
            rules[-1].lines.append(line)
        elif not line.strip() or line.lstrip().startswith("#"):
            continue
        elif found := _HEAD.fullmatch(line):
            needs = found["needs"].strip()
            rules.append(_Rule([f"{found['targets']}: {needs}"], found["targets"].split(), needs))
        else:
            if rules[-1].targets:
                rules.append(_Rule([]))
            if found := _PHONY.fullmatch(line):
                phony |= {*found["names"].split()}
            else:
                rules[-1].lines.append(line)
    return rules, phony


def is_made_from(path: str, known: Collection[str]) -> bool:
    """May `make` make another file of it that is there, by a rule of its own: `Makefile` of `Makefile.sh`, `a.c` of
    `a.y`, `x` of `s.x` or `RCS/x,v`?

    >>> is_made_from("Makefile.sh", {"Makefile"}), is_made_from("a/RCS/b.py,v", {"a/b.py"}), is_made_from("a.sh", {"b"})
    (True, True, False)
    """
    folder, name = posixpath.split(path)
    plain = name.removesuffix(",v").removeprefix("s.")
    if plain != name:
        folder = posixpath.dirname(folder) if posixpath.basename(folder) in ("RCS", "SCCS") else folder
        return posixpath.join(folder, plain) in known
    stem, suffix = posixpath.splitext(path)
    if suffix in _MAKES_PROGRAMS:
        return stem in known
    return suffix in _MAKES_SOURCES and any(f"{stem}{one}" in known for one in (".c", ".r", ".tex", ".p"))


def files_included(text: str) -> set[str] | None:
    """Paths, or behind a variable how they end; some are patterns. None where nobody can tell.

    >>> sorted(files_included("M := $(wildcard mk/*.mk)\\ninclude $(M)\\n-include $(TOP)/a.mk\\nimport 'b.just'"))
    ['$_/a.mk', 'b.just', 'mk/*.mk']
    """
    includes = list(_INCLUDES.finditer(text))
    if not includes:
        return set()
    values: dict[str, list[str]] = {}
    for line in text.split("\n"):
        if not line.startswith("\t") and (given := _ASSIGNMENT.fullmatch(line)) and given["how"] != "!":
            values.setdefault(given["name"], []).append(given["value"].partition("#")[0])
    found: set[str] = set()
    for include in includes:
        if module := include["module"]:
            names = f"{module}.just {module}/mod.just {module}/justfile {module}/.justfile {include['path']}"
        else:
            names = include["names"].partition("#")[0]
        for _ in range(MAX_DEPTH):
            names = _VALUE.sub(lambda one: " ".join(values.get(one[1], [one[0]])), names)
            names = _THE_SAME.sub(r"\1", _THE_SAME.sub(r"\1", names))
            if len(names) > MAX_CHARS:
                return None
        for name in re.split(r"[\s,\"'\[\]]+", names):
            name = re.sub(r"^\$[({]\w+[)}]/", "$_/", name)
            if "$" in name.removeprefix("$_/") or "`" in name:
                return None
            found |= {name} - {""}
    return found
