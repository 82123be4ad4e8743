"""`apply_patch`: many changes in one text, all of them or none."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from repo.fairness import beside
from sandbox.base import Command, Sandbox
from sandbox.errors import PathError, SandboxError, SandboxLost

from .base import Target, ToolContext, ToolResult
from .diff import diff_of, shown_diff, told_diff
from .errors import ToolError
from .files import decoded, digest, encoded, load_if_there, remove, require_seen, store
from .patch import PatchRefused, parse_patch, patched
from .patch_tree import Add, Delete, Patch, Section, Update
from .paths import absolute, path_targets, relative
from .schema import parameters, text

# How long a call that is stopped may still write; a few files take milliseconds.
MAX_STOPPING_S = 5

Contents = dict[str, bytes | None]  # by absolute path; None: no such file


class ApplyPatch:
    name = "apply_patch"
    description = (
        "Add, change, move and delete files with one patch; all of it is applied or nothing. Read the files first."
        " The patch starts with `*** Begin Patch` and ends with `*** End Patch`. Between them: `*** Add File: path` and"
        " the file's lines with `+` before each; `*** Delete File: path`; `*** Update File: path`, if it moves"
        " `*** Move to: path`, then chunks. A chunk is `@@`, which a line that stands above the change may follow (or"
        " two: `@@ class A`, below it `@@ def f`), then about three lines around the change with a blank before each,"
        " what goes with `-` and what comes with `+`, and `*** End of File` if it must be at the end. Chunks follow the"
        " order of the file. Lines that are only added come below the line that follows `@@`; without one, at the end."
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
        return await shown_diff((await _change(context, arguments)).by_path)

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        change = await _change(context, arguments)
        sandbox = await context.sandbox()
        stood = {path: await _stood(sandbox, path, content) for path, content in change.before.items()}
        await _uninterrupted(_store_all(context, change, stood))
        told = [*(_line(section, change.before) for section in change.patch.sections), *change.remarks]
        if loose := {path: content for path, content in change.by_path.items() if path in change.loose}:
            told += ["Lines of the patch are not there as you wrote them; these were taken to be meant:"]
            told += [await told_diff(loose)]
        metadata = await diff_of(change.by_path)
        return ToolResult("\n".join(told), self.title(arguments), metadata=metadata)


@dataclass(frozen=True, slots=True)
class _Change:
    """What stands at the patch's paths, and what would stand there; see `Patched` for the rest."""

    patch: Patch
    before: Contents
    after: Contents
    loose: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def by_path(self) -> dict[str, tuple[bytes | None, bytes | None]]:
        return {path: (self.before[path], content) for path, content in self.after.items()}


async def _change(context: ToolContext, arguments: Mapping[str, Any]) -> _Change:
    patch = parse_patch(arguments["patchText"]).located(absolute)
    before = await _seen(context, patch)
    # in a thread: a patch made to be slow can take seconds
    texts = {path: decoded(path, content) for path, content in before.items() if content is not None}
    done = await beside.run(context.tenant, partial(patched, texts, patch), str(id(context)))
    after = {path: encoded(path, done.files[path]) if path in done.files else None for path in patch.paths}
    return _Change(patch, before, after, done.loose, done.remarks)


async def _seen(context: ToolContext, patch: Patch) -> Contents:
    """What stands at the patch's paths now, all of it known to the session."""
    sandbox, places = await context.sandbox(), dict[str, str]()
    for path in patch.paths if len(patch.paths) > 1 else ():
        # each would be written as if the other had not been
        if (other := places.setdefault(await context.resolve(path), path)) != path:
            raise ToolError(f"{path} and {other} are the same file; change it by one of these names")
    contents = {path: await load_if_there(sandbox, path) for path in patch.paths}
    for path, content in contents.items():
        if content is not None:
            require_seen(context, path, content)
    return contents


@dataclass(frozen=True, slots=True)
class _Stood:
    """What stood at a path before the patch, beside its content. `link`: where it says that it leads, if it is one;
    `real`: where it leads. `lacking`: the folders above it that were not there, the innermost first."""

    mode: int | None
    real: str
    link: str
    lacking: tuple[str, ...] = ()


async def _stood(sandbox: Sandbox, path: str, content: bytes | None) -> _Stood:
    mode = None if content is None else (await sandbox.stat(path)).mode & 0o777
    real, link, lacking = await sandbox.resolve(path), "", list[str]()
    if real != path:  # it is a link, or lies behind one
        read = await sandbox.exec(Command(["readlink", "--", path]))
        link = "" if read.exit_code else decoded(path, read.output.removesuffix(b"\n"))
    folder = posixpath.dirname(real)
    while content is None and not await _is_there(sandbox, folder):
        lacking.append(folder)
        folder = posixpath.dirname(folder)
    return _Stood(mode, real, link, tuple(lacking))


async def _is_there(sandbox: Sandbox, path: str) -> bool:
    try:
        await sandbox.stat(path)
    except PathError:
        return path == "/"
    return True


async def _uninterrupted(work: Coroutine[Any, Any, None]) -> None:
    """Who is stopped in the middle of a patch stops after it: half of one is worse than either."""
    running = asyncio.ensure_future(work)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running], timeout=MAX_STOPPING_S)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        raise


async def _store_all(context: ToolContext, change: _Change, stood: Mapping[str, _Stood]) -> None:
    """New contents before deletions, so that nothing is lost on the way; a failure puts back what was done. A script
    that moves, or is put back, stays one that can be run."""
    sections = change.patch.sections
    moved = {each.move_to: each.path for each in sections if isinstance(each, Update) and each.move_to}
    done: list[str] = []
    try:
        for path, content in sorted(change.after.items(), key=lambda each: each[1] is None):
            done.append(path)
            await _put(context, path, content, stood[moved.get(path, path)].mode)
    except SandboxLost:
        raise
    except (SandboxError, ToolError) as failed:
        # the last one failed by itself: what stands there is what stood there
        back = {path: await _is_put_back(context, path, change, stood[path]) for path in done[-2::-1]}
        if lacking := sorted({folder for path in done for folder in stood[path].lacking}, reverse=True):
            await (await context.sandbox()).exec(Command(["rmdir", "--", *lacking]))  # those that are empty
        if left := [path for path, is_back in back.items() if not is_back]:
            raise ToolError(
                f"{failed}; the patch failed in the middle, and these files could not be put back: {', '.join(left)}"
            ) from failed
        raise


async def _is_put_back(context: ToolContext, path: str, change: _Change, stood: _Stood) -> bool:
    content = change.before[path]
    try:
        if stood.link and content is not None and change.after[path] is None:
            await _link(context, path, stood.link, content)
        else:  # through a link, where one leads to it
            await _put(context, stood.real if content is None else path, content, stood.mode)
    except SandboxLost:
        raise
    except (SandboxError, ToolError):
        return False
    return True


async def _link(context: ToolContext, path: str, link: str, content: bytes) -> None:
    """Make a link again to a file that holds this."""
    made = await (await context.sandbox()).exec(Command(["ln", "-s", "--", link, path]))
    if made.exit_code:
        raise ToolError(f"the link {path} could not be made again")
    context.read_digests[path] = digest(content)


async def _put(context: ToolContext, path: str, content: bytes | None, mode: int | None = None) -> None:
    await (remove(context, path) if content is None else store(context, path, content, mode=mode))


def _line(section: Section, before: Contents) -> str:
    match section:
        case Add(path):
            return f"{'A' if before[path] is None else 'M'} {relative(path)}"
        case Delete(path):
            return f"D {relative(path)}"
        case Update(path, _, move_to):
            return f"M {relative(move_to or path)}"
