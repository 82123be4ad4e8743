"""The console's own settings: the operator's table `[console.oidc]`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from envelope.redaction import register_secret

from .api.tokens import Role
from .errors import BadSettings

LOOPBACK = ("127.0.0.1", "localhost", "::1")
Text = Annotated[str, Field(min_length=1, max_length=500)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Admission(_Part):
    """Who is let in, as what: everybody whose `claim` is, or has among others, the `value`. `tenant`: `*` for all."""

    claim: Text
    value: Text
    role: Role
    tenant: Annotated[str, Field(pattern=r"^(\*|[A-Za-z0-9_./-]{1,100})$")] = "default"
    read_only: bool = False

    def fits(self, claims: Mapping[str, Any]) -> bool:
        said = claims.get(self.claim)
        if self.claim == "email" and claims.get("email_verified") is not True:
            return False  # whoever likes can say so of themselves
        return said == self.value or (isinstance(said, list) and self.value in cast("list[object]", said))


class Oidc(_Part):
    """Signing in at an identity provider. `admit`: the first that fits counts; who fits none gets nowhere.

    `name_claim`: what people are called in records. `hosts`: beside the issuer's own host, where its endpoints are.
    The secret is read anew each time from `client_secret_file`, or else the variable `client_secret_env`; a public
    client has neither.
    """

    issuer: Text
    client_id: Text
    client_secret_env: str = ""
    client_secret_file: Path | None = None
    name_claim: Text = "email"
    scopes: tuple[Text, ...] = ("openid", "email", "profile")
    hosts: tuple[Text, ...] = ()
    admit: Annotated[tuple[Admission, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        parts = urlsplit(self.issuer)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
        if not is_safe or not parts.hostname or parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("its issuer begins with https:// and names a host, without a user or a query")
        if self.client_secret_env and self.client_secret_file is not None:
            raise ValueError("it has a client_secret_env, or else a client_secret_file")
        if "openid" not in self.scopes:
            raise ValueError("its scopes have openid among them")
        return self

    def may_ask(self, address: str) -> bool:
        """Is it an endpoint of the issuer's: at its own host or a named one, and by https where the issuer is?"""
        home, there = urlsplit(self.issuer), urlsplit(address)
        known = there.netloc == home.netloc or there.hostname in self.hosts
        return (
            known and not there.username and there.scheme == (home.scheme if there.netloc == home.netloc else "https")
        )

    def secret(self, environ: Mapping[str, str] = os.environ) -> str:
        """Empty for a public client."""
        if not self.client_secret_env and self.client_secret_file is None:
            return ""
        where = self.client_secret_file or f"${self.client_secret_env}"
        try:
            file = self.client_secret_file
            secret = (file.read_text() if file else environ[self.client_secret_env]).strip()
        except (OSError, KeyError, UnicodeDecodeError) as e:
            raise BadSettings(
                f"the secret of console.oidc is not in {where}", hint="put the client's secret there"
            ) from e
        if not secret:
            raise BadSettings(f"there is no secret in {where}", hint="put the client's secret there")
        register_secret(secret)
        return secret


class ConsoleSettings(_Part):
    oidc: Oidc | None = None
