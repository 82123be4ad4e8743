"""`grep`: lines by a regular expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from sandbox.base import WORKSPACE, GrepMatch

from .base import Target, ToolContext, ToolResult
from .glob import STOPPED
from .paths import absolute, looked_in, outside
from .schema import parameters, text
from .truncate import cut_line, truncate

MAX_MATCHES = 100  # as users of agents know it: more is a sign of too wide a pattern


class Grep:
    name = "grep"
    description = (
        "Search file contents with a regular expression (ripgrep's syntax), hidden files included."
        f" At most {MAX_MATCHES} matches, grouped by file with line numbers."
    )
    parameters = parameters(
        ["pattern"],
        pattern=text("the regular expression"),
        path=text(f"absolute path of a directory or file (default {WORKSPACE})"),
        include=text("only files whose name matches this glob, such as `*.py`"),
    )

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        folder = arguments.get("path", WORKSPACE)
        return [*outside(folder), Target("grep", arguments["pattern"], looked_in(folder))]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return arguments["pattern"]

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        sandbox, path = await context.sandbox(), absolute(arguments.get("path", WORKSPACE))
        include = arguments.get("include")
        matches, more = await sandbox.grep(arguments["pattern"], path, include=include, limit=MAX_MATCHES)
        return ToolResult(
            grouped(matches, more=more),
            title=self.title(arguments),
        )


def grouped(matches: Sequence[GrepMatch], *, more: bool) -> str:
    """The matches under the names of their files, in the order in which they came."""
    if not matches:
        return STOPPED if more else "No matches found."
    lines = [f"Found {len(matches)} matches{' (there are more; use a narrower pattern or path)' if more else ''}"]
    for path, group in groupby(matches, key=lambda match: match.path):
        lines += ["", f"{path}:", *(f"  Line {match.line_number}: {cut_line(match.line)}" for match in group)]
    cut = truncate("\n".join(lines))
    return f"{cut.text}\n(cut; use a narrower pattern)" if cut.dropped_lines else cut.text
