"""Who may call the API: a file of tokens, each with a role and a tenant. Only their hashes are kept."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from transport.state_folder import held

from ..errors import BadInput, BadSettings

ALL_TENANTS = "*"
PREFIX = "muster_"  # so that scanners for leaked secrets know one when they see it


class Role(StrEnum):
    """What each may do: `PERMITS`."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    APPROVER = "approver"
    ADMIN = "admin"


class Right(StrEnum):
    SEE = "see"
    SUBMIT = "submit"  # start, prompt and stop work
    APPROVE = "approve"  # answer asks, raise budgets
    PUBLISH = "publish"  # with the forges' tokens of the server's settings
    OPERATE = "operate"  # dead letters, shares of tenants


# Who submits does not approve: a program that starts work must not be able to wave its own asks through, nor its work.
PERMITS: Mapping[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.SEE}),
    Role.SUBMITTER: frozenset({Right.SEE, Right.SUBMIT}),
    Role.APPROVER: frozenset({Right.SEE, Right.APPROVE, Right.PUBLISH}),
    Role.ADMIN: frozenset(Right),
}
# Who only looks has no others: each of these would have a say in work that may write.
LOOKING = frozenset({Right.SEE, Right.SUBMIT})


class Token(BaseModel):
    """`tenant`: the only one whose tasks it sees; `*` sees all, and submits for the settings' own. `read_only`: what is
    submitted with it may look, and nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9_.@-]{1,60}$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    role: Role
    tenant: str = Field(default="default", pattern=r"^(\*|[A-Za-z0-9_./-]{1,100})$")
    read_only: bool = False

    def may(self, right: Right) -> bool:
        """By its role, which alone says what it may look at; what it may do: `Caller.rights`."""
        return right in PERMITS[self.role]

    def sees(self, tenant: str) -> bool:
        return self.tenant in (ALL_TENANTS, tenant)


_TOKENS = TypeAdapter[tuple[Token, ...]](tuple[Token, ...])


@dataclass(slots=True)
class TokenFile:
    """The tokens in a file, read again when it changes: a token that is revoked there is refused at the next call."""

    path: Path
    _seen: tuple[int, int] | None = None
    _by_hash: Mapping[str, Token] | None = None

    def find(self, secret: str) -> Token | None:
        """By the hash of what was sent: a look-up by hash tells nothing of the secret by its time."""
        return self._tokens().get(_hash(secret))

    def all(self) -> tuple[Token, ...]:
        return tuple(self._tokens().values())

    def create(self, name: str, role: Role, tenant: str, *, read_only: bool = False) -> str:
        """Add a token; its secret, which is shown once and kept nowhere. `BadInput` for a name that is taken."""
        made, secret = self.draft(name, role, tenant, read_only=read_only)
        self.add(made)
        return secret

    def draft(self, name: str, role: Role, tenant: str, *, read_only: bool = False) -> tuple[Token, str]:
        """A token that counts once it is added, and its secret."""
        self._require_free(name)
        secret = PREFIX + secrets.token_urlsafe(32)
        try:
            made = Token(name=name, sha256=_hash(secret), role=role, tenant=tenant, read_only=read_only)
        except ValidationError as e:
            fault = e.errors(include_url=False, include_input=False)[0]
            raise BadInput(f"{fault['loc'][0]}: {fault['msg']}", hint="letters, digits and . _ - @") from e
        return made, secret

    def add(self, token: Token) -> None:
        with self._alone():
            self._require_free(token.name)
            self._write((*self.all(), token))

    def named(self, name: str) -> Token:
        found = next((token for token in self.all() if token.name == name), None)
        if found is None:
            raise BadInput(f"there is no token {name!r}", hint="see them with: muster token list")
        return found

    def revoke(self, name: str) -> None:
        with self._alone():
            gone = self.named(name)
            self._write(tuple(token for token in self.all() if token != gone))

    def _require_free(self, name: str) -> None:
        if any(token.name == name for token in self.all()):
            raise BadInput(f"there is a token {name!r} already", hint="revoke it first, or choose another name")

    @contextmanager
    def _alone(self) -> Generator[None]:
        """One change at a time, whoever makes it: else of two at once one writes back what the other has revoked."""
        with held(self.path.with_name(f".{self.path.name}.lock")):
            yield

    def _tokens(self) -> Mapping[str, Token]:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return {}
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise BadSettings(f"{self.path} can be read by others", hint=f"chmod 600 {self.path}")
        seen = (found.st_mtime_ns, found.st_ino)
        if self._by_hash is None or seen != self._seen:
            self._by_hash, self._seen = {token.sha256: token for token in self._read()}, seen
        return self._by_hash

    def _read(self) -> tuple[Token, ...]:
        try:
            return _TOKENS.validate_json(self.path.read_bytes())
        except (OSError, ValidationError) as e:
            raise BadSettings(f"{self.path} is no file of tokens", hint="make one with: muster token create") from e

    def _write(self, tokens: tuple[Token, ...]) -> None:
        content = json.dumps([token.model_dump(mode="json") for token in tokens], indent=1)
        with tempfile.NamedTemporaryFile("w", dir=self.path.parent, prefix=".tokens-", delete=False) as draft:
            draft.write(content)
            draft.flush()
            os.fsync(draft.fileno())
        Path(draft.name).replace(self.path)


def _hash(secret: str) -> str:
    """Secrets are 256 random bits, so that a fast hash is as good as a slow one."""
    return hashlib.sha256(secret.encode()).hexdigest()
