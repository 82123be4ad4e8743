"""One try to deliver a webhook: how it is signed, where it may go, what counts as an arrival."""

from __future__ import annotations

import asyncio
import base64

import pytest
from pydantic import ValidationError

from orchestrator.errors import BadInput
from orchestrator.webhooks.config import Webhook
from orchestrator.webhooks.sending import Arrived, Failed, send
from orchestrator.webhooks.signing import headers_of

TIMEOUT_S = 30.0


async def sent(hook: dict, *, timeout_s: float = TIMEOUT_S) -> Arrived | Failed:
    return await send(Webhook.model_validate(hook), "msg_1", '{"type":"ping"}', timeout_s=timeout_s)


def test_the_signature_is_that_of_the_convention():
    """The example that the convention's own libraries are tested with."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = headers_of("msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', [key], at_s=1614265330)

    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers["Idempotency-Key"] == headers["webhook-id"] == "msg_p5jXN8AQM9LWM0D4loKWxJek"


async def test_what_arrives_is_signed_with_each_of_the_secrets(receiver, secret, monkeypatch):
    newer = "whsec_" + base64.b64encode(b"another secret, which is newer").decode()
    monkeypatch.setenv("HOOK_SECRET", f"{newer} {secret}")

    assert await sent(receiver.hook()) == Arrived(204)
    [got] = receiver.got
    assert (got.is_signed_with(secret), got.is_signed_with(newer), got.said) == (True, True, {"type": "ping"})


@pytest.mark.parametrize(
    ("status", "headers", "failed"),
    [
        (500, {}, Failed("it answered 500")),
        (302, {"Location": "/elsewhere"}, Failed("it answered 302")),
        (410, {}, Failed("it answered 410", for_good=True)),
        (429, {"Retry-After": "7"}, Failed("it answered 429", retry_after_s=7.0)),
        (503, {"Retry-After": "99999999"}, Failed("it answered 503", retry_after_s=3_600.0)),
        (503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, Failed("it answered 503")),
    ],
)
async def test_nothing_but_success_is_an_arrival_and_no_redirect_is_followed(receiver, status, headers, failed):
    receiver.answers, receiver.headers = [status], headers

    assert await sent(receiver.hook()) == failed
    assert len(receiver.got) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"])
async def test_a_private_address_is_refused_however_it_is_written(receiver, host):
    port = receiver.url.rpartition(":")[2]
    hook = receiver.hook(url=f"https://{host}:{port}", allow_private=False)
    outcome = await sent(hook)

    assert isinstance(outcome, Failed)
    assert receiver.got == []
    if host in ("127.0.0.1", "localhost"):
        assert "is not public" in outcome.why


async def test_a_receiver_that_says_nothing_is_left(receiver):
    receiver.hold = asyncio.Event()
    outcome = await sent(receiver.hook(), timeout_s=0.2)

    assert outcome == Failed("no answer within 0.2 s")


async def test_a_receiver_that_is_away_is_a_failure(receiver):
    outcome = await sent(receiver.hook(url="http://127.0.0.1:1/"))

    assert isinstance(outcome, Failed) and not outcome.for_good


@pytest.mark.parametrize("text", ["", "hunter2", "whsec_c2hvcnQ=", "whsec_%%%"])
async def test_a_weak_secret_signs_nothing(receiver, monkeypatch, text):
    monkeypatch.setenv("HOOK_SECRET", text)
    outcome = await sent(receiver.hook())

    assert isinstance(outcome, Failed) and "at least 24 bytes" in outcome.why
    assert receiver.got == []


def test_a_secret_is_read_from_a_file_whenever_it_is_needed(tmp_path, secret):
    file = tmp_path / "secret"
    hook = Webhook(url="https://example.org/", secret_file=file)
    with pytest.raises(BadInput, match="not in"):
        hook.secrets()
    file.write_text(secret + "\n")

    assert hook.secrets() == [b"a secret of twenty-four b"]


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "http://example.org/", "secret_env": "X"},
        {"url": "ftp://example.org/", "secret_env": "X", "allow_private": True},
        {"url": "https://user:pass@example.org/", "secret_env": "X"},
        {"url": "https:///nowhere", "secret_env": "X"},
        {"url": "https://example.org/"},
        {"url": "https://example.org/", "secret_env": "X", "secret_file": "/x"},
        {"url": "https://example.org/", "secret_env": "X", "events": ["task.started"]},
        {"url": "https://example.org/", "secret_env": "X", "events": ["ping"], "colour": "red"},
    ],
)
def test_what_cannot_work_is_refused_in_the_settings(fields):
    with pytest.raises(ValidationError):
        Webhook.model_validate(fields)
