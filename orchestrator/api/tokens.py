"""Who may call the API: tokens, each with a role and a tenant, in the fleet's registry. Only their hashes are kept."""

from __future__ import annotations

import hashlib
import secrets
import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from envelope.logs import get_logger
from transport.registry import Registry

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
# Tables of the registry: a token by its hash, or that it was revoked; and who has which name.
TOKENS, NAMES = "tokens", "token-names"
_REVOKED = b"revoked"

_log = get_logger("tokens")


class Tokens:
    """The fleet's tokens. A token that is revoked is refused at the next call, at every server; for good, also by a
    fleet that was given an older file of tokens since."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    async def find(self, secret: str) -> Token | None:
        """By the hash of what was sent: a look-up by hash tells nothing of the secret by its time."""
        return await self.by_hash(_hash(secret))

    async def by_hash(self, sha256: str) -> Token | None:
        row = await self.registry.get(TOKENS, sha256)
        return _token(row) if row else None

    async def holds(self, token: Token) -> bool:
        return await self.by_hash(token.sha256) == token

    async def all(self) -> tuple[Token, ...]:
        """By name."""
        rows = await self.registry.rows(TOKENS)
        return tuple(sorted(filter(None, map(_token, rows.values())), key=lambda token: token.name))

    async def create(self, name: str, role: Role, tenant: str, *, read_only: bool = False) -> str:
        """Add a token; its secret, which is shown once and kept nowhere. `BadInput` for a name that is taken."""
        made, secret = await self.draft(name, role, tenant, read_only=read_only)
        await self.add(made)
        return secret

    async def draft(self, name: str, role: Role, tenant: str, *, read_only: bool = False) -> tuple[Token, str]:
        """A token that counts once it is added, and its secret."""
        secret = PREFIX + secrets.token_urlsafe(32)
        try:
            made = Token(name=name, sha256=_hash(secret), role=role, tenant=tenant, read_only=read_only)
        except ValidationError as e:
            fault = e.errors(include_url=False, include_input=False)[0]
            raise BadInput(f"{fault['loc'][0]}: {fault['msg']}", hint="letters, digits and . _ - @") from e
        if any(token.name == name for token in await self.all()):
            raise _taken(name)
        return made, secret

    async def add(self, token: Token) -> None:
        """Of two at once with one name the second is refused: its secret was told to nobody yet."""
        await self.registry.put(TOKENS, token.sha256, token.model_dump_json().encode())
        if not await self.registry.add(NAMES, token.name, token.sha256.encode()):
            await self.registry.remove(TOKENS, token.sha256)
            raise _taken(token.name)

    async def named(self, name: str) -> Token:
        found = next((token for token in await self.all() if token.name == name), None)
        if found is None:
            raise BadInput(f"there is no token {name!r}", hint="see them with: muster token list")
        return found

    async def revoke(self, name: str) -> None:
        gone = await self.named(name)
        await self.registry.put(TOKENS, gone.sha256, _REVOKED)
        await self.registry.remove(NAMES, name)

    async def take_over(self, file: Path) -> None:
        """The tokens in a file of an older release, or of a Secret: those that this fleet has never had.

        `BadSettings` for a file that others can read, or that is none.
        """
        for token in _read(file):
            if await self.registry.get(TOKENS, token.sha256) is None:
                try:
                    await self.add(token)
                except BadInput:
                    _log.warning("token_not_taken_over", name=token.name, file=str(file), reason="the name is taken")


def _token(row: bytes) -> Token | None:
    try:
        return None if row == _REVOKED else Token.model_validate_json(row)
    except ValidationError:
        _log.warning("token_not_readable")
        return None


def _taken(name: str) -> BadInput:
    return BadInput(f"there is a token {name!r} already", hint="revoke it first, or choose another name")


def _read(file: Path) -> tuple[Token, ...]:
    try:
        if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise BadSettings(f"{file} can be read by others", hint=f"chmod 600 {file}")
        return _TOKENS.validate_json(file.read_bytes())
    except FileNotFoundError:
        return ()
    except (OSError, ValidationError) as e:
        hint = "it is of an older release: restore it, or remove it and make tokens anew with: muster token create"
        raise BadSettings(f"{file} is no file of tokens", hint=hint) from e


def _hash(secret: str) -> str:
    """Secrets are 256 random bits, so that a fast hash is as good as a slow one."""
    return hashlib.sha256(secret.encode()).hexdigest()
