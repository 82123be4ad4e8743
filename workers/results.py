"""How an attempt ended, and the TaskResult that says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from envelope.budget import Metrics
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import Attachment, ErrorInfo, FileStat, Output, PatchRef, TaskResult, ToolCallSummary
from envelope.redaction import redact_value
from repo.patch import FileChange, Patch
from transport.base import Blobs, Claim


@dataclass(frozen=True, slots=True)
class Ended:
    """How the work ended, before its patch is taken. No errors: it completed."""

    output: Output = field(default_factory=Output)
    errors: tuple[ErrorInfo, ...] = ()
    tool_calls: tuple[ToolCallSummary, ...] = ()
    resume_token: str = ""


def result_of(
    claim: Claim,
    ended: Ended,
    *,
    metrics: Metrics,
    patch: PatchRef | None = None,
    attachments: tuple[Attachment, ...] = (),
    status: State | None = None,
) -> TaskResult:
    """The one result of a task, with secrets blanked out. `status` is given when it was stopped from outside."""
    lease = claim.lease
    return TaskResult(
        trace_id=lease.trace_id,
        task_id=lease.task_id,
        attempt=lease.attempt,
        status=status or (State.ERROR if ended.errors else State.COMPLETED),
        output=Output.model_validate(_redacted(ended.output)),
        patch=patch,
        attachments=attachments,
        errors=tuple(ErrorInfo.model_validate(_redacted(error)) for error in ended.errors),
        tool_calls=tuple(ToolCallSummary.model_validate(_redacted(call)) for call in ended.tool_calls),
        metrics=metrics,
        resume_token=ended.resume_token,
    )


async def store_patch(blobs: Blobs, patch: Patch) -> PatchRef:
    """The patch as it travels: its diff becomes a blob."""
    files = tuple(_file_stat(change) for change in patch.files)
    return PatchRef(
        base=patch.base,
        diff=await blobs.put(patch.diff),
        files=files,
        added=sum(file.added or 0 for file in files),
        removed=sum(file.removed or 0 for file in files),
        tree=patch.tree,
    )


async def store_refused(blobs: Blobs, patch: Patch) -> tuple[Attachment, ...]:
    """What the patch changes where it may not: kept to be looked at, never merged."""
    if not patch.refused_diff:
        return ()
    blob, size_bytes = await blobs.put(patch.refused_diff), len(patch.refused_diff)
    return (Attachment(blob=blob, name="refused.diff", media_type="text/x-diff", size_bytes=size_bytes),)


def out_of_scope(patch: Patch) -> tuple[ErrorInfo, ...]:
    """The error of a patch that changes what the task's `edit` grants do not cover; nothing when it does not."""
    if not patch.refused:
        return ()
    shown = ", ".join(map(_text, patch.refused[:10])) + (" …" if len(patch.refused) > 10 else "")
    message = f"the task changed {len(patch.refused)} path(s) outside of its edit grants: {shown}"
    return (ErrorInfo.of(ErrorCode.OUT_OF_SCOPE, message, "widen `edit:` in the task's scope, or narrow the task"),)


def _file_stat(change: FileChange) -> FileStat:
    fields = {
        "path": _text(change.path),
        "status": change.status,
        "old_path": _text(change.old_path) if change.old_path is not None else None,
        "added": change.added,
        "removed": change.removed,
    }
    return FileStat.model_validate(fields)


def _text(path: str) -> str:
    """File names need not be UTF-8; what travels is."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _redacted(value: Output | ErrorInfo | ToolCallSummary) -> dict[str, Any]:
    return cast(dict[str, Any], redact_value(value.model_dump()))
