"""Who is signed in, as a cookie says it: signed, and nothing of it kept but that somebody has signed out.

A server that restarts, or another one with the same key, knows everyone who was signed in. Who signed in with
a token is signed out with that token; who came from an identity provider, with the settings that let them in.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from transport.state_folder import private_folder

from ...console_settings import Oidc
from ...errors import BadInput
from ..tokens import Token, Tokens

SIGNED_IN_S = 12 * 3600.0  # a working day
KEY_BYTES = 32
SIGNED_OUT = "console-signed-out"  # a table of the registry: a cookie's nonce → until when it would be good, in s
_NO_HASH = "0" * 64  # of whom no token stands for


@dataclass(frozen=True, slots=True)
class SignedIn:
    """`csrf` goes with every form; who has the cookie alone, as another site's page has, does not know it."""

    token: Token
    csrf: str


@dataclass(frozen=True, slots=True)
class Signer:
    """`admission`: the settings that let people of an identity provider in, in short; empty where none is named."""

    key: bytes
    tokens: Tokens
    clock_s: Callable[[], float] = time.time
    admission: str = ""

    def cookie(self, token: Token) -> str:
        """For somebody who has just proved to be whom `token` stands for."""
        by_file = token.sha256 != _NO_HASH
        claims: dict[str, Any] = {"until": int(self.clock_s() + SIGNED_IN_S), "nonce": secrets.token_hex(8)}
        vouched = {"person": token.model_dump(mode="json"), "admission": self.admission}
        return self.seal("cookie", json.dumps({**claims, **({"hash": token.sha256} if by_file else vouched)}))

    async def read(self, cookie: str) -> SignedIn | None:
        """None for one that is not ours, is too old, was signed out, or whose token was revoked."""
        text = self.unseal("cookie", cookie)
        if text is None:
            return None
        try:
            claims = json.loads(text)
            if claims["until"] <= self.clock_s() or await self.tokens.registry.get(SIGNED_OUT, claims["nonce"]):
                return None
            token = await self._token(claims)
        except (ValueError, KeyError, ValidationError):
            return None  # of an older release
        if token is None:
            return None
        return SignedIn(token, self._mac("form", cookie.partition(".")[0]))

    async def sign_out(self, cookie: str) -> None:
        """A copy of the cookie, which a browser's disk or a proxy's log may hold, counts no more either."""
        text = self.unseal("cookie", cookie)
        if text is None:
            return
        claims = json.loads(text)
        rows = await self.tokens.registry.rows(SIGNED_OUT)
        over = [nonce for nonce, until in rows.items() if int(until) <= self.clock_s()]  # at their end by themselves
        await self.tokens.registry.remove(SIGNED_OUT, *over)
        await self.tokens.registry.put(SIGNED_OUT, claims["nonce"], str(claims["until"]).encode())

    async def _token(self, claims: dict[str, Any]) -> Token | None:
        if "person" in claims:
            is_known = self.admission and claims["admission"] == self.admission
            return Token.model_validate(claims["person"]) if is_known else None
        return await self.tokens.by_hash(claims["hash"])

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


def signer_of(state_dir: Path, tokens: Tokens, oidc: Oidc | None = None) -> Signer:
    """With the key in the state folder, made when there is none."""
    path = state_dir / "console.key"
    private_folder(path.parent)
    if not path.exists():
        _make(path)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadInput(f"{path} can be read by others", hint="remove it: everybody signs in again")
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise BadInput(f"{path} is no key of the console's", hint="remove it: everybody signs in again")
    return Signer(key, tokens, admission=_in_short(oidc) if oidc else "")


def _in_short(oidc: Oidc) -> str:
    """Different after each change of who is asked and who is let in as what."""
    told = oidc.model_dump_json(include={"issuer", "client_id", "name_claim", "admit"})
    return hashlib.sha256(told.encode()).hexdigest()


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
