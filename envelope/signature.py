"""Signed messages: HMAC-SHA256 under a key with a name, so that keys can be changed while messages are under way."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import BadSignature


@dataclass(frozen=True, slots=True)
class Keyring:
    """`current` signs; every key in `keys` verifies. To rotate: add a key, make it current, drop the old one later."""

    current: str
    keys: Mapping[str, bytes] = field(repr=False)

    def sign(self, body: bytes) -> tuple[str, bytes]:
        return self.current, hmac.digest(self.keys[self.current], body, hashlib.sha256)

    def verify(self, body: bytes, key_id: str, mac: bytes) -> None:
        """Raise `BadSignature` unless the body was signed under a key of ours."""
        key = self.keys.get(key_id)
        if key is None:
            raise BadSignature(
                f"the message is signed with {key_id!r}, a key that is not known here"
                if mac
                else "the message is unsigned",
                hint="give the sender and the reader the same keyring",
            )
        if not hmac.compare_digest(hmac.digest(key, body, hashlib.sha256), mac):
            raise BadSignature("the message's signature does not fit its content")
