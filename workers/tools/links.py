"""Links in a workspace: rules and grants are about the file that a path leads to, and not only about its name."""

from __future__ import annotations

from collections.abc import Sequence

from ..permissions.guard import Allowed, Denied, Guard, unanswerable
from .base import Target, ToolContext, ToolResult
from .paths import outside, path_targets, relative


async def led_astray(targets: Sequence[Target], context: ToolContext, guard: Guard) -> ToolResult | None:
    """An error when a link leads the call to where it may not go, or must ask first: by the file's own name it can."""
    for target in {(target.permission, target.path): target for target in targets if target.path}.values():
        real = await context.resolve(target.path)
        if real == target.path:
            continue
        verdict = guard.judge(_judged(target, real), context.people.approved if context.people else ())
        if isinstance(verdict, Allowed):
            continue
        why = verdict if isinstance(verdict, Denied) else unanswerable(verdict.wanted)
        where = f"{relative(target.path)} is a link, or lies behind one, that leads to {relative(real)}"
        if context.people and not isinstance(verdict, Denied):
            return ToolResult(f"Error: {where}, which a person must allow; name that path itself.", is_error=True)
        return ToolResult(f"{why.reason} ({where})", is_error=True)
    return None


def _judged(target: Target, real: str) -> list[Target]:
    """Rules for reading and writing are about files; those for searches and commands are not, and only where they
    reach is judged."""
    if target.pattern == relative(target.path):
        return path_targets(target.permission, real)
    return outside(real)
