"""Messages as bytes: one version byte, then msgpack of [body, key id, mac].

The body is the message as a msgpack map; the mac is HMAC-SHA256 over the body's bytes as they came, so that a message
can be passed on, and verified, by those who do not know all its fields. An unsigned message has an empty mac.
Nothing is parsed before its size was checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]
from pydantic import ValidationError

from .errors import DecodeError
from .messages import Message, Signature, TaskProgress, TaskRequest, TaskResult
from .signature import Keyring

VERSION = 1
# Larger things travel as blobs. A request of all fields with a long prompt is about 10 KiB.
MAX_MESSAGE_BYTES = 1024 * 1024
# Deeper nesting than any message of ours has; msgpack's own C stack limit is far higher.
MAX_DEPTH = 32

# msgpack has no type stubs; its own limits on lengths are those of the data, which is measured before
_packb = cast(Callable[..., bytes], msgpack.packb)  # pyright: ignore[reportUnknownMemberType]
_unpackb = cast(Callable[..., Any], msgpack.unpackb)  # pyright: ignore[reportUnknownMemberType]

_KINDS: dict[str, type[Message]] = {"request": TaskRequest, "progress": TaskProgress, "result": TaskResult}


def encode(message: Message, *, keyring: Keyring | None = None) -> bytes:
    """The message's bytes, signed when a keyring is given. `DecodeError` when no reader could read them."""
    try:
        body = _packb(message.model_dump(mode="python", exclude_unset=True), use_bin_type=True)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        # free-form fields (params, structured output) hold what their maker put there
        raise DecodeError(f"a {message.kind} holds a value that cannot travel: {error}") from error
    key_id, mac = keyring.sign(body) if keyring else ("", b"")
    data = bytes([VERSION]) + _packb([body, key_id, mac], use_bin_type=True)
    if len(data) > MAX_MESSAGE_BYTES:
        raise DecodeError(
            f"a {message.kind} of {len(data)} bytes is over the limit of {MAX_MESSAGE_BYTES}",
            hint="pass large texts as blobs: an attachment or a context reference",
        )
    return data


def decode(data: bytes, *, keyring: Keyring | None = None) -> Message:
    """The message in the bytes; `DecodeError` says what is wrong with them.

    With a keyring the signature must be good (`BadSignature`); without, it is only carried along.
    """
    body, key_id, mac = _open(data)
    if keyring is not None:
        keyring.verify(body, key_id, mac)
    fields = _unpack(body)
    if not isinstance(fields, dict):
        raise DecodeError("the message is of no known kind")
    fields = cast(dict[str, Any], fields)
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise DecodeError("the message is of no known kind")
    # what stands beside the body, never what a body says of itself
    fields["signature"] = Signature(key_id=key_id, mac=mac) if mac else None
    try:
        return _KINDS[kind].model_validate(fields)
    except (ValidationError, RecursionError) as error:
        raise DecodeError(f"the message does not fit its schema: {_first_fault(error)}") from error


def decode_request(data: bytes, *, keyring: Keyring | None = None) -> TaskRequest:
    return _expect(TaskRequest, decode(data, keyring=keyring))


def decode_result(data: bytes) -> TaskResult:
    return _expect(TaskResult, decode(data))


def pack_plain(value: Any) -> bytes:
    """Any plain value as msgpack without its bin type, for readers that know only strings (Redis's Lua)."""
    return _packb(value, use_bin_type=False)


M = TypeVar("M", TaskRequest, TaskProgress, TaskResult)


def _expect(kind: type[M], message: Message) -> M:
    if not isinstance(message, kind):
        raise DecodeError(f"expected a {kind.__name__}, got a {type(message).__name__}")
    return message


def _open(data: bytes) -> tuple[bytes, str, bytes]:
    if len(data) > MAX_MESSAGE_BYTES:
        raise DecodeError(f"the message has {len(data)} bytes, over the limit of {MAX_MESSAGE_BYTES}")
    if not data or data[0] != VERSION:
        raise DecodeError(
            f"the message has version {data[0] if data else 'none'}, this reader knows {VERSION}",
            hint="upgrade the older side",
        )
    match _raw(data[1:]):  # flat or refused: its depth needs no look
        case [bytes(body), str(key_id), bytes(mac)]:
            return body, key_id, mac
        case _:
            raise DecodeError("the message is not a body with its signature")


def _raw(data: bytes) -> Any:
    try:
        return _unpackb(data, raw=False, strict_map_key=True)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise DecodeError(f"the message is not msgpack: {error}") from error


def _unpack(data: bytes) -> Any:
    value = _raw(data)
    if _too_deep(value):
        raise DecodeError(f"the message is nested deeper than {MAX_DEPTH} levels")
    return value


def _too_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (cast(dict[str, Any], item).values() if isinstance(item, dict) else cast(list[Any], item))
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _first_fault(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'message'}: {fault['msg']}"
