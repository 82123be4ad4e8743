"""What an operator writes for a credential, and what is said of one that cannot be used."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from pydantic import ValidationError

from envelope.redaction import redact
from sandbox.veil import Veil
from workers.errors import BadInput, BadSettings
from workers.sandboxes.credentials import CredentialRow, Credentials
from workers.settings import WorkerSettings

SECRET = "canary/secret-5521"
SCOPE = ("credential:forge",)

TABLE = """
[workers.credentials.forge]
host = "git.example.com"
env = "FORGE_TOKEN"
"""


def made(**fields: object) -> Credentials:
    return Credentials({"forge": CredentialRow.model_validate({"host": "git.example.com", **fields})})


@pytest.fixture(autouse=True)
def variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_TOKEN", SECRET)


def test_the_users_file_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "config.toml").write_text(TABLE)
    monkeypatch.setenv("MUSTER_CONFIG", str(tmp_path / "config.toml"))
    settings = WorkerSettings()
    [credential] = Credentials(settings.credentials).of(SCOPE)

    assert (credential.host, credential.port, credential.header) == ("git.example.com", 443, "Authorization")
    assert credential.value == f"Bearer {SECRET}"
    assert SECRET not in repr(credential) + repr(settings) + settings.model_dump_json()


@pytest.mark.parametrize(
    ("fields", "header", "value"),
    [
        ({"user": "me"}, "Authorization", "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()),
        ({"header": "PRIVATE-TOKEN: {secret}"}, "PRIVATE-TOKEN", SECRET),
        ({"header": "X-Auth: key={secret};v=1"}, "X-Auth", f"key={SECRET};v=1"),
    ],
)
def test_the_header_is_what_the_operator_wants(fields: dict, header: str, value: str):
    [credential] = made(env="FORGE_TOKEN", **fields).of(SCOPE)

    assert (credential.header, credential.value) == (header, value)


def test_a_file_is_read_anew_for_each_task_and_its_last_line_end_does_not_count(tmp_path: Path):
    secret = tmp_path / "token"
    secret.write_text("first-secret\n")
    credentials = made(file=secret)
    assert credentials.of(SCOPE)[0].value == "Bearer first-secret"

    secret.write_text("second-secret\n")
    assert credentials.of(SCOPE)[0].value == "Bearer second-secret"


def test_once_read_no_log_shows_it_however_it_is_written():
    made(env="FORGE_TOKEN", user="me").require_secrets()
    spellings = (SECRET, base64.b64encode(f"me:{SECRET}".encode()).decode(), "canary%2Fsecret-5521")

    assert not any(each in redact(f"the key is {each}!") for each in spellings)


@pytest.mark.parametrize("content", ["", "short", "two\nlines-of-it", "with blank in it", "caf\u00e9-secret"])
def test_what_is_no_secret_stops_the_worker_with_a_hint(tmp_path: Path, content: str):
    (tmp_path / "token").write_text(content)

    with pytest.raises(BadSettings, match="'forge' has no secret") as raised:
        made(file=tmp_path / "token").require_secrets()
    assert "printable" in raised.value.hint


def test_a_file_that_is_missing_is_named(tmp_path: Path):
    with pytest.raises(BadSettings, match="cannot be read") as raised:
        made(file=tmp_path / "no-such-file").require_secrets()
    assert "no-such-file" in raised.value.hint


@pytest.mark.parametrize(
    "fields",
    [{}, {"env": "A", "file": "/b"}, {"env": "A", "host": "https://h"}, {"env": "A", "host": "*.h"},
     {"env": "A", "host": "H"}, {"env": "A", "header": "Authorization"}, {"env": "A", "header": "A: b"},
     {"env": "A", "header": "A: {secret}\r\nB: c"}, {"env": "A", "hots": "x"}],
)  # fmt: skip
def test_a_row_that_is_wrong_is_refused(fields: dict):
    with pytest.raises(ValidationError):
        CredentialRow.model_validate({"host": "git.example.com", **fields})


@pytest.mark.parametrize(
    "url",
    ["http://git.example.com/r", "ssh://git@git.example.com/r", "https://git.example.com:8443/r",
     "https://git.example.com.evil.example/r", "https://evil.example/git.example.com", "git@git.example.com:r"],
)  # fmt: skip
def test_a_repository_elsewhere_is_not_fetched_with_it(url: str):
    with pytest.raises(BadInput, match=r"for https://git\.example\.com/ alone"):
        made(env="FORGE_TOKEN").for_fetch("forge", url)


@pytest.mark.parametrize("host", ["git.example.com", "git.example.com:443"])
@pytest.mark.parametrize("place", ["git.example.com", "git.example.com:443", "Git.Example.com"])
def test_git_gets_it_by_its_environment_and_follows_no_redirect_with_it(host: str, place: str):
    env = made(env="FORGE_TOKEN", host=host).for_fetch("forge", f"https://{place}/r.git")
    pairs = {env[f"GIT_CONFIG_KEY_{n}"]: env[f"GIT_CONFIG_VALUE_{n}"] for n in range(int(env["GIT_CONFIG_COUNT"]))}

    assert pairs == {"http.extraHeader": f"Authorization: Bearer {SECRET}", "http.followRedirects": "false"}


def _small(code: re.Match[str]) -> str:
    return code[0].lower()


@pytest.mark.parametrize(
    "spell",
    [
        str,
        lambda secret: quote(secret, safe=""),
        lambda secret: re.sub("%..", _small, quote(secret, safe="")),
        quote,
        lambda secret: base64.b64encode(secret.encode()).decode(),
        lambda secret: base64.b64encode(secret.encode()).decode().rstrip("="),
        lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
        lambda secret: json.dumps(secret)[1:-1].replace("/", "\\/"),
    ],
)
def test_a_secret_is_blanked_out_in_whatever_form_it_comes_back(spell, monkeypatch):
    secret = 'ab/cd+ef?gh~ij-"0123'
    monkeypatch.setenv("FORGE_TOKEN", secret)
    [credential] = Credentials({"forge": CredentialRow(host="git.example", env="FORGE_TOKEN")}).of(["credential:forge"])
    veil = Veil(sorted(credential.secrets, key=len, reverse=True))
    assert spell(secret).encode().rstrip(b"=") not in veil.whole(f'{{"a": "{spell(secret)}"}}'.encode())
