"""The forges that changes are published to, and the tokens for them: the user's table `[forges.NAME]`."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import quote, urlsplit

from pydantic import Field, model_validator

from envelope.redaction import register_secret

from ..errors import BadInput
from .limits import Limits

ForgeName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MIN_TOKEN_CHARS = 8  # shorter ones could not be kept out of logs
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


class Kind(StrEnum):
    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"  # and Forgejo
    GIT = "git"  # any server that git pushes to by https; no requests


# What its API is called at its public place, and whom git says it is when it pushes with a token.
_PUBLIC = {
    Kind.GITHUB: "https://api.github.com",
    Kind.GITLAB: "https://gitlab.com/api/v4",
    Kind.GITEA: "https://gitea.com/api/v1",
    Kind.GIT: "",
}
_USERS = {Kind.GITHUB: "x-access-token", Kind.GITLAB: "oauth2", Kind.GITEA: "muster", Kind.GIT: "git"}
_SCHEMES = {Kind.GITHUB: "Bearer", Kind.GITLAB: "Bearer", Kind.GITEA: "token", Kind.GIT: "Bearer"}


class ForgeSettings(Limits):
    """`url` is its API's (of kind `git`: the server's). The token goes to that host and to the repositories' `host`
    alone; it is read anew each time from `token_file`, or else from the variable `token_env`. The limits are for all
    that goes there. `tenants`: whose work may use it over HTTP (`*`: everybody's); commands of this machine always may.
    """

    kind: Kind
    url: Annotated[str, Field(max_length=500)] = ""
    host: str = ""
    token_env: str = ""
    token_file: Path | None = None
    user: str = ""
    ca_file: Path | None = None
    tenants: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        parts = urlsplit(self.api)
        allowed = ("https", "http") if parts.hostname in LOOPBACK else ("https",)
        if parts.scheme not in allowed or not parts.hostname or parts.username or parts.password:
            raise ValueError("its url begins with https:// and names a host, but no user")
        if bool(self.token_env) == (self.token_file is not None):
            raise ValueError("it has a token_env, or else a token_file")
        return self

    def is_for(self, tenant: str) -> bool:
        return tenant in self.tenants or "*" in self.tenants

    @property
    def api(self) -> str:
        return (self.url or _PUBLIC[self.kind]).rstrip("/")

    @property
    def git_host(self) -> str:
        """Where its repositories are, with the port if it is not https's own."""
        return self.host or urlsplit(self.api).netloc.removeprefix("api.")

    @property
    def plain(self) -> bool:
        return urlsplit(self.api).scheme == "http"

    def api_headers(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        return {"Authorization": f"{_SCHEMES[self.kind]} {self._token(environ)}"}

    def git_header(self, environ: Mapping[str, str] = os.environ) -> str:
        user, token = self.user or _USERS[self.kind], self._token(environ)
        basic = base64.b64encode(f"{user}:{token}".encode()).decode()
        register_secret(basic)
        return f"Authorization: Basic {basic}"

    def _token(self, environ: Mapping[str, str]) -> str:
        where = self.token_file or f"${self.token_env}"
        try:
            token = (self.token_file.read_text() if self.token_file else environ[self.token_env]).strip()
        except (OSError, KeyError, UnicodeDecodeError) as e:
            raise BadInput(f"the forge's token is not in {where}", hint="put one there that may push") from e
        if len(token) < MIN_TOKEN_CHARS or not _PRINTABLE.fullmatch(token):
            hint = f"put one there: at least {MIN_TOKEN_CHARS} printable characters"
            raise BadInput(f"there is no token in {where}", hint=hint)
        for each in (token, quote(token, safe=""), base64.b64encode(token.encode()).decode()):
            register_secret(each)
        return token
