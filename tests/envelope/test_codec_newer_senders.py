"""Bytes as a newer sender would write them, read by today's reader.

The files in `golden/next` were written once, by hand: `schema_version` 2 in the framing of version 1, a new field at
every level, new kinds of event, and new words where today's schema has a closed list.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envelope import events as ev
from envelope.agents import WorkerCard
from envelope.codec import decode, decode_request, decode_result, encode
from envelope.errors import CODES, DecodeError, ErrorCode, Turn
from envelope.messages import TaskRequest
from envelope.signature import Keys

NEXT = Path(__file__).parent / "golden" / "next"
KEYS = Keys("k2", {"k1": b"1" * 32, "k2": b"2" * 32})
NEW_FIELD = "zz_new"


def read(name: str) -> bytes:
    return (NEXT / f"{name}.bin").read_bytes()


def fields_of(data: bytes) -> dict:
    return msgpack.unpackb(msgpack.unpackb(data[1:])[0])


def framed(fields) -> bytes:
    return b"\x01" + msgpack.packb([msgpack.packb(fields), "", b""])


def test_the_files_hold_what_today_is_not_known():
    for name in ("request_signed", "progress", "result"):
        assert NEW_FIELD in fields_of(read(name))
    assert NEW_FIELD in fields_of(read("request_signed"))["budget"]
    assert fields_of(read("request_signed"))["schema_version"] == 2


def test_a_newer_request_is_read_and_its_signature_is_over_all_that_came(samples):
    request = decode_request(read("request_signed"), keyring=KEYS)

    assert request.schema_version == 2
    assert request.model_dump(exclude={"schema_version"}) == samples.request.model_dump(exclude={"schema_version"})


def test_a_newer_progress_is_read_with_every_event_in_its_place(samples):
    progress = decode(read("progress"))

    known = [event for event in samples.progress.events if not isinstance(event, ev.UnknownEvent)]
    assert list(progress.events[: len(known)]) == known
    assert [type(event) for event in progress.events[len(known) :]] == [ev.Resynced, *[ev.UnknownEvent] * 3]
    assert progress.metrics == samples.progress.metrics


def test_what_is_not_known_is_written_again_as_it_came():
    came = fields_of(read("progress"))["events"][-3:]

    written = fields_of(encode(decode(read("progress"))))["events"][-3:]

    assert [event["kind"] for event in came] == ["teleported", "budget", "state"]
    assert written == came
    assert decode(encode(decode(read("progress")))) == decode(read("progress"))


def test_a_newer_result_is_never_lost_over_a_word(samples):
    result = decode_result(read("result"))
    *known, newer = result.errors

    assert tuple(known) == samples.result.errors
    assert (newer.code, newer.turn, newer.retryable) == (ErrorCode.UNKNOWN, Turn.MUSTER, True)
    assert (newer.message, newer.hint) == ("quota_of_the_moon: no cheese is left", "wait")
    assert [(file.path, file.status) for file in result.patch.files] == [("a.py", "M"), ("b.bin", "R"), ("d.py", "M")]
    assert result.output == samples.result.output


def test_the_code_of_an_unknown_error_has_its_row_in_the_table():
    assert CODES[ErrorCode.UNKNOWN].retryable is False


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("framing_2", "version 2, this reader knows 1"),
        ("message_of_a_new_kind", "no known kind"),
        ("state_of_a_new_name", "status: "),
    ],
)
def test_what_must_not_be_guessed_is_refused_with_the_reason(name, reason):
    with pytest.raises(DecodeError, match=reason):
        decode(read(name))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", "urgent"),
        ("context_refs", [{"type": "dream", "id": "x"}]),
    ],
)
def test_a_request_that_asks_for_something_new_is_refused_rather_than_half_done(samples, field, value):
    fields = {**samples.request.model_dump(mode="json", exclude_unset=True), field: value}

    with pytest.raises(DecodeError, match=field):
        decode(framed(fields))


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "budget", "limit": "watts", "spent": "much", "allowed": 2},
        {"kind": "budget", "limit": 5, "spent": 1, "allowed": 2},
        {"kind": "text"},
    ],
)
def test_an_event_that_is_simply_wrong_is_not_taken_for_a_newer_one(samples, event):
    fields = {**samples.progress.model_dump(mode="json", exclude_unset=True), "events": [event]}

    with pytest.raises(DecodeError, match=r"events\.0"):
        decode(framed(fields))


# What people and models put in there is theirs, and an event that is not known keeps every field.
FREE_FORM = ("params", "structured", "output_schema", "events")


def grown(value, extra, name=""):
    """The same with one field more in every map of the schema."""
    if name in FREE_FORM:
        return value
    if isinstance(value, dict):
        return {**{key: grown(inner, extra, key) for key, inner in value.items()}, NEW_FIELD: extra}
    return [grown(inner, extra) for inner in value] if isinstance(value, list) else value


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_new_field_at_any_place_changes_nothing_of_what_is_known(strategies, data):
    message, extra = data.draw(strategies.messages), data.draw(strategies.plain)

    came = decode(framed(grown(fields_of(encode(message)), extra)))

    assert came.model_dump() == message.model_dump()


def test_a_newer_senders_own_class_travels_with_all_its_fields(samples):
    class NewerRequest(TaskRequest):
        mood: str = ""

    newer = NewerRequest.model_validate({**samples.request.model_dump(exclude_unset=True), "mood": "sunny"})
    data = encode(newer, keyring=KEYS)

    assert fields_of(data)["mood"] == "sunny"
    assert decode_request(data, keyring=KEYS).task_id == newer.task_id


def test_a_newer_workers_card_is_read():
    card = {"worker": "w", "pool": "build", "slots": 1, "arms": 8}
    agents = [{"name": "swarm", "mode": "hive", "pool": "build", "queen": True}]

    read_card = WorkerCard.model_validate_json(json.dumps({**card, "agents": agents}))

    assert [(agent.name, agent.mode) for agent in read_card.agents] == [("swarm", "hive")]
