"""Signed messages, under keys with names, so that keys can be changed while messages are under way.

HMAC-SHA256 for what all processes of a fleet send each other; Ed25519 for what some of them may only verify.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from .errors import BadSignature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# HMAC is no stronger than its key (RFC 2104), and an empty one is anybody's; ours have 32 bytes.
MIN_KEY_BYTES = 16
ED25519_BYTES = 32  # of a private key's seed, and of a public key


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


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """Ed25519: who holds these verifies, and can make nothing that verifies.

    `retired`: keys that sign and verify no more, but in what was recorded while they did. `since_ms`: from when on the
    fleet has had any, on the clock of whoever made them; 0: from its beginning.
    """

    keys: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    retired: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    since_ms: int = 0

    def __post_init__(self) -> None:
        named = [*self.keys.items(), *self.retired.items()]
        if any(not key_id or len(key) != ED25519_BYTES for key_id, key in named):
            raise ValueError(f"a public key has an id and {ED25519_BYTES} bytes")

    def verify(self, body: bytes, key_id: str, mac: bytes, *, also_retired: bool = False) -> None:
        """`BadSignature` as `Keys.verify`'s."""
        key = self.keys.get(key_id) or (self.retired.get(key_id) if also_retired else None)
        if key is None:
            raise BadSignature(
                f"it is signed with {key_id!r}, an approval key that is not known here"
                if mac
                else "nobody has signed it",
                hint="give its reader the public keys of whoever signs",
            )
        if not _fits(key, body, mac):
            raise BadSignature("the signature does not fit the content")


def ed25519_sign(seed: bytes, body: bytes) -> bytes:
    return _private(seed).sign(body)


def ed25519_public(seed: bytes) -> bytes:
    return _private(seed).public_key().public_bytes_raw()


# `cryptography` takes a tenth of a second to load: who neither signs nor verifies does without it.


def _private(seed: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed)


def _fits(key: bytes, body: bytes, mac: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(mac, body)
    except (InvalidSignature, ValueError):  # ValueError: no point of the curve
        return False
    return True
