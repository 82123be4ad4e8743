"""Bytes and back: every message, every event, and everything that is neither."""

from __future__ import annotations

from pathlib import Path

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envelope import events as ev
from envelope.asks import AskTerms
from envelope.codec import (
    MAX_DEPTH,
    MAX_MESSAGE_BYTES,
    decode,
    decode_request,
    decode_result,
    encode,
    pack_plain,
)
from envelope.errors import BadSignature, DecodeError, EnvelopeError
from envelope.messages import Output, TaskInput, TaskRequest
from envelope.signature import Keys

GOLDEN = Path(__file__).parent / "golden"
KEYRING = Keys("k2", {"k1": b"1" * 32, "k2": b"2" * 32})


def framed(body: bytes, key_id="", mac=b"", version=1) -> bytes:
    return bytes([version]) + msgpack.packb([body, key_id, mac], use_bin_type=True)


def framed_fields(fields) -> bytes:
    return framed(msgpack.packb(fields, use_bin_type=True))


# -- there and back


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_message_comes_back_as_it_was(strategies, data):
    message = data.draw(strategies.messages)

    assert decode(encode(message)) == message
    assert decode(encode(message, keyring=KEYRING), keyring=KEYRING).model_dump() == message.model_dump()


# Fields that are younger than the golden bytes.
LATER = {
    "request": {
        "asks": AskTerms(timeout_ms=60_000, project="p", approved=("bash:git log *",)),
        "tracestate": "a=1",
        "read_only": True,
    },
    "result": {"next_agent": "build"},
}


@pytest.mark.parametrize("name", ["request", "progress", "result"])
def test_messages_with_every_field_set_come_back(samples, name):
    message = getattr(samples, name).model_copy(update=LATER.get(name, {}))

    assert message.model_fields_set >= set(type(message).model_fields) - {"signature", "schema_version", "kind"}
    assert decode(encode(message)) == message


def test_the_samples_hold_every_kind_of_event(samples):
    assert {type(event) for event in samples.events} == {*ev.KNOWN, ev.UnknownEvent}


@pytest.mark.parametrize("name", ["request", "progress", "result"])
def test_golden_bytes_stay_readable_for_ever(samples, name):
    """Written once; never write them again: they are what older members of a fleet send."""
    data = (GOLDEN / f"{name}.bin").read_bytes()

    assert decode(data) == getattr(samples, name)


def test_a_golden_signature_stays_valid(samples):
    request = decode_request((GOLDEN / "request_signed.bin").read_bytes(), keyring=KEYRING)

    assert request.signature.key_id == "k2"
    assert request.model_dump() == samples.request.model_dump()


def test_an_event_of_a_newer_sender_is_kept_and_written_again_as_it_came(samples):
    fields = samples.progress.model_dump(mode="python", exclude_unset=True)
    came = {"kind": "teleported", "to": "mars", "data": [1, 2]}
    fields["events"] = [came]

    message = decode(framed_fields(fields))

    [event] = message.events
    assert (event.kind, event.data) == ("teleported", {"to": "mars", "data": [1, 2]})
    assert event.model_dump(exclude_unset=True) == came
    assert decode(encode(message)) == message


def test_fields_of_a_newer_sender_are_ignored(samples):
    fields = {**samples.result.model_dump(mode="python", exclude_unset=True), "mood": "sunny"}

    assert decode(framed_fields(fields)) == samples.result


def test_fields_that_were_not_set_do_not_travel():
    event = ev.TextDelta(text="x")

    assert event.model_dump(exclude_unset=True) == {"kind": "text", "text": "x"}


def test_plain_values_are_packed_for_readers_without_a_bin_type():
    assert msgpack.unpackb(pack_plain({"a": b"\xff", "n": 1}), raw=True) == {b"a": b"\xff", b"n": 1}


# -- signatures


def test_a_message_signed_with_an_older_key_is_still_good(samples):
    data = encode(samples.request, keyring=Keys("k1", KEYRING.keys))

    assert decode_request(data, keyring=KEYRING).signature.key_id == "k1"


def test_an_unsigned_message_is_refused_where_a_signature_is_asked_for(samples):
    with pytest.raises(BadSignature, match="unsigned"):
        decode(encode(samples.request), keyring=KEYRING)


def test_a_key_that_is_not_known_is_refused(samples):
    with pytest.raises(BadSignature, match="not known"):
        decode(encode(samples.request, keyring=Keys("k9", {"k9": b"9" * 32})), keyring=KEYRING)


def test_a_changed_body_is_refused(samples):
    data = encode(samples.request, keyring=KEYRING)
    body, key_id, mac = msgpack.unpackb(data[1:])

    with pytest.raises(BadSignature, match="does not fit"):
        decode(framed(body.replace(b"do it", b"undo!"[:5]), key_id, mac), keyring=KEYRING)


@given(at=st.integers(0), bit=st.integers(0, 7))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_flipped_bit_passes_for_the_signed_message(samples, at, bit):
    data = bytearray(encode(samples.request, keyring=KEYRING))
    data[at % len(data)] ^= 1 << bit

    with pytest.raises(EnvelopeError):
        decode(bytes(data), keyring=KEYRING)


def test_a_signature_inside_a_body_is_not_believed(samples):
    fields = {**samples.request.model_dump(exclude_unset=True), "signature": {"key_id": "k2", "mac": b"x"}}

    assert decode_request(framed_fields(fields)).signature is None


def test_a_keyring_does_not_show_its_keys():
    assert "1111" not in repr(KEYRING)


# -- what is no message


@given(data=st.binary(max_size=300) | st.binary(max_size=300).map(lambda tail: b"\x01" + tail))
@settings(max_examples=500, deadline=None)
def test_arbitrary_bytes_are_refused_and_never_crash(data):
    with pytest.raises(DecodeError):
        decode(data)


@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_bodies_are_refused_or_read_and_never_crash(strategies, data):
    kind = data.draw(st.sampled_from(["request", "progress", "result"]) | strategies.plain)
    fields = {**data.draw(st.dictionaries(st.sampled_from(["task_id", "events", "status", "x"]), strategies.plain))}
    body = data.draw(st.just({"kind": kind, **fields}) | strategies.plain)

    with pytest.raises(DecodeError):
        decode(framed_fields(body))


@pytest.mark.parametrize("name", ["request", "progress", "result"])
def test_a_truncated_message_is_refused_wherever_it_ends(samples, name):
    data = encode(getattr(samples, name))

    for length in range(len(data)):
        with pytest.raises(DecodeError):
            decode(data[:length])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "version none"),
        (framed(b"", version=2), "version 2"),
        (b"\x01" + b"x" * MAX_MESSAGE_BYTES, "over the limit"),
        (b"\x01" + msgpack.packb([1, 2, 3]), "body with its signature"),
        (framed(msgpack.packb([])), "not a map"),
        (framed(msgpack.packb({"kind": "letter"})), "no known kind"),
        (framed(msgpack.packb({"kind": ["request"]})), "no known kind"),
        (framed(msgpack.packb({"kind": "request"})), "does not fit its schema: task_id"),
        (framed(b"\x91" * 200 + b"\x90"), "not a map"),
        (framed(b"\x81\xa1a" + b"\x91" * 200 + b"\x90"), "nested deeper"),
        (framed(b"\x91" * 100_000 + b"\x90"), "msgpack|nested"),
        (framed(msgpack.packb({1: 2})), "msgpack"),
    ],
)
def test_what_is_wrong_with_the_bytes_is_said(data, reason):
    with pytest.raises(DecodeError, match=reason):
        decode(data)


def test_values_may_be_nested_as_deep_as_the_limit_and_no_deeper(samples):
    def deep(levels: int) -> TaskRequest:
        value: object = 1
        for _ in range(levels):
            value = [value]
        return samples.request.model_copy(update={"input": TaskInput(params={"v": value})})

    fits = MAX_DEPTH - 3  # the body, `input` and `params` are maps around it

    assert decode(encode(deep(fits))) == deep(fits)
    with pytest.raises(DecodeError, match="nested"):
        decode(encode(deep(fits + 1)))


def test_a_message_too_large_to_be_read_is_not_written(samples):
    large = samples.result.model_copy(update={"output": Output(text="x" * MAX_MESSAGE_BYTES)})

    with pytest.raises(DecodeError, match="over the limit") as refusal:
        encode(large)
    assert "blob" in refusal.value.hint


@pytest.mark.parametrize("value", [2**70, {1, 2}, "\ud800", object()])
def test_a_value_that_cannot_travel_is_refused_when_it_is_written(samples, value):
    message = samples.request.model_copy(update={"input": TaskInput.model_construct(params={"v": value})})

    with pytest.raises(DecodeError):
        encode(message)


def test_a_message_of_another_kind_is_refused_with_both_names(samples):
    with pytest.raises(DecodeError, match="TaskResult, got a TaskRequest"):
        decode_result(encode(samples.request))
    with pytest.raises(DecodeError, match="TaskRequest, got a TaskProgress"):
        decode_request(encode(samples.progress))
