"""Who is to hear what: the operator's table `[webhooks.NAME]`."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from envelope.redaction import register_secret

from ..errors import BadInput

PREFIX = "whsec_"  # of secrets, as receivers' libraries know them
MIN_SECRET_BYTES = 24

WebhookName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]


class Told(StrEnum):
    """What there is to hear."""

    ASK_OPENED = "ask.opened"
    BUDGET_REACHED = "budget.reached"
    TASK_ENDED = "task.ended"
    BATCH_ENDED = "batch.ended"
    DEAD_LETTER = "task.dead"
    PING = "ping"  # of `muster webhook test`


class Webhook(BaseModel):
    """`tenants`: whose tasks it hears of; none named: all. `may_answer`: whoever gets its asks may answer them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str, Field(max_length=2_000)]
    secret_env: str = ""
    secret_file: Path | None = None
    events: tuple[Told, ...] = tuple(event for event in Told if event is not Told.PING)
    tenants: tuple[str, ...] = ()
    allow_private: bool = False
    may_answer: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        parts = urlsplit(self.url)
        schemes = ("https", "http") if self.allow_private else ("https",)
        if parts.scheme not in schemes or not parts.hostname or parts.username or parts.password:
            raise ValueError(f"its url begins with {' or '.join(schemes)}:// and names a host, but no user")
        if bool(self.secret_env) == (self.secret_file is not None):
            raise ValueError("it has a secret_env, or else a secret_file")
        return self

    def hears(self, event: Told, tenant: str) -> bool:
        return event in self.events and (not self.tenants or tenant in self.tenants)

    def secrets(self, environ: Mapping[str, str] = os.environ) -> list[bytes]:
        """The keys that sign: one, or several between spaces while they are changed. `BadInput` when there is none.

        Read each time, so that a file that was changed counts at once.
        """
        try:
            text = self.secret_file.read_text() if self.secret_file else environ[self.secret_env]
        except (OSError, KeyError, UnicodeDecodeError) as e:
            where = self.secret_file or f"${self.secret_env}"
            raise BadInput(f"the webhook's secret is not in {where}", hint="put one there: whsec_… in base64") from e
        return [_key(word) for word in text.split()] or [_key("")]


def _key(word: str) -> bytes:
    register_secret(word)
    try:
        key = base64.b64decode(word.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not word.startswith(PREFIX) or len(key) < MIN_SECRET_BYTES:
        hint = f"make one: echo whsec_$(head -c {MIN_SECRET_BYTES} /dev/urandom | base64)"
        raise BadInput(f"a webhook's secret is {PREFIX} and at least {MIN_SECRET_BYTES} bytes in base64", hint=hint)
    return key
