"""`apply_patch`: many changes in one text, all of them or none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from sandbox.errors import SandboxError, SandboxLost

from .base import Target, ToolContext, ToolResult
from .diff import diff_of, shown_diff
from .errors import ToolError
from .files import decoded, encoded, load_if_there, remove, require_seen, store
from .patch import PatchRefused, apply_patch, parse_patch
from .patch_tree import Add, Delete, Patch, Section, Update
from .paths import absolute, path_targets, relative
from .schema import parameters, text

Contents = dict[str, bytes | None]  # by absolute path; None: no such file


class ApplyPatch:
    name = "apply_patch"
    description = (
        "Add, change, move and delete files with one patch; all of it is applied or nothing. Read the files first."
        " The patch starts with `*** Begin Patch` and ends with `*** End Patch`. Between them: `*** Add File: path` and"
        " the file's lines with `+` before each; `*** Delete File: path`; `*** Update File: path`, if it moves"
        " `*** Move to: path`, then chunks. A chunk is `@@`, which a line that stands above the change may follow, then"
        " about three lines around the change with a blank before each, what goes with `-` and what comes with `+`, and"
        " `*** End of File` if it must be at the end. Chunks follow the order of the file."
    )
    parameters = parameters(["patchText"], patchText=text("the whole patch"))

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        """Every path of the patch. One that cannot be read touches nothing, and `run` says why."""
        try:
            paths = parse_patch(arguments["patchText"]).paths
        except PatchRefused:
            return []
        return list(dict.fromkeys(target for path in paths for target in path_targets("edit", path)))

    def title(self, arguments: Mapping[str, Any]) -> str:
        try:
            first, *others = parse_patch(arguments["patchText"]).paths
        except PatchRefused:
            return "unreadable patch"
        return f"{relative(first)} and {len(others)} more" if others else relative(first)

    async def preview(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        _, before, after = await _change(context, arguments)
        return await shown_diff({path: (before[path], content) for path, content in after.items()})

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        patch, before, after = await _change(context, arguments)
        await _store_all(context, before, after, await _modes(context, patch, before))
        metadata = await diff_of({path: (before[path], content) for path, content in after.items()})
        return ToolResult("\n".join(map(_line, patch.sections)), self.title(arguments), metadata=metadata)


async def _change(context: ToolContext, arguments: Mapping[str, Any]) -> tuple[Patch, Contents, Contents]:
    """The patch, what stands at its paths, and what would stand there."""
    patch = parse_patch(arguments["patchText"]).located(absolute)
    before = await _seen(context, patch)
    # in a thread: a patch made to be slow can take seconds
    texts = {path: decoded(path, content) for path, content in before.items() if content is not None}
    left = await asyncio.to_thread(apply_patch, texts, patch)
    after = {path: encoded(path, left[path]) if path in left else None for path in patch.paths}
    return patch, before, after


async def _seen(context: ToolContext, patch: Patch) -> Contents:
    """What stands at the patch's paths now, all of it known to the session."""
    sandbox = await context.sandbox()
    contents = {path: await load_if_there(sandbox, path) for path in patch.paths}
    for path, content in contents.items():
        if content is not None:
            require_seen(context, path, content)
    return contents


async def _modes(context: ToolContext, patch: Patch, before: Contents) -> dict[str, int]:
    """A script that moves stays one that can be run."""
    sandbox = await context.sandbox()
    return {
        section.move_to: (await sandbox.stat(section.path)).mode & 0o777
        for section in patch.sections
        if isinstance(section, Update) and section.move_to and before[section.path] is not None
    }


async def _store_all(context: ToolContext, before: Contents, after: Contents, modes: Mapping[str, int]) -> None:
    """New contents before deletions, so that nothing is lost on the way; a failure puts back what was done."""
    done: list[str] = []
    try:
        for path, content in sorted(after.items(), key=lambda change: change[1] is None):
            done.append(path)
            await _put(context, path, content, modes.get(path))
    except SandboxLost:
        raise
    except (SandboxError, ToolError):
        # the last one failed by itself: what stands there is what stood there
        for path in reversed(done[:-1]):
            await _put(context, path, before[path])
        raise


async def _put(context: ToolContext, path: str, content: bytes | None, mode: int | None = None) -> None:
    await (remove(context, path) if content is None else store(context, path, content, mode=mode))


def _line(section: Section) -> str:
    match section:
        case Add(path):
            return f"A {relative(path)}"
        case Delete(path):
            return f"D {relative(path)}"
        case Update(path, _, move_to):
            return f"M {relative(move_to or path)}"
