"""What no honest sender writes: msgpack's odd corners, wrong types, and signed bytes that somebody changed."""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import math
import random
import sys
import tracemalloc
from pathlib import Path

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envelope.codec import MAX_MESSAGE_BYTES, decode, decode_request, encode
from envelope.errors import BadSignature, DecodeError, EnvelopeError
from envelope.messages import TaskInput, TaskProgress, TaskRequest, TaskResult
from envelope.signature import MIN_KEY_BYTES, Keys

KEYS = Keys("k2", {"k1": b"1" * 32, "k2": b"2" * 32})
QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def framed(body: bytes, key_id="", mac=b"") -> bytes:
    return b"\x01" + msgpack.packb([body, key_id, mac])


def body_with(samples, field: str, value: bytes) -> bytes:
    """A request's body with one field's value given as raw msgpack."""
    fields = {**samples.request.model_dump(mode="json", exclude_unset=True)}
    fields.pop(field, None)
    packed = [msgpack.packb(name) + msgpack.packb(inner) for name, inner in fields.items()]
    packed.append(msgpack.packb(field) + value)
    return b"\xde" + len(packed).to_bytes(2) + b"".join(packed)


def test_the_helper_writes_a_body_that_is_read(samples):
    assert decode(framed(body_with(samples, "sender", b"\xa1x"))).sender == "x"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "msgpack"),
        (b"\xc1", "its bytes are no value"),
        (b"\xdd\xff\xff\xff\xff", "msgpack"),
        (b"\xdf\xff\xff\xff\xff", "msgpack"),
        (b"\xdb\xff\xff\xff\xff" + b"x" * 20, "msgpack"),
        (b"\xc6\xff\xff\xff\xff" + b"x" * 20, "msgpack"),
        (b"\xc9\xff\xff\xff\xff\x05" + b"x" * 20, "msgpack"),
        (b"\xd4\x05x", "extension"),
        (b"\x81\xa4kind\xd4\x05x", "extension"),
        (b"\xd7\xff" + b"\xff" * 8, "msgpack"),
        (b"\xc7\x05\xff" + b"\xff" * 5, "msgpack"),
        (b"\x81\xa4kind\xa2\xff\xfe", "msgpack"),
        (b"\x81\xa2\xff\xfe\x01", "msgpack"),
        (b"\x81\xc4\x04kind\xa7request", "no known kind"),
        (b"\x81\xa4kind\xc4\x07request", "no known kind"),
        (b"\x81\xa4kind\xd6\xff\x00\x00\x00\x01", "no known kind"),
        (b"\x81\x91\x01\x01", "msgpack"),
        (b"\x81\xc0\x01", "msgpack"),
        (b"\x81\xa4kind\xa7request\xc0", "msgpack"),
        (b"\xc0", "not a map"),
        (b"\xa7request", "not a map"),
    ],
)
def test_an_odd_body_is_refused_with_a_sentence(body, reason):
    with pytest.raises(DecodeError, match=reason) as refusal:
        decode(framed(body))
    assert "\n" not in refusal.value.message


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc0",
        b"\x93",
        b"\x93\xc4\x00\xa0",
        b"\x92\xc4\x00\xa0",
        b"\x94\xc4\x00\xa0\xc4\x00\xc0",
        b"\x93\xa0\xa0\xc4\x00",
        b"\x93\xc4\x00\xc4\x00\xc4\x00",
        b"\x93\xc4\x00\xa0\xa0",
        b"\x83\xc4\x00\xa0\xc4\x00\xc4\x01a\xa0",
        b"\xdd\x00\x0f\x00\x00" * 200_000,
        b"\x93" * 100_000,
        b"\x93\xc4\x00\xa0\xc4\x00\xc0",
    ],
    ids=lambda frame: f"{frame[:8].hex()}-{len(frame)}",
)
def test_an_odd_frame_is_refused(frame):
    for keyring in (None, KEYS):
        with pytest.raises(DecodeError):
            decode(b"\x01" + frame, keyring=keyring)


@pytest.mark.parametrize("head", [b"\xdd\x00\x0f\x00\x00", b"\xdf\x00\x07\x00\x00\xa1a", b"\x91", b"\x81\xa1a"])
def test_lengths_that_are_claimed_but_not_there_take_little_memory(head):
    body = head * ((MAX_MESSAGE_BYTES - 100) // len(head))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode(framed(body))
        # A million places for each of msgpack's 1,023 levels would be 8 GiB; it reserves no more than it has seen, and
        # at most 80 KiB beforehand.
        assert tracemalloc.get_traced_memory()[1] < 128 * MAX_MESSAGE_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("deadline_ms", b"\xcb\x7f\xf8" + bytes(6)),  # not a number
        ("deadline_ms", b"\xcb\x7f\xf0" + bytes(6)),  # infinite
        ("deadline_ms", b"\xcf" + b"\xff" * 8),
        ("deadline_ms", b"\xd3\x80" + bytes(7)),
        ("created_at_ms", b"\xc4\x01\xff"),
        ("sender", b"\xc4\x01\xff"),
        ("sender", b"\x01"),
        ("budget", b"\x90"),
        ("auth_scope", b"\xa1x"),
        ("input", b"\xc0"),
        ("task_id", b"\xa0"),
        ("schema_version", b"\xa3one"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_field_named(samples, field, value):
    with pytest.raises(DecodeError, match=f"does not fit its schema: {field}"):
        decode(framed(body_with(samples, field, value)))


def test_of_two_fields_of_one_name_the_last_counts(samples):
    """As everywhere in msgpack; the signature is over both."""
    body = body_with(samples, "sender", b"\xa1x")
    doubled = b"\xde" + (int.from_bytes(body[1:3]) + 1).to_bytes(2) + body[3:] + b"\xa6sender\xa1y"

    assert decode_request(framed(doubled, *KEYS.sign(doubled)), keyring=KEYS).sender == "y"


def test_what_is_no_number_travels_in_free_form_only(samples):
    request = samples.request.model_copy(update={"input": TaskInput(params={"v": math.nan, "w": -math.inf})})

    params = decode(encode(request)).input.params

    assert math.isnan(params["v"])
    assert params["w"] == -math.inf


def test_a_timestamp_of_msgpacks_own_is_a_number_of_seconds(samples):
    packed = msgpack.packb({"params": {"at": msgpack.Timestamp(1_700_000_000, 500_000_000)}})

    assert decode(framed(body_with(samples, "input", packed))).input.params == {"at": 1_700_000_000.5}


# -- signed bytes


@given(data=st.data())
@settings(QUIET, max_examples=400)
def test_no_change_of_signed_bytes_passes_for_another_message(samples, data):
    signed = encode(samples.request, keyring=KEYS)
    start = data.draw(st.integers(0, len(signed)))
    end = data.draw(st.integers(start, min(len(signed), start + 40)))
    changed = signed[:start] + data.draw(st.binary(max_size=40)) + signed[end:]

    try:
        came = decode(changed, keyring=KEYS)
    except EnvelopeError:
        return
    assert came == decode(signed, keyring=KEYS)


def test_a_signature_is_of_one_body_and_one_key(samples):
    body = msgpack.unpackb(encode(samples.request)[1:])[0]
    _, mac = KEYS.sign(body)

    for forged in (
        framed(body, "k1", mac),
        framed(body, "k2", mac[:-1]),
        framed(body, "k2", b""),
        framed(body, "", mac),
        framed(body, "k2", mac + b"\0"),
        framed(body + b"\0", "k2", mac),
    ):
        with pytest.raises(BadSignature):
            decode(forged, keyring=KEYS)


def test_a_forged_body_is_not_even_looked_at():
    with pytest.raises(BadSignature):
        decode(framed(b"\xc1 no msgpack at all", "k2", b"0" * 32), keyring=KEYS)


@given(key=st.binary(min_size=MIN_KEY_BYTES, max_size=100), body=st.binary(max_size=200))
def test_a_signature_is_hmac_sha256_as_others_compute_it(key, body):
    assert Keys("k", {"k": key}).sign(body) == ("k", hmac.digest(key, body, hashlib.sha256))


@pytest.mark.parametrize(
    ("current", "keys"),
    [("k2", {"k1": b"1" * 32}), ("k1", {"k1": b"1" * (MIN_KEY_BYTES - 1)}), ("", {"": b"1" * 32}), ("k1", {})],
)
def test_a_keyring_that_protects_nothing_is_refused(current, keys):
    with pytest.raises(ValueError, match="key"):
        Keys(current, keys)


# -- the fuzzer


@pytest.fixture(scope="module")
def fuzz():
    spec = importlib.util.spec_from_file_location("fuzz_codec", Path(__file__).parent / "fuzz_codec.py")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


@given(seed=st.integers(0, 2**32))
@settings(QUIET, max_examples=300)
def test_the_fuzzers_inputs_are_messages_or_refused(fuzz, seed):
    chance = random.Random(seed)

    fuzz.look(fuzz.mutated(chance.choice(fuzz.seeds()), chance))


def test_the_fuzzer_reaches_messages_of_every_kind_and_both_refusals(fuzz):
    fuzz.outcomes.clear()
    chance, seeds = random.Random(1), fuzz.seeds()

    for _ in range(3_000):
        fuzz.look(fuzz.mutated(chance.choice(seeds), chance))

    reached = {kind.__name__ for kind in (TaskRequest, TaskProgress, TaskResult, DecodeError, BadSignature)}
    assert set(fuzz.outcomes) == reached
