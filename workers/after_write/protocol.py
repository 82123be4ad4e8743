"""Messages of the Language Server Protocol as bytes. Pure.

Source: the specification's base protocol: a header with `Content-Length`, an empty line, that many bytes of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from sandbox.base import MIB

from ..duck import is_light

Message = dict[str, Any]
# What a server says of one file is far less; a larger message is a server gone wrong.
MAX_BODY_BYTES = 16 * MIB
MAX_HEADER_BYTES = 4096
MAX_VALUES = 100_000  # of ten thousand diagnostics


class BadMessage(Exception):
    """Not the protocol: the conversation is over."""


def encode(message: Message) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def take_messages(buffer: bytearray) -> Iterator[Message]:
    """Whole messages, off the front of `buffer`."""
    while (end := buffer.find(b"\r\n\r\n")) >= 0:
        length, start = _length(bytes(buffer[:end])), end + 4
        if len(buffer) < start + length:
            return
        body = bytes(buffer[start : start + length])
        del buffer[: start + length]
        yield _message(body)
    if len(buffer) > MAX_HEADER_BYTES:
        raise BadMessage("a header without an end")


def _length(header: bytes) -> int:
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit() and len(value) < 12:
            if int(value) > MAX_BODY_BYTES:
                break
            return int(value)
    raise BadMessage(f"no usable length in {header[:200]!r}")


def _message(body: bytes) -> Message:
    if not is_light(body, MAX_VALUES):
        raise BadMessage(f"a message of more than {MAX_VALUES} values")
    try:
        message: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadMessage("a body that is no JSON") from error
    if not isinstance(message, dict):
        raise BadMessage("a body that is no object")
    return cast(Message, message)
