"""The forms in which people write down an agent's tools and permissions, made one. Pure.

`tools` is a list of names or wildcards, the same as one text with commas (`Read, Grep`), or a map from name to
true or false. What is misspelt is refused: a ban on `wirte` would ban nothing.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, cast

from envelope.near import close_names
from envelope.scope import GOVERNED_BY

from ..permissions.rules import Action, Rule, parse_rules

ACTIONS = tuple(action.value for action in Action)
# What others call our tools.
OTHER_NAMES = {
    "ls": "list",
    "multiedit": "edit",
    "notebookedit": "edit",
    "patch": "apply_patch",
    "agent": "task",
    "askuserquestion": "question",
    "bashoutput": "bash_output",
    "taskoutput": "bash_output",
    "killbash": "bash_stop",
    "killshell": "bash_stop",
    "taskstop": "bash_stop",
    "exitplanmode": "plan_exit",
    "enterplanmode": "plan_enter",
}
KNOWN_PERMISSIONS = frozenset(
    (
        *("*", "read", "edit", "write", "apply_patch", "list", "glob", "grep", "bash", "bash_unparsed", "lsp"),
        *("bash_output", "bash_stop"),
        *(
            "external_directory",
            "task",
            "skill",
            "webfetch",
            "websearch",
            "todowrite",
            "todoread",
            "plan_update",
            "question",
        ),
        *("plan_enter", "plan_exit", "doom_loop", "engine"),
    )
)
# Near enough for a misspelling (`raed`), too far for another word (`grape`).
_NEAR = 0.7
_MCP = re.compile(r"mcp__(?>(\w+?)__)(\w+)")
_SPECIFIER = re.compile(r"(?<![\w*-])([\w*-]++)\s*+\(")


def switches(written: object) -> tuple[str, ...]:
    """The tools that are offered at all, as wildcards; a map of switches says that in rules (`switch_rules`)."""
    return ("*",) if isinstance(written, dict) else _names(written)


def switch_rules(written: object, permission: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Rules from a map `{tool: true or false}`. What the file says about a permission by name stands instead of it."""
    if not isinstance(written, dict):
        return ()
    said = {rule.permission for rule in permission}
    rules: list[Rule] = []
    for name, is_on in cast(dict[Any, object], written).items():
        if not isinstance(is_on, bool):
            raise ValueError(f"{name}: write true or false, not {reprlib.repr(is_on)}")
        rules.append(Rule(_governed(str(name)), "*", Action.ALLOW if is_on else Action.DENY))
    return tuple(rule for rule in rules if rule.permission not in said)


def denials(written: object) -> tuple[Rule, ...]:
    """Rules that deny each of the named tools."""
    return tuple(Rule(_governed(tool), "*", Action.DENY) for tool in _names(written))


def permission_rules(written: object) -> tuple[Rule, ...]:
    """Rules from an action, or a map from permission to an action or to a map from pattern to action.

    `ValueError` names the key whose value is wrong, and what it may have meant.
    """
    if isinstance(written, dict):
        named = cast(dict[Any, object], written)
        each = (parse_rules({_governed(str(key)): _patterns(str(key), value)}) for key, value in named.items())
        return tuple(chain.from_iterable(each))
    return parse_rules(_action("", written))


def _patterns(key: str, value: object) -> str | Mapping[str, str]:
    if isinstance(value, dict):
        named = cast(dict[Any, object], value)
        return {str(pattern): _action(f"{key}.{pattern}: ", action) for pattern, action in named.items()}
    return _action(f"{key}: ", value)


def _action(where: str, value: object) -> str:
    if isinstance(value, str) and value in ACTIONS:
        return value
    near = close_names(value, ACTIONS) if isinstance(value, str) else []
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{where}{reprlib.repr(value)} is none of {', '.join(ACTIONS)}{meant}")


def _names(written: object) -> tuple[str, ...]:
    if isinstance(written, str):
        if found := _SPECIFIER.search(written):
            raise ValueError(
                f"{found[0]}…) names a part of a tool; write `{found[1]}` here, and the part under `permission`"
            )
        written = [part.strip() for part in written.split(",") if part.strip()]
    if not isinstance(written, list | tuple) or not written:
        raise ValueError("write a list of tools such as [read, grep], or a map such as {write: false}")
    items: Iterable[object] = cast("list[object] | tuple[object, ...]", written)
    wrong = next((item for item in items if not isinstance(item, str) or not item), None)
    if wrong is not None:
        raise ValueError(f"{reprlib.repr(wrong)} is no name of a tool")
    return tuple(dict.fromkeys(_tool(str(item)) for item in items))


def _tool(name: str) -> str:
    """A tool by the name that it has here; one that we do not know stands as it is, unless it looks misspelt."""
    if mcp := _MCP.fullmatch(name):
        return f"{mcp[1]}_{mcp[2]}"
    plain = name.lower()
    return _known(OTHER_NAMES.get(plain, plain if plain in KNOWN_PERMISSIONS else name))


def _governed(name: str) -> str:
    """The permission that stands for a tool: all that write files are governed by `edit`."""
    tool = _tool(name)
    return GOVERNED_BY.get(tool, tool)


def _known(name: str) -> str:
    if name in KNOWN_PERMISSIONS or "*" in name or "?" in name:
        return name
    if near := close_names(name.lower(), KNOWN_PERMISSIONS, cutoff=_NEAR):
        raise ValueError(f"{name!r} is no tool; did you mean {near[0]!r}? (your own tool of that name: `{name}*`)")
    return name
