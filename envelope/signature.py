"""Signed messages: HMAC-SHA256 under a key with a name, so that keys can be changed while messages are under way."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from .errors import BadSignature

# HMAC is no stronger than its key (RFC 2104), and an empty one is anybody's; ours have 32 bytes.
MIN_KEY_BYTES = 16


class Keyring(Protocol):
    """Signs what is sent and verifies what came. All processes of a fleet hold the same keys."""

    def sign(self, body: bytes) -> tuple[str, bytes]:
        """The id of the key that signs, and the body's mac under it."""
        ...

    def verify(self, body: bytes, key_id: str, mac: bytes) -> None:
        """Raise `BadSignature` unless the body was signed under a key of ours."""
        ...


@dataclass(frozen=True, slots=True)
class Keys:
    """A keyring that never changes: `current` signs, every key in `keys` verifies. `ValueError` for weak keys.

    To rotate: add a key, make it current, drop the old one when nothing that it signed is under way any more.
    """

    current: str
    keys: Mapping[str, bytes] = field(repr=False)
    # Begun with the key's own two blocks and copied for each message: hmac.digest would hash those every time.
    _begun: Mapping[str, hmac.HMAC] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.current not in self.keys:
            raise ValueError(f"the key {self.current!r}, which is to sign, is missing")
        if any(not key_id or len(key) < MIN_KEY_BYTES for key_id, key in self.keys.items()):
            raise ValueError(f"a key has an id and at least {MIN_KEY_BYTES} bytes")
        begun = {key_id: hmac.new(key, digestmod="sha256") for key_id, key in self.keys.items()}
        object.__setattr__(self, "_begun", begun)

    def sign(self, body: bytes) -> tuple[str, bytes]:
        return self.current, self._mac(self._begun[self.current], body)

    def verify(self, body: bytes, key_id: str, mac: bytes) -> None:
        """`BadSignature` says whether the key is not known here, nothing is signed, or the content is another."""
        begun = self._begun.get(key_id)
        if begun is None:
            raise BadSignature(
                f"the message is signed with {key_id!r}, a key that is not known here"
                if mac
                else "the message is unsigned",
                hint="give the sender and the reader the same keyring",
            )
        if not hmac.compare_digest(self._mac(begun, body), mac):
            raise BadSignature("the message's signature does not fit its content")

    @staticmethod
    def _mac(begun: hmac.HMAC, body: bytes) -> bytes:
        state = begun.copy()
        state.update(body)
        return state.digest()
