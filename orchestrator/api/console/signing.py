"""Who is signed in, as a cookie says it: signed, and nothing of it kept here.

A server that restarts, or another one with the same state folder, knows everyone who was signed in. Who signed in with
a token is signed out with that token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...errors import BadInput
from ..tokens import Token, TokenFile

SIGNED_IN_S = 12 * 3600.0  # a working day
KEY_BYTES = 32
_NO_HASH = "0" * 64  # of whom no token stands for


@dataclass(frozen=True, slots=True)
class SignedIn:
    """`csrf` goes with every form; who has the cookie alone, as another site's page has, does not know it."""

    token: Token
    csrf: str


@dataclass(frozen=True, slots=True)
class Signer:
    key: bytes
    tokens: TokenFile
    clock_s: Callable[[], float] = time.time

    def cookie(self, token: Token) -> str:
        """For somebody who has just proved to be whom `token` stands for."""
        by_file = token.sha256 != _NO_HASH
        claims: dict[str, Any] = {"until": int(self.clock_s() + SIGNED_IN_S), "nonce": secrets.token_hex(8)}
        claims |= {"hash": token.sha256} if by_file else {"person": token.model_dump(mode="json")}
        return self.seal("cookie", json.dumps(claims))

    def read(self, cookie: str) -> SignedIn | None:
        """None for one that is not ours, is too old, or whose token was revoked."""
        text = self.unseal("cookie", cookie)
        if text is None:
            return None
        try:
            claims = json.loads(text)
            token = self._token(claims)
        except (ValueError, KeyError, ValidationError):
            return None  # of an older release
        if token is None or claims["until"] <= self.clock_s():
            return None
        return SignedIn(token, self._mac("form", cookie.partition(".")[0]))

    def _token(self, claims: dict[str, Any]) -> Token | None:
        if "person" in claims:
            return Token.model_validate(claims["person"])
        return next((each for each in self.tokens.all() if each.sha256 == claims["hash"]), None)

    def seal(self, purpose: str, text: str) -> str:
        """A text that comes back as it was, or not at all. Whoever has it can read it."""
        body = base64.urlsafe_b64encode(text.encode()).decode()
        return f"{body}.{self._mac(purpose, body)}"

    def unseal(self, purpose: str, sealed: str) -> str | None:
        """None for what was not sealed here for this purpose."""
        body, _, mac = sealed.partition(".")
        if not hmac.compare_digest(mac.encode(), self._mac(purpose, body).encode()):
            return None
        return base64.urlsafe_b64decode(body).decode()

    def _mac(self, purpose: str, text: str) -> str:
        return hmac.new(self.key, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


def person(name: str, **rights: Any) -> Token:
    """Somebody whom an identity provider vouches for, as the rest of the API knows callers."""
    return Token(name=name, sha256=_NO_HASH, **rights)


def signer_of(tokens: TokenFile) -> Signer:
    """With the key that is kept beside the tokens, made when there is none."""
    path = tokens.path.with_name("console.key")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        _make(path)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise BadInput(f"{path} is no key of the console's", hint="remove it: everybody signs in again")
    return Signer(key, tokens)


def _make(path: Path) -> None:
    """Whole, or not there: two servers that start at once end up with the same one."""
    draft = path.with_name(f".console-{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
