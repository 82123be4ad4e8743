"""`muster webhook`, and how its settings reach the processes of a fleet."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.settings import Settings, load_settings
from orchestrator.supervisor.environment import environment_of
from orchestrator.webhooks.config import Webhook
from transport.notices import News, Notice

MUSTER = Path(sys.executable).parent / "muster"


def test_the_settings_reach_the_fleets_processes_whole(keep_settings, secret, monkeypatch):
    said = {"url": "https://example.org/", "secret_file": "/etc/secret", "events": ["task.ended"]}
    hook = Webhook.model_validate(said)
    given = Settings(state_dir=keep_settings.state_dir, webhooks={"chat": hook}, public_url="https://muster.example")
    for name, value in environment_of(given, {}).items():
        monkeypatch.setenv(name, value)

    assert load_settings().webhooks == given.webhooks
    assert load_settings().public_url == given.public_url


@pytest.mark.redis
async def test_an_operator_lists_tests_and_retries(served_stage, receiver):
    settings = served_stage.muster.settings
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    home = {
        **clean,
        "MUSTER_REDIS_URL": settings.redis_url,
        "MUSTER_FLEET": settings.fleet,
        "MUSTER_STATE_DIR": str(settings.state_dir),
        "MUSTER_WEBHOOKS": json.dumps({"chat": receiver.hook()}),
    }

    async def muster(*words: str) -> subprocess.CompletedProcess[str]:
        options = {"env": home, "capture_output": True, "text": True, "timeout": 120}
        return await asyncio.to_thread(subprocess.run, [MUSTER, "webhook", *words], **options)

    [notices] = served_stage.transport.notices
    now = (await notices.read(wait_s=0.001)).after
    await notices.take(News(now, now, ()), [Notice("msg_1", "chat", "task.ended", "{}", 0)])
    [one] = (await notices.due(limit=1, sending_ms=60_000)).notices
    await notices.failed(one, "it answered 500", again_in_ms=None)

    listed = await muster("list")
    arrived = await muster("test", "chat")
    receiver.answers = [500]
    refused = await muster("test", "chat")
    unknown = await muster("test", "chatt")
    retried = await muster("retry", "--all")

    for text in ("chat", receiver.url, "ask.opened", "msg_1", "given up after 1 try: it answered 500"):
        assert text in listed.stderr.replace("\n", " ")
    assert (arrived.returncode, arrived.stderr) == (0, "the ping arrived: 204\n")
    assert receiver.got[0].said["type"] == "ping"
    assert (refused.returncode, "the ping did not arrive: it answered 500" in refused.stderr) == (1, True)
    assert (unknown.returncode, "did you mean 'chat'?" in unknown.stderr) == (2, True)
    assert retried.stderr == "1 notice to be sent again\n"
    assert [one.id for one in await notices.waiting(1)] == ["msg_1"]
