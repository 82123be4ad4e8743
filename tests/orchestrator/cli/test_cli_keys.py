"""`muster keys`: names and roles, never a key."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from envelope.errors import ExitCode
from transport.approvals import PRIVATE
from transport.keyring import load_or_create

pytestmark = pytest.mark.acceptance


@pytest.fixture
def keyring(desk):
    path = desk.home / "state" / "keyring.json"
    load_or_create(path)
    return path


def _listed(desk) -> dict[str, str]:
    done = desk.muster("keys", "list")
    assert done.exit_code == 0, done.stderr
    return dict(line.split("\t") for line in done.stdout.splitlines())


def test_a_key_is_added_then_signs_and_the_old_one_is_retired(desk, keyring):
    assert _listed(desk) == {"k1": "signs"}

    assert desk.muster("keys", "add").stdout == "k2\na1\n"
    assert _listed(desk) == {"k1": "signs", "k2": "next", "a1": "signs"}

    assert desk.muster("keys", "rotate").stdout == "k2\na2\n"
    assert _listed(desk) == {"k1": "verifies", "k2": "signs", "a1": "verifies", "a2": "signs"}

    assert "refused from now on" in desk.muster("keys", "retire", "k1").stderr
    assert "refused from now on" in desk.muster("keys", "retire", "a1").stderr
    assert _listed(desk) == {"k2": "signs", "a2": "signs"}
    assert keyring.with_name(PRIVATE).stat().st_mode & 0o777 == 0o600
    assert keyring.stat().st_mode & 0o777 == 0o600


def _secrets(keyring) -> set[str]:
    files = [file for file in (keyring, keyring.with_name(PRIVATE)) if file.exists()]
    return {key for file in files for key in json.loads(file.read_text())["keys"].values()}


def test_no_command_shows_a_key(desk, keyring):
    shown = ""
    for words in (("list",), ("add",), ("rotate",), ("retire", "k1"), ("retire", "k2"), ("list",)):
        secrets = _secrets(keyring)
        done = desk.muster("keys", *words)
        shown += done.stdout + done.stderr
        secrets |= _secrets(keyring)
        assert not any(secret in shown for secret in secrets)
    assert "k2" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("retire", "k1"), "the key 'k1' signs"),
        (("retire", "k7"), "no key 'k7'"),
    ],
)
def test_a_key_that_cannot_be_retired_is_told_and_stays(desk, keyring, words, sentence):
    before = keyring.read_text()

    done = desk.muster("keys", *words)

    assert done.exit_code == ExitCode.USAGE
    assert sentence in done.stderr
    assert "hint: " in done.stderr
    assert keyring.read_text() == before


@pytest.mark.parametrize("command", ["list", "add", "rotate"])
def test_where_there_is_no_keyring_none_is_made(desk, command):
    done = desk.muster("keys", command)

    assert done.exit_code == ExitCode.USAGE
    assert "there is no keyring" in done.stderr
    assert not (desk.home / "state" / "keyring.json").exists()


def test_processes_that_rotate_at_once_lose_no_key(desk, keyring):
    command = (sys.executable, "-m", "orchestrator.cli.main", "keys", "rotate")
    started = [
        subprocess.Popen(command, env=desk.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for _ in range(4)
    ]

    made = sorted(process.communicate(timeout=60)[0].strip() for process in started)

    assert made == ["k2", "k3", "k4", "k5"]
    assert set(json.loads(keyring.read_text())["keys"]) == {"k1", *made}
