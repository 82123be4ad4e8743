"""`muster token` and `muster serve` as processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from envelope.agents import WorkerCard

pytestmark = pytest.mark.redis

MUSTER = Path(sys.executable).parent / "muster"


@pytest.fixture
def home(served_stage):
    """The environment of somebody whose fleet is the stage's."""
    settings = served_stage.muster.settings
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    pools = {"MUSTER_POOLS": json.dumps({"build": 1})}
    return {
        **clean, **pools, "MUSTER_REDIS_URL": settings.redis_url, "MUSTER_FLEET": settings.fleet,
        "MUSTER_STATE_DIR": str(settings.state_dir),
    }  # fmt: skip


def muster(home, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([MUSTER, *words], env=home, capture_output=True, text=True, timeout=120)


def test_tokens_are_made_listed_and_revoked(home):
    made = muster(home, "token", "create", "ci", "--role", "submitter", "--tenant", "team")
    again = muster(home, "token", "create", "ci")
    listed = muster(home, "token", "list")
    revoked = muster(home, "token", "revoke", "ci")
    missing = muster(home, "token", "revoke", "ci")
    wrong = muster(home, "token", "create", "a b")

    assert made.stdout.startswith("muster_")
    files = [file for file in Path(home["MUSTER_STATE_DIR"]).rglob("*") if file.is_file()]
    assert files and not [file for file in files if made.stdout.strip().encode() in file.read_bytes()]
    assert (again.returncode, "there is a token 'ci' already" in again.stderr) == (2, True)
    assert listed.stdout == "ci\tsubmitter\tteam\n"
    assert (revoked.returncode, missing.returncode, wrong.returncode) == (0, 2, 2)


async def page_of(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with session.get(url) as response:
        return response.status, await response.text()


async def test_a_server_answers_until_it_is_stopped_whoever_serves_the_pools(home, served_stage):
    await served_stage.transport.announce(WorkerCard(worker="build", pool="build", slots=1, agents=()), ttl_s=600)
    secret = muster(home, "token", "create", "me").stdout.strip()
    server = subprocess.Popen([MUSTER, "serve", "--port", "0"], env=home, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        line = await asyncio.to_thread(server.stderr.readline)
        [url] = re.findall(r"listening on (http://127\.0\.0\.1:\d+)", line)
        line = await asyncio.to_thread(server.stderr.readline)
        [shown_at] = re.findall(r"metrics are at (http://127\.0\.0\.1:\d+)/metrics", line)
        async with aiohttp.ClientSession() as session:
            pages = {path: await page_of(session, shown_at + path) for path in ("/metrics", "/healthz", "/readyz")}
        taken = await asyncio.to_thread(muster, home, "serve", "--port", url.rpartition(":")[2])
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {secret}"}) as session,
            session.get(f"{url}/v1/workers") as response,
        ):
            workers = await response.json()
    finally:
        server.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(server.wait, 60)

    assert (pages["/healthz"], pages["/readyz"]) == ((200, "ok\n"), (200, "ok\n"))
    assert "muster_build_info{" in pages["/metrics"][1] and "muster_redis_up 1.0" in pages["/metrics"][1]
    assert {one["worker"] for one in workers} == {"build"}
    assert code == 0
    assert (taken.returncode, "cannot be listened on" in taken.stderr) == (2, True)


def test_who_made_and_revoked_a_token_stands_in_the_audit_log(home, tmp_path):
    muster(home, "token", "create", "ci", "--role", "submitter", "--tenant", "team")
    muster(home, "token", "create", "ci")  # refused, and no decision
    muster(home, "token", "revoke", "ci")
    listed = [json.loads(line) for line in muster(home, "audit", "list", "--json").stdout.splitlines()]
    shown = muster(home, "audit", "list", "--subject", "ci", "--limit", "1")
    export = muster(home, "audit", "export").stdout
    (kept := tmp_path / "log.jsonl").write_text(export)
    whole = muster(home, "audit", "verify", "--against", str(kept))
    kept.write_text(export.replace("submitter", "admin"))
    otherwise = muster(home, "audit", "verify", "--against", str(kept))
    kept.write_text("no\n")
    unreadable = muster(home, "audit", "verify", "--against", str(kept))

    assert [(one["action"], one["subject"], one["tenant"]) for one in listed] == [
        ("revoke", "ci", "team"),
        ("token", "ci", "team"),
    ]
    assert {one["actor"].startswith("cli:") for one in listed} == {True}
    assert listed[0]["prev_hash"] == listed[1]["hash"]
    assert ("revoke" in shown.stderr, "token" in shown.stderr) == (True, False)
    assert (whole.returncode, whole.stderr) == (0, "2 entries, whole; 0 of them under a seal\n")
    assert (otherwise.returncode, "broken at #1: was exported otherwise" in otherwise.stderr) == (1, True)
    assert (unreadable.returncode, "no export of the audit log" in unreadable.stderr) == (2, True)
