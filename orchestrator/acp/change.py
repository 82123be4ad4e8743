"""The change that a session has made so far, and how it comes into the person's files: only when they say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp import start_tool_call, update_tool_call
from acp.schema import PermissionOption, ToolCallLocation, ToolCallUpdate

from envelope.lifecycle import State
from envelope.messages import TaskResult
from repo.errors import RepoError
from repo.further import Further, further
from repo.local import apply_diff
from transport.errors import NotFound

from ..client import Muster
from ..errors import BadInput
from ..words import counted, short
from .book import Book, Kept
from .calls import diff_content, text_content
from .door import Door
from .texts import fenced, shown

APPLY, LATER = "apply", "later"
OPTIONS = (
    PermissionOption(option_id=APPLY, name="Apply it to my files", kind="allow_once"),
    PermissionOption(option_id=LATER, name="Not now (/apply does it later)", kind="reject_once"),
)
MAX_SHOWN_DIFF_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Change:
    """What the session has changed beyond what is in the files.

    `whole`: the blob of all that it has changed; `applied`: of what was in the files when this was made.
    """

    task_id: str
    applied: str
    whole: str
    further: Further


async def change_of(muster: Muster, kept: Kept) -> Change | None:
    """None when no task of the session has made one, or when all of it is applied."""
    result = await _latest(muster, kept.tasks)
    whole = result.patch.diff if result and result.patch else ""
    if result is None or whole == kept.applied:
        return None
    base = result.patch.base if result.patch else await _base_of(muster, result.task_id)
    before, after = await _blob(muster, kept.applied), await _blob(muster, whole)
    found = await further(Path(kept.root), base, before, after)
    return Change(result.task_id, kept.applied, whole, found) if found.diff else None


async def _latest(muster: Muster, task_ids: Sequence[str]) -> TaskResult | None:
    """Of the last task that says where the work stands: one that completed, or that ended with a patch."""
    for task_id in reversed(task_ids):
        try:
            result = await muster.result(task_id)
        except NotFound:
            continue
        if result is not None and (result.status is State.COMPLETED or result.patch is not None):
            return result
    return None


async def _base_of(muster: Muster, task_id: str) -> str:
    workspace = (await muster.request(task_id)).workspace
    return workspace.base if workspace else ""


async def _blob(muster: Muster, ref: str) -> bytes:
    return await muster.transport.blobs.get(ref) if ref else b""


async def offer(muster: Muster, door: Door, change: Change, book: Book, kept: Kept) -> Kept:
    """Show the change and ask whether it goes into the files; the session as it is after that."""
    call_id = f"change:{short(change.task_id)}"
    content, title = contents(change, Path(kept.root)), f"Apply the change to your files: {_counted(change)}"
    places = [ToolCallLocation(path=str(Path(kept.root) / side.path)) for side in change.further.sides]
    await door.send([start_tool_call(call_id, title, kind="edit", status="pending", content=content, locations=places)])
    about = ToolCallUpdate(tool_call_id=call_id, title=title, kind="edit", content=content, locations=places)
    if await door.until_left(door.choose(about, OPTIONS)) != APPLY:
        not_now = [*content, text_content("Not applied. /apply does it later, /diff shows it again.")]
        await door.send([update_tool_call(call_id, status="completed", content=not_now)])
        return kept
    try:
        applied = await apply(muster, change, book, kept)
    except (RepoError, BadInput) as e:
        said = [*content, text_content(shown(f"{e}\nhint: {e.hint}" if e.hint else str(e)))]
        await door.send([update_tool_call(call_id, status="failed", content=said)])
        await door.say(f"\n\nThe change was not applied: {e}.")
        return kept
    done = [*content, text_content("Applied.")]
    await door.send([update_tool_call(call_id, status="completed", content=done)])
    return applied


async def apply(muster: Muster, change: Change, book: Book, kept: Kept) -> Kept:
    """All of it or nothing goes into the files, once, whoever else is offered it. `PatchRefused` when it does not fit
    them as they are now."""
    async with book.applying():
        now = book.latest(kept)
        left = change if now.applied == change.applied else await _left_of(muster, change, now)
        if left is None:
            return now
        await apply_diff(left.further.diff, Path(kept.root))
        return book.change(kept, lambda now: now.model_copy(update={"applied": left.whole}))


async def _left_of(muster: Muster, change: Change, now: Kept) -> Change | None:
    """What is not in the files yet of a change that was offered before another door applied one; None: nothing.

    `BadInput` when the session has gone on since: nobody has seen what is left by now.
    """
    left = None if now.applied == change.whole else await change_of(muster, now)
    if left is not None and left.whole != change.whole:
        raise BadInput("another change of this session was applied meanwhile", hint="/diff shows what is left of it")
    return left


def contents(change: Change, root: Path) -> list[Any]:
    """The files before and after; of those that have no text, or are too many, a line."""
    shown_files = [
        text_content(f"{shown(side.path)}: binary, or too large to show")
        if side.unread
        else diff_content(str(root / side.path), side.before, side.after or "")
        for side in change.further.sides
    ]
    more = change.further.count - len(change.further.sides)
    return [*shown_files, *([text_content(f"and {counted(more, 'file')} more")] if more else [])]


def as_text(change: Change) -> str:
    """For /diff: as git writes it, unless it is too long for a chat."""
    diff = change.further.diff
    if len(diff) > MAX_SHOWN_DIFF_BYTES:
        return f"The change has {len(diff) // 1024} KiB; see it with: `muster task diff {change.task_id}`"
    return fenced(diff.decode(errors="replace"), "diff")


def _counted(change: Change) -> str:
    return counted(change.further.count, "file")


def require(change: Change | None) -> Change:
    if change is None:
        raise BadInput("there is no change that is not in your files already", hint="ask for one first")
    return change
