"""What a receiver can check: the headers of Standard Webhooks (standardwebhooks.com). Pure.

webhook-id          the notice's id: the same however often it is sent, so also `Idempotency-Key`
webhook-timestamp   seconds since 1970 of this try; a receiver refuses what is older than some minutes
webhook-signature   `v1,` and HMAC-SHA256 of `id.timestamp.body` in base64; one for each key, between spaces
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence


def headers_of(notice_id: str, body: bytes, keys: Sequence[bytes], *, at_s: int) -> dict[str, str]:
    """One signature for each key, of which a receiver needs to know one: so keys are changed. The id is the same at
    each try, so that a receiver can tell a repetition.
    """
    signed = f"{notice_id}.{at_s}.".encode() + body
    macs = (base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys)
    return {
        "Content-Type": "application/json",
        "User-Agent": "Muster-Webhook",
        "webhook-id": notice_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(f"v1,{mac}" for mac in macs),
        "Idempotency-Key": notice_id,
    }
