"""How an attempt ended, and the TaskResult that says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from envelope.budget import Metrics
from envelope.codec import encode
from envelope.errors import CODES, DecodeError, ErrorCode
from envelope.lifecycle import State
from envelope.messages import Attachment, ErrorInfo, FileStat, Output, PatchRef, Provenance, TaskResult, ToolCallSummary
from envelope.redaction import redact_value
from repo.patch import FileChange, Patch
from transport.base import Claim
from transport.blobs import SMALL_BYTES
from transport.blobs.base import Blobs

DIFF = "text/x-diff"
# A text over SMALL_BYTES as an attachment of the result, and what stays of it in the result itself: enough to see what
# the task said, and, with the mark behind it, below SMALL_BYTES.
WHOLE_TEXT = "output.txt"
HEAD_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """How the work ended, before its patch is taken. No errors: it completed."""

    output: Output = field(default_factory=Output)
    errors: tuple[ErrorInfo, ...] = ()
    tool_calls: tuple[ToolCallSummary, ...] = ()
    resume_token: str = ""
    attachments: tuple[Attachment, ...] = ()
    next_agent: str = ""


def result_of(
    claim: Claim,
    outcome: TaskOutcome,
    *,
    metrics: Metrics,
    patch: PatchRef | None = None,
    attachments: tuple[Attachment, ...] = (),
    provenance: tuple[Provenance, ...] = (),
) -> TaskResult:
    """The one result of a task, with secrets blanked out; its first error says which state it ends in."""
    lease = claim.lease
    return TaskResult(
        trace_id=lease.trace_id,
        task_id=lease.task_id,
        attempt=lease.attempt,
        status=CODES[outcome.errors[0].code].state if outcome.errors else State.COMPLETED,
        output=Output.model_validate(_redacted(outcome.output)),
        patch=patch,
        attachments=(*outcome.attachments, *attachments),
        provenance=tuple(Provenance.model_validate(_redacted(place)) for place in provenance),
        errors=tuple(ErrorInfo.model_validate(_redacted(error)) for error in outcome.errors),
        tool_calls=tuple(ToolCallSummary.model_validate(_redacted(call)) for call in outcome.tool_calls),
        metrics=metrics,
        resume_token=outcome.resume_token,
        next_agent=outcome.next_agent,
    )


async def that_travels(result: TaskResult, blobs: Blobs) -> TaskResult:
    """The result as a message can hold it: a long text stands in an attachment, and only its head in `output.text`.

    What is still too large (thousands of changed files) becomes an error in its place, with what fits of it.
    """
    return _within_limit(await _long_text_apart(result, blobs))


async def _long_text_apart(result: TaskResult, blobs: Blobs) -> TaskResult:
    text = result.output.text.encode("utf-8", "replace")  # a lone surrogate, out of a file name, cannot be stored
    if len(text) <= SMALL_BYTES:
        return result
    head = text[:HEAD_BYTES].decode("utf-8", "ignore")
    mark = f"\n[… cut here; the whole text, {len(text)} bytes, is the attachment {WHOLE_TEXT}]"
    whole = Attachment(blob=await blobs.put(text), name=WHOLE_TEXT, media_type="text/plain", size_bytes=len(text))
    output = result.output.model_copy(update={"text": head + mark})
    return result.model_copy(update={"output": output, "attachments": (whole, *result.attachments)})


def _within_limit(result: TaskResult) -> TaskResult:
    try:
        encode(result)
    except DecodeError as e:
        return _in_its_place(result, e)
    return result


def _in_its_place(result: TaskResult, fault: DecodeError) -> TaskResult:
    error = ErrorInfo.of(ErrorCode.BAD_INPUT, fault.message, "split the task: fewer commands, or fewer files for each")
    patch = (Attachment(blob=result.patch.diff, name="patch.diff", media_type=DIFF),) if result.patch else ()
    return TaskResult(
        trace_id=result.trace_id,
        task_id=result.task_id,
        attempt=result.attempt,
        status=CODES[error.code].state,
        output=Output(text=result.output.text),
        attachments=(*patch, *result.attachments),
        errors=(error,),
        metrics=result.metrics,
        resume_token=result.resume_token,
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
    return (Attachment(blob=blob, name="refused.diff", media_type=DIFF, size_bytes=size_bytes),)


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


def _redacted(value: Output | ErrorInfo | Provenance | ToolCallSummary) -> dict[str, Any]:
    return cast(dict[str, Any], redact_value(value.model_dump()))
