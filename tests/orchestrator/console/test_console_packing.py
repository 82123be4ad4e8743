"""Messages that are compressed each by itself: any of them are one stream, which can be read as it comes."""

from __future__ import annotations

import gzip
import random
import zlib

from orchestrator.api.console.packing import Message, Packing

MESSAGES = [Message.of(f"id: {number}\ndata: {'row ' * number} ü\n\n") for number in range(1, 200)]


def test_any_messages_are_a_whole_gzip_stream():
    for seed in range(20):
        told = random.Random(seed).choices(MESSAGES, k=seed + 1)
        packing = Packing(gzip=True)
        sent = b"".join(packing.bytes_of(one) for one in told) + packing.end()
        assert gzip.decompress(sent) == b"".join(one.text for one in told)


def test_each_message_is_there_as_soon_as_it_was_sent_and_is_packed_once():
    one, other, reading = Packing(gzip=True), Packing(gzip=True), zlib.decompressobj(wbits=31)
    for message in MESSAGES:
        assert reading.decompress(one.bytes_of(message)) == message.text
        other.bytes_of(message)
    assert MESSAGES[50].packed is MESSAGES[50].packed
    assert other.headers["Content-Encoding"] == "gzip"


def test_who_does_not_unpack_is_sent_the_text():
    packing = Packing(gzip=False)
    assert packing.bytes_of(MESSAGES[0]) + packing.end() == MESSAGES[0].text
    assert "Content-Encoding" not in packing.headers
