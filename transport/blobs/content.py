"""What every store asks of a blob: that it is not too large, and that it is what its name says."""

from __future__ import annotations

import re

from envelope.ids import blob_ref

from ..errors import NotFound, Refused, TransportError

# A bundle of a big repository. A blob is held in memory by whoever puts or reads it: some at a time must fit.
MAX_BLOB_BYTES = 256 * 1024 * 1024
SMALLER = "have less in one file or repository: what is generated ignored, large files in git LFS"
# The size above which values travel as blobs at all: what is smaller costs Redis no more than its own envelope.
SMALL_BYTES = 32 * 1024

_REF = re.compile(r"sha256:([0-9a-f]{64})")


def check_size(content: bytes) -> None:
    """`Refused` over MAX_BLOB_BYTES."""
    if len(content) > MAX_BLOB_BYTES:
        raise Refused("blob", f"{len(content)} bytes are over the limit of {MAX_BLOB_BYTES}", hint=SMALLER)


def checked(ref: str, content: bytes) -> bytes:
    """The content, when it is what its name says."""
    if blob_ref(content) != ref:
        raise TransportError(f"the blob {ref} was changed in its store", hint="restore it, or run the task again")
    return content


def digest_of(ref: str) -> str:
    """The 64 hex digits of a reference; `NotFound` for anything else.

    References come out of envelopes: one that is no digest must never become a path.
    """
    found = _REF.fullmatch(ref)
    if found is None:
        raise missing(ref)
    return found[1]


def missing(ref: str) -> NotFound:
    return NotFound(f"there is no blob {ref}", hint="it was never stored, or not used for longer than its life")
