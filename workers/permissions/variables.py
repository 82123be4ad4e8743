"""Which variables a shell text sets, and whether that can matter to anything that runs. Pure.

A lower-case name that no program and no shell is known to read is the text's own business. Any other says where
programs are found, what they load or which editor, pager or helper they start, and is judged like a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .runners import inner_commands, program
from .syntax import Node, Unparsable, source_of
from .words import SimpleCommand, Word

_OWN = re.compile(r"[a-z][a-z0-9_]*|_|_[a-z][a-z0-9_]*")
# Lower-case, and read all the same: by downloaders, npm and yarn, configure scripts, bash, zsh and csh.
_READ = re.compile(
    r"(?=\w*_proxy\Z)\w++|(?:npm|yarn|pnpm|electron|bun|rvm|fish)_\w+|(?=\w+_cv_\w)\w++|cross_compiling|histchars|auto_resume"
    r"|debian_chroot|(?:f|cd|man|mail|module_)?path|fignore|prompt\d?|psvar|argv|status|aliases|galiases|saliases"
    r"|functions|commands|builtins|options|nameddirs|userdirs|parameters|dirstack|history|precmd\w*|preexec\w*"
    r"|chpwd\w*|periodic\w*|shell|home|term|user|cwd|watch|signals|cdable_vars"
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:\[[\w@*]*\])?\+?=")
DECLARERS = frozenset({"export", "readonly", "local", "declare", "typeset"})
_SETTERS = frozenset({"read", "mapfile", "readarray", "getopts", "unset", "printf", "wait", *DECLARERS})
# In front of `read`, for it alone: how a line is split.
_FOR_READ = re.compile(r"IFS=(?:[\w,:;|/.-]?|'[^']*'|\"[^\"$`\\]*\"|\$'\\[tn0]')")


def is_own(name: str) -> bool:
    """Is the variable of no interest to anything but the text that sets it?

    >>> [is_own(name) for name in ("i", "out_dir", "PATH", "GIT_PAGER", "https_proxy", "npm_config_script_shell", "_")]
    [True, True, False, False, False, False, True]
    """
    return _OWN.fullmatch(name) is not None and _READ.fullmatch(name) is None


def splits_a_line(command: SimpleCommand) -> bool:
    """Is it a `read` with nothing before it but what splits its line?"""
    before = command.text[: command.words[0].at].strip(" \t") if command.words else ""
    return command.name == "read" and _FOR_READ.fullmatch(before) is not None


def set_by_command(command: SimpleCommand) -> Iterator[str]:
    """The variables that a command sets, by name, from its arguments; `Unparsable` where that is not plain."""
    name, words = command.name, command.words[1:]
    if program(command) != "find" and (inner := next(inner_commands(command), None)):
        yield from _set_for_another(words[: len(words) - len(inner.words)])
    if name not in _SETTERS:
        return
    values = [word.value for word in words]
    if name in ("printf", "wait"):
        flag = "-v" if name == "printf" else "-p"
        first = values[0] if values else ""
        if first is None and name == "wait":
            return
        if first is not None and not first.startswith(flag):
            return
        values = values[1:2] if first in (flag, None) else [(first or "")[2:]]
    for value in values:
        if value is None:
            raise Unparsable(f"which variable {name!r} sets cannot be told from its text")
        if re.match(r"[-+]\w*[niC]", value) and name in (*DECLARERS, "mapfile", "readarray"):
            raise Unparsable(f"{name!r} gives a name another meaning, or runs something")
        named = re.sub(r"^-[a-zA-Z]+(?=[A-Za-z_])", "", value) if name in ("read", "mapfile", "readarray") else value
        for each in {value, named}:
            bare = each.partition("=")[0].removesuffix("+") if name in DECLARERS else each
            if "[" in bare:
                raise Unparsable("what stands in brackets behind a name is code")
            if _NAME.fullmatch(bare):
                yield bare
        if name == "read" and re.match(r"-[a-zA-Z]*a[A-Za-z_]", value):
            yield value.partition("a")[2]


def _set_for_another(words: Sequence[Word]) -> Iterator[str]:
    """What `env`, `sudo` and their like set or take away for what they run."""
    for word, following in pairwise([*words, None]):
        if word is None:
            continue
        if found := _ASSIGNED.match(word):
            yield found[1]
        if word.value is None:
            continue
        if taken := re.fullmatch(r"(?:-u|--unset=?)(\w*)", word.value):
            yield taken[1] or (following.value if following else None) or "?"


def set_by_node(node: Node) -> Iterator[str]:
    """The variables that a part of the text sets by itself, without those inside of it."""
    match node.type:
        case "variable_assignment":
            yield _subscripted(node.children[0])
        case "for_statement" | "select_statement":
            yield from (source_of(child) for child in node.children if child.type == "variable_name")
        case "declaration_command" | "unset_command":
            yield from (source_of(child) for child in node.children if child.type == "variable_name")
        case "expansion":
            if found := re.match(r"\$\{(\w+)(?:\[[^\]]*\])?:?=", source_of(node)):
                yield found[1]
        case _:
            return


def _subscripted(node: Node) -> str:
    return re.split(r"\[", source_of(node), maxsplit=1)[0]
