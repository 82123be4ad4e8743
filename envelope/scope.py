"""What a task may do: grants `tool:pattern`, a ceiling that only narrows down the tree.

No grant, no tool. Rules (workers/permissions) decide how freely a tool is used below this ceiling.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from .errors import ScopeExceeded
from .pattern import MAX_PATTERN_CHARS, Effort, covers, match
from .reach import fault_of, is_named


def _checked(grant: str) -> str:
    if fault := fault_of(grant):
        raise ValueError(fault)
    return grant


# A tool's name, which may carry wildcards (`mcp_*`), then what it may touch: a path, a command, a URL, an agent.
# No longer than what `covers` looks at: a grant beyond it could never be handed on.
Grant = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_*?.\-]+:(?s:.+)$", max_length=MAX_PATTERN_CHARS),
    AfterValidator(_checked),
]
Scope = tuple[Grant, ...]

# One grant governs the tools that do the same thing.
GOVERNED_BY = {
    "write": "edit",
    "apply_patch": "edit",
    "bash_output": "bash",
    "bash_stop": "bash",
    **dict.fromkeys(("list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"), "read"),
}


def split(grant: str) -> tuple[str, str]:
    """`edit:src/**` → (`edit`, `src/**`)."""
    tool, _, pattern = grant.partition(":")
    return tool, pattern


def allows(scope: Iterable[str], tool: str, target: str) -> bool:
    """Is this tool on this target within the scope?

    >>> allows(("edit:src/**",), "write", "src/a.py"), allows(("read:**",), "edit", "src/a.py")
    (True, False)
    """
    tool = GOVERNED_BY.get(tool, tool)
    return any(match(name, tool) and match(pattern, target) for name, pattern in map(split, scope))


def offers(scope: Iterable[str], tool: str) -> bool:
    """Does the scope hold any grant for this tool?"""
    tool = GOVERNED_BY.get(tool, tool)
    return any(match(name, tool) for name, _ in map(split, scope))


def narrow(parent: Scope, wanted: Scope | None) -> Scope:
    """The scope of a child: what it wants when its parent holds all of it, else `ScopeExceeded` with the grant named.

    None wants all that the parent has. Never widens: every pair of tool and target that the result allows, the
    parent allows. (Sound but not complete over unions of tool names: `*:x` is covered only by grants on `*`.)
    """
    if wanted is None:
        return parent
    ceiling = _Ceiling(parent)
    for grant in wanted:
        if not ceiling.holds(grant):
            raise ScopeExceeded(
                f"the grant {grant!r} is not within the caller's scope",
                hint=f"ask for no more than: {', '.join(parent) or 'nothing'}",
            )
    return wanted


def common(one: Scope, other: Scope) -> Scope:
    """What both hold, as far as it can be said in grants of theirs.

    Of two overlapping grants neither of which covers the other, nothing is kept: less than both allow, never more.

    >>> common(("read:**", "edit:src/**"), ("edit:**", "read:docs/*", "bash:*"))
    ('edit:src/**', 'read:docs/*')
    """
    ceilings = ((_Ceiling(other), one), (_Ceiling(one), other))
    kept = (grant for ceiling, grants in ceilings for grant in grants if ceiling.holds(grant))
    return tuple(dict.fromkeys(kept))


class _Ceiling:
    """A scope that grants are held against. All of them together may take half a second or so: both may be strangers',
    and whoever compares them has others waiting. What would take longer is not held."""

    def __init__(self, scope: Scope) -> None:
        self._grants = [split(grant) for grant in scope]
        self._effort = Effort()
        self._own = frozenset(scope)
        self._patterns: dict[str, tuple[str, ...]] = {}

    def holds(self, grant: str) -> bool:
        tool, pattern = split(grant)
        if grant in self._own:
            return True
        if tool not in self._patterns:
            self._patterns[tool] = tuple(held for name, held in self._grants if self._names(name, tool))
        return covers(self._patterns[tool], pattern, self._effort)

    def _names(self, name: str, tool: str) -> bool:
        """Is a grant on `name` one on `tool`? A wildcard holds nothing that opens a way out, and hands none on."""
        return name == tool if is_named(tool) else covers([name], tool, self._effort)
