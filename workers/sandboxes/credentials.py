"""Credentials that the operator names, and that tasks use without ever having them."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from envelope.messages import TaskRequest
from envelope.reach import credentials_of
from envelope.redaction import MIN_SECRET_CHARS, register_secret
from repo.remotes import header_environment
from sandbox.outlet import HTTPS_PORT, Credential

from ..errors import BadInput, BadSettings

HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*(?::[1-9][0-9]{0,4})?")
HEADER = re.compile(r"(?P<name>[A-Za-z0-9-]+): (?P<value>[ -~]*\{(?:secret|basic)\}[ -~]*)")
NO_TENANT = TaskRequest.model_fields["tenant"].default
PRINTABLE = re.compile(r"[!-~]+")


class CredentialRow(BaseModel):
    """`[workers.credentials.NAME]`. The secret stands in the worker's variable `env`, or in `file`, which is read anew
    for each task. In `header` it is `{secret}`, or `{basic}` for `user:secret` as HTTP wants a password. `tenants`:
    whose tasks may use it (`*`: everybody's); left out, only those of a fleet without tenants."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    env: str = ""
    file: Path | None = None
    user: str = ""
    header: str = ""  # empty: a bearer token, and with `user` a password
    ca_file: Path | None = None
    tenants: tuple[str, ...] = (NO_TENANT,)

    @field_validator("host")
    @classmethod
    def _is_a_host(cls, host: str) -> str:
        """Without https's own port, as addresses mostly are written."""
        if not HOST.fullmatch(host):
            raise ValueError("write one host in lower case, with a port if it is not 443: git.example.com")
        return host.removesuffix(f":{HTTPS_PORT}")

    @field_validator("header")
    @classmethod
    def _is_a_header(cls, header: str) -> str:
        if header and not HEADER.fullmatch(header):
            raise ValueError("write a whole header with {secret} or {basic} in it: PRIVATE-TOKEN: {secret}")
        return header

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if bool(self.env) == (self.file is not None):
            raise ValueError("say where the secret is: `env` or `file`")
        return self


@dataclass(frozen=True, slots=True)
class Credentials:
    """Those of one worker."""

    rows: Mapping[str, CredentialRow] = field(default_factory=dict[str, CredentialRow])

    def require_secrets(self) -> None:
        """`BadSettings` for the first whose secret cannot be read; all are known to logs and events from now on."""
        for name in self.rows:
            self._read(name)

    def require_known(self, scope: Collection[str]) -> None:
        """`BadInput` for what a task may not begin with."""
        hosts: dict[str, str] = {}
        for name in sorted(credentials_of(scope)):
            other = hosts.setdefault(self._row(name).host, name)
            if other != name:
                message = f"the credentials {other!r} and {name!r} are for one host"
                raise BadInput(message, hint="grant the one that the task needs")

    def require_lent(self, request: TaskRequest) -> None:
        """`BadInput` for a credential that is not for the task's tenant; one that is nobody's is told so, too."""
        own = {request.workspace.credentials} - {""} if request.workspace else set[str]()
        lent = sorted(name for name, row in self.rows.items() if {request.tenant, "*"} & set(row.tenants))
        for name in sorted(credentials_of(request.auth_scope) | own):
            if name not in lent:
                hint = f"it has: {', '.join(lent) or 'none'}; its operator names them in [workers.credentials.NAME]"
                message = f"this worker has no credentials named {name!r} for the tenant {request.tenant!r}"
                raise BadInput(message, hint=f"{hint}, with the tenants")

    def of(self, scope: Collection[str]) -> tuple[Credential, ...]:
        self.require_known(scope)
        return tuple(self._read(name) for name in sorted(credentials_of(scope)))

    def for_fetch(self, name: str, url: str) -> dict[str, str]:
        """git's environment for fetching `url` with the credential; empty without a name.

        Not its command line, which all of this machine may read.
        """
        if not name:
            return {}
        host, parts = self._row(name).host, urlsplit(url)
        if parts.scheme != "https" or parts.netloc.lower() not in (host, f"{host}:{HTTPS_PORT}"):
            message = f"the credential {name!r} is for https://{host}/ alone"
            raise BadInput(message, hint="name that repository by its https address, or another credential")
        credential = self._read(name)
        return header_environment(f"{credential.header}: {credential.value}", credential.ca_file)

    def _row(self, name: str) -> CredentialRow:
        if name not in self.rows:
            known = ", ".join(sorted(self.rows)) or "none"
            hint = f"it knows: {known}; its operator names them in [workers.credentials.NAME]"
            raise BadInput(f"this worker knows no credentials named {name!r}", hint=hint)
        return self.rows[name]

    def _read(self, name: str) -> Credential:
        row = self._row(name)
        secret = _secret_of(name, row)
        basic = base64.b64encode(f"{row.user}:{secret}".encode()).decode()
        template = row.header or ("Authorization: Basic {basic}" if row.user else "Authorization: Bearer {secret}")
        header, _, value = template.partition(": ")
        value = value.replace("{secret}", secret).replace("{basic}", basic)
        spellings = (basic, *_spellings(secret))
        for each in spellings:
            register_secret(each)
        host, _, port = row.host.partition(":")
        return Credential(name, host, header, value, (value, *spellings), int(port or HTTPS_PORT), row.ca_file)


NO_CREDENTIALS = Credentials()


def _spellings(secret: str) -> tuple[str, ...]:
    """As a server may give it back: as it is, in JSON, percent-encoded and in Base64, in all usual forms of these."""
    percent = (quote(secret, safe=""), quote(secret))
    small = (re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), one) for one in percent)
    base64s = (encode(secret.encode()).decode().rstrip("=") for encode in (base64.b64encode, base64.urlsafe_b64encode))
    as_json = json.dumps(secret)[1:-1]
    return tuple(dict.fromkeys((secret, as_json, as_json.replace("/", "\\/"), *percent, *small, *base64s)))


def _secret_of(name: str, row: CredentialRow) -> str:
    where = f"the variable {row.env}" if row.env else f"the file {row.file}"
    try:
        secret = (os.environ.get(row.env, "") if row.file is None else row.file.read_text()).strip()
    except (OSError, UnicodeDecodeError) as e:
        raise BadSettings(f"the credential {name!r} cannot be read: {e}", hint=f"see {where}") from e
    if len(secret) < MIN_SECRET_CHARS or not PRINTABLE.fullmatch(secret):
        message = f"the credential {name!r} has no secret in {where}"
        raise BadSettings(message, hint=f"put it there: at least {MIN_SECRET_CHARS} printable characters")
    return secret
