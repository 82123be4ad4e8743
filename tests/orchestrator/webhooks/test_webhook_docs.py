"""The examples of docs/webhooks.md work as they stand there."""

from __future__ import annotations

import base64
import re
import time
from pathlib import Path

from orchestrator.settings import load_settings
from orchestrator.webhooks.signing import headers_of

PAGE = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text()


def block(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def test_the_settings_are_read(keep_settings, tmp_path, monkeypatch):
    file = tmp_path / "config.toml"
    file.write_text(block("toml"))
    monkeypatch.setenv("MUSTER_CONFIG", str(file))
    hook = load_settings().webhooks["chat"]

    assert (hook.may_answer, hook.tenants, hook.secret_env) == (True, ("team-a",), "CHAT_HOOK_SECRET")


def test_a_receiver_knows_what_is_ours(secret):
    said: dict = {}
    exec(block("python"), said)
    body, now_s = b'{"type":"ping"}', int(time.time())
    key = base64.b64decode(secret.removeprefix("whsec_"))
    headers = headers_of("msg_1", body, [b"x" * 24, key], at_s=now_s)

    assert said["is_ours"](headers, body, secret)
    assert not said["is_ours"](headers, body + b" ", secret)
    assert not said["is_ours"](headers_of("msg_1", body, [key], at_s=now_s - 900), body, secret)
