"""A link by which whoever has it may answer one ask, once: the mark in it is signed with an approval key."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from envelope.errors import BadSignature
from envelope.signature import Keyring
from transport.approvals import SealKeys
from transport.base import Transport

PATH = "/v1/answers/"
MAX_CHARS = 2_000
_PURPOSE = b"muster answer link\n"  # nothing else that these keys sign begins so


class Mark(BaseModel):
    """Which ask of which task, who was given the link, and until when (ms, on the store's clock) it is good.

    `asked`: digest of the question as its webhook told it; empty in links of releases before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_id: str
    ask_id: str
    hook: str
    until_ms: int
    asked: str = ""


def link_keys(transport: Transport) -> Keyring:
    return SealKeys(transport.approvals, transport.keyring)


@dataclass(frozen=True, slots=True)
class Links:
    keyring: Keyring

    def token(self, mark: Mark) -> str:
        body = mark.model_dump_json().encode()
        key_id, mac = self.keyring.sign(_PURPOSE + body)
        return ".".join((_text(body), _text(key_id.encode()), _text(mac)))

    def mark(self, token: str) -> Mark | None:
        """None for what no key of ours has signed."""
        try:
            body, key_id, mac = map(_bytes, token[:MAX_CHARS].split("."))
            self.keyring.verify(_PURPOSE + body, key_id.decode(), mac)
            return Mark.model_validate_json(body)
        except (BadSignature, ValidationError, ValueError, binascii.Error):
            return None


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
