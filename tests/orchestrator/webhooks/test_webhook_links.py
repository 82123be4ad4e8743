"""Links by which an ask is answered once, and the marks in them."""

from __future__ import annotations

import base64

import pytest

from envelope.signature import Keys
from orchestrator.webhooks.links import Links, Mark
from transport.keyring import fresh

MARK = Mark(task_id="t", ask_id="ask_1", hook="chat", until_ms=5)


def test_a_mark_comes_back_from_its_token():
    links = Links(fresh())

    assert links.mark(links.token(MARK)) == MARK


def test_what_another_fleet_has_signed_is_no_mark():
    assert Links(fresh()).mark(Links(fresh()).token(MARK)) is None


def test_what_the_key_has_signed_for_something_else_is_no_mark():
    keyring = Keys("k", {"k": b"x" * 32})
    body = MARK.model_dump_json().encode()
    _, mac = keyring.sign(body)
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (body, b"k", mac))

    assert Links(keyring).mark(token) is None


@pytest.mark.parametrize(
    "spoil", [str.upper, lambda text: text[:-2], lambda text: text.replace(".", ""), lambda _: "…."]
)
def test_a_token_that_was_changed_is_no_mark(spoil):
    links = Links(fresh())

    assert links.mark(spoil(links.token(MARK))) is None
