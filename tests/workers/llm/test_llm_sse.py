"""Server-sent events, in whatever pieces they come."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.llm.sse import EventParser, TooLong

STREAM = (
    b"\xef\xbb\xbf: a comment\n\nevent: first\ndata: {1}\n\ndata:two\r\ndata: lines\r\nid: 7\r\n\r\n"
    b"retry: 5\rdata: \xc3\xa9\r\rdata\n\ndata: last\n\n"
)
EVENTS = [b"{1}", b"two\nlines", b"\xc3\xa9", b"last"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_events_are_the_same_however_the_stream_is_cut(cuts):
    parser = EventParser()
    borders = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in itertools.pairwise(borders)]

    assert [event for piece in pieces for event in parser.feed(piece)] + parser.end() == EVENTS


def test_byte_by_byte_is_no_different():
    parser = EventParser()

    assert [event for byte in STREAM for event in parser.feed(bytes([byte]))] == EVENTS


def test_the_last_event_needs_no_empty_line():
    parser = EventParser()

    assert parser.feed(b"data: [DO") + parser.feed(b"NE]") == []
    assert parser.end() == [b"[DONE]"]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 100, b"x" * 100, b"data: x\n" * 20])
def test_an_event_without_an_end_is_refused_before_it_fills_the_memory(piece):
    parser = EventParser(max_event_bytes=1000)

    with pytest.raises(TooLong):
        for _ in range(100):
            parser.feed(piece)


@pytest.mark.parametrize("piece", [b"x", b"data:\n" * 5_000])
def test_an_event_in_thousands_of_pieces_is_read_in_reasonable_time(piece):
    parser, began_s = EventParser(), time.process_time()

    for _ in range(30_000 if len(piece) == 1 else 200):
        parser.feed(piece)

    assert time.process_time() - began_s < 2
