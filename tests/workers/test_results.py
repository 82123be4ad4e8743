"""What a result carries, and what it only names."""

from __future__ import annotations

import pytest

from envelope.budget import Metrics
from envelope.codec import MAX_MESSAGE_BYTES, decode, encode
from envelope.errors import ErrorCode
from envelope.ids import blob_ref, new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import Attachment, FileStat, Output, PatchRef, TaskResult
from transport.blobs import SMALL_BYTES, MemoryBlobs
from workers.delivery.results import WHOLE_TEXT, that_travels


def result_with(text: str, **fields) -> TaskResult:
    return TaskResult(
        trace_id=new_trace_id(),
        task_id=new_task_id(),
        attempt=1,
        status=State.COMPLETED,
        output=Output(text=text, structured={"steps": [1]}),
        metrics=Metrics(turns=3),
        **fields,
    )


def patch_of(files: int) -> PatchRef:
    stats = tuple(FileStat(path=f"a/long/path/to/some/file/of/the/project/{n}", status="A") for n in range(files))
    return PatchRef(base="b" * 40, diff=blob_ref(b"diff"), files=stats, added=files, tree="t" * 40)


async def test_a_text_up_to_the_limit_stays_where_it_is():
    result, blobs = result_with("x" * SMALL_BYTES), MemoryBlobs()

    assert await that_travels(result, blobs) == result
    assert result.attachments == ()


@pytest.mark.parametrize("letter", ["x", "ä", "語", "🙂"])
async def test_a_long_text_travels_as_an_attachment_and_its_head_says_so(letter):
    text = letter * SMALL_BYTES + letter
    blobs, refused = MemoryBlobs(), Attachment(blob=blob_ref(b"diff"), name="refused.diff")
    sent = await that_travels(result_with(text, attachments=(refused,)), blobs)

    received = decode(encode(sent))
    assert isinstance(received, TaskResult)
    head, _, mark = received.output.text.partition("\n")
    assert text.startswith(head) and len(head) > 1000
    assert mark == f"[… cut here; the whole text, {len(text.encode())} bytes, is the attachment {WHOLE_TEXT}]"
    assert len(received.output.text.encode()) < SMALL_BYTES
    whole, other = received.attachments
    assert (whole.name, whole.size_bytes, other) == (WHOLE_TEXT, len(text.encode()), refused)
    assert (await blobs.get(whole.blob)).decode() == text


async def test_all_else_of_a_result_with_a_long_text_is_as_it_was():
    result = result_with("x" * (MAX_MESSAGE_BYTES + 1), patch=patch_of(3))
    sent = await that_travels(result, MemoryBlobs())

    apart = {"output", "attachments"}
    assert sent.model_dump(exclude=apart) == result.model_dump(exclude=apart)
    assert (sent.status, sent.output.structured) == (State.COMPLETED, {"steps": [1]})


async def test_a_result_that_no_message_can_hold_is_an_error_that_keeps_text_and_diff():
    result, blobs = result_with("y" * 100_000, patch=patch_of(20_000), resume_token="session"), MemoryBlobs()
    sent = await that_travels(result, blobs)

    assert len(encode(sent)) < MAX_MESSAGE_BYTES
    assert (sent.status, sent.errors[0].code) == (State.ERROR, ErrorCode.BAD_INPUT)
    assert "over the limit" in sent.errors[0].message and "split the task" in sent.errors[0].hint
    assert (sent.metrics, sent.resume_token) == (result.metrics, "session")
    assert [attached.name for attached in sent.attachments] == ["patch.diff", WHOLE_TEXT]
    assert await blobs.get(sent.attachments[1].blob) == b"y" * 100_000
